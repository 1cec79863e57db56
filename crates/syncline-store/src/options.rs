//! What a store is opened for: whose tables, where they are, and whether opening may change them.

use crate::migration::{self, Migrations};
use crate::names::{DEFAULT_SCHEMA, Schema};
use crate::{Error, parts};

/// Connections to a PostgreSQL server that one store opens at most, where nothing else is said.
pub const CONNECTIONS: u32 = 10;
/// Bringing the tables up to date takes two at a time.
pub const CONNECTIONS_MIN: u32 = 2;
/// More would only wait for each other in the server.
pub const CONNECTIONS_MAX: u32 = 500;

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
    connections: u32,
    listen_url: Option<String>,
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
        let (connections, listen_url) = (CONNECTIONS, None);
        Self { schema, migrations, connections, listen_url, migrate: true, create: true, looks: false }
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

    /// Most connections to a PostgreSQL server; [`CONNECTIONS`] otherwise. One more listens for announcements.
    #[must_use]
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// The address of the same PostgreSQL database past a pooler, for the one connection that listens for announcements.
    #[must_use]
    pub fn listen_url(mut self, url: Option<impl Into<String>>) -> Self {
        self.listen_url = url.map(Into::into);
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

    /// The same for other parts.
    pub(crate) fn for_parts(mut self, parts: &[&'static Migrations]) -> Self {
        self.migrations = parts.to_vec();
        self
    }

    pub(crate) fn migrates(&self) -> bool {
        self.migrate
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
        if !(CONNECTIONS_MIN..=CONNECTIONS_MAX).contains(&self.connections) {
            let reason =
                format!("are {}; from {CONNECTIONS_MIN} to {CONNECTIONS_MAX} are possible", self.connections);
            return Err(Error::invalid("connections", reason));
        }
        Ok(Opening {
            schema: Schema::new(&self.schema)?,
            parts: migration::with_needed(&self.migrations),
            connections: self.connections,
            listen_url: self.listen_url.clone(),
            mode,
            create: self.create,
        })
    }
}

/// Options that were checked.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) schema: Schema,
    /// What was asked for and what that needs.
    pub(crate) parts: Vec<&'static Migrations>,
    pub(crate) connections: u32,
    pub(crate) listen_url: Option<String>,
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
