//! What a store is opened for: whose tables, where they are, and whether opening may change them.

use crate::migration::{self, Migrations};
use crate::names::{DEFAULT_SCHEMA, Schema};
use crate::{Error, parts};

/// How a [`Store`](crate::Store) is opened.
///
/// ```
/// use syncline_store::{Options, parts};
///
/// let locks_alone = Options::of(&[&parts::LOCK]).schema("team_locks");
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    schema: String,
    migrations: Vec<&'static Migrations>,
    migrate: bool,
    create: bool,
    looks: bool,
}

impl Default for Options {
    /// All systems of the platform, brought up to date.
    fn default() -> Self {
        Self::of(parts::ALL)
    }
}

impl Options {
    /// These parts, with what they need, brought up to date. Only they have tables.
    #[must_use]
    pub fn of(parts: &[&'static Migrations]) -> Self {
        let (schema, migrations) = (DEFAULT_SCHEMA.to_owned(), parts.to_vec());
        Self { schema, migrations, migrate: true, create: true, looks: false }
    }

    /// One part more.
    #[must_use]
    pub fn with(mut self, part: &'static Migrations) -> Self {
        self.migrations.push(part);
        self
    }

    /// Our schema on PostgreSQL; [`DEFAULT_SCHEMA`] otherwise. On SQLite our tables have the prefix `syncline_` in any case.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Whether opening brings the tables up to date. Otherwise they have to be, and the role needs no right to create or alter
    /// anything: see [`migration_sql`](crate::migration_sql).
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Whether a SQLite file that does not exist is made. `?mode=rwc` in the address makes it in any case.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The parts that were named.
    #[must_use]
    pub fn parts(&self) -> &[&'static Migrations] {
        &self.migrations
    }

    /// Opening changes nothing at all.
    pub(crate) fn looking(mut self) -> Self {
        self.looks = true;
        self
    }

    pub(crate) fn checked(&self) -> Result<Opening, Error> {
        let mode = match (self.looks, self.migrate) {
            (true, _) => Mode::Look,
            (false, true) => Mode::Migrate,
            (false, false) => Mode::Trust,
        };
        let schema = Schema::new(&self.schema)?;
        Ok(Opening { schema, parts: migration::with_needed(&self.migrations), mode, create: self.create })
    }
}

/// Options that were checked.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) schema: Schema,
    /// What was asked for and what that needs.
    pub(crate) parts: Vec<&'static Migrations>,
    pub(crate) mode: Mode,
    pub(crate) create: bool,
}

/// What opening may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Tables are created and brought up to date.
    Migrate,
    /// Tables have to be there; rows may be written.
    Trust,
    /// Nothing.
    Look,
}

impl Opening {
    pub(crate) fn has(&self, part: &'static Migrations) -> bool {
        self.parts.iter().any(|known| known.part == part.part)
    }

    /// All systems of the platform, as most are opened.
    #[cfg(test)]
    pub(crate) fn all() -> Self {
        Options::default().checked().expect("the defaults are right")
    }
}
