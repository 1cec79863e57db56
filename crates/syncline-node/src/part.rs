//! The seam: how systems and apps plug into a node.
//!
//! A node is a door, a bus, a store and a list of parts. A [`Part`] reads its own section of the configuration, names the
//! routes it answers, and is put together by [`Part::build`], where it hands the node everything else it brings: services
//! for other parts, topics, pages, workers, chores. Systems of the platform, our apps and a stranger's part use the same
//! trait; the frame around them (door, bus, configuration, pages) knows none of them by name.
//!
//! - [`Routes`], [`Rules`]: addresses, and for each who may call it, how large a body may be and how long it may take
//! - [`Setup`]: what a part hands over while it is put together
//! - [`Services`]: what parts offer each other, by type
//! - [`Page`], [`Topic`]: entries of the console, and what listeners may ask for
//!
//! Guarantees: parts are configured apps first, so that an app can declare what a system then reads; they are built
//! systems first, so that an app finds the systems it needs.

mod page;
mod route;
mod service;
mod setup;
mod topic;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use syncline_store::Migrations;

use crate::config::Settings;
use crate::node::Context;

pub use page::{Files, Page};
pub(crate) use route::{Access, RouteGrant, lists};
pub use route::{CrossSite, Name, Patience, Routes, Rules};
pub use service::{Service, Services};
pub(crate) use setup::Sweeping;
pub use setup::{Built, Setup};
pub(crate) use topic::First;
pub use topic::Topic;

/// What kind of part it is: which list of the configuration switches it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A system of the platform: in `systems`, on unless the list says otherwise.
    System,
    /// An application: in `apps`, off unless the list says otherwise.
    App,
}

/// Why a part could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It needs what no other part offers.
    #[error("it needs {what}, which no part offers")]
    Missing {
        /// The type of the service.
        what: &'static str,
    },
    /// The store failed.
    #[error("{cause}{}", cause.hint().map(|hint| format!(" ({hint})")).unwrap_or_default())]
    Store {
        /// What the store said.
        #[from]
        cause: syncline_store::Error,
    },
    /// Something of its own.
    #[error("{0}")]
    Other(String),
}

/// A part of a node.
#[async_trait]
pub trait Part: Send + Sync {
    /// Its name: one lower-case word, in `systems` or `apps`.
    fn name(&self) -> &'static str;

    /// What it gives, in one sentence, for the description of the API and for help texts.
    fn about(&self) -> &'static str;

    /// Which list it is in.
    fn kind(&self) -> Kind {
        Kind::App
    }

    /// The parts without which it cannot work, by name.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads its sections of the configuration. Called once, before anything else, also when the part is off: a mistake in
    /// the file is found either way.
    fn configure(&mut self, settings: &mut Settings<'_>) {
        let _ = settings;
    }

    /// Writes keys of its own that are in no table, as they are in effect.
    fn print_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        Ok(())
    }

    /// Writes its tables as they are in effect, without secrets.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        Ok(())
    }

    /// Every text of its configuration that must not appear in any output.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its tables, and those of others that it uses. A database has the tables of the parts that are on and no others.
    fn migrations(&self) -> Vec<&'static Migrations> {
        Vec::new()
    }

    /// The addresses it answers.
    fn routes(&self) -> Routes {
        Routes::new()
    }

    /// Verbs that its handlers ask for beside those of its routes, by system: grants may have them.
    fn verbs(&self) -> &'static [(&'static str, &'static [&'static str])] {
        &[]
    }

    /// Takes over into a running node what can be taken over of these settings, which were read again. Called on the part of the new
    /// configuration; names what has changed.
    fn reload(&self, running: &Context) -> Vec<String> {
        let _ = running;
        Vec::new()
    }

    /// The settings that [`reload`](Part::reload) takes over: a table, and keys of it.
    fn reloaded(&self) -> Option<(&'static str, &'static [&'static str])> {
        None
    }

    /// Puts it together. Starts nothing: what is to run is handed to [`Setup::on_start`].
    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError>;
}

/// The parts of a node, and which of them are on. Clones are the same.
#[derive(Clone, Default)]
pub struct Parts(Arc<[Listed]>);

struct Listed {
    part: Box<dyn Part>,
    on: bool,
}

impl Parts {
    pub(crate) fn new(parts: Vec<Box<dyn Part>>, is_on: impl Fn(&dyn Part) -> bool) -> Parts {
        Parts(parts.into_iter().map(|part| Listed { on: is_on(&*part), part }).collect())
    }

    /// Those that are on, systems first.
    pub fn on(&self) -> impl Iterator<Item = &dyn Part> {
        let of = |kind| self.0.iter().filter(move |listed| listed.on && listed.part.kind() == kind);
        of(Kind::System).chain(of(Kind::App)).map(|listed| &*listed.part)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn Part> {
        self.0.iter().map(|listed| &*listed.part)
    }

    /// The names of those of one kind that are on.
    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.on().filter(|part| part.kind() == kind).map(|part| part.name().to_owned()).collect()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.on().map(Part::name)).finish()
    }
}
