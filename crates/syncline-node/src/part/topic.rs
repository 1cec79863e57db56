//! Topics of `/api/events`: what a listener may ask for by name, and what it hears first.

use std::sync::Arc;

use async_trait::async_trait;
use syncline_core::access::Need;

use crate::http::Error;

/// What a new listener of a topic hears before anything else.
#[async_trait]
pub(crate) trait First: Send + Sync {
    /// Its facts as JSON. `about` is what the listener asked for alone; `None` says that there is nothing to tell.
    async fn first(&self, about: Option<&str>) -> Result<Option<String>, Error>;
}

/// A topic: the first word of the names of a part's events.
#[derive(Clone)]
pub struct Topic {
    pub(crate) name: &'static str,
    /// The parameter by which a listener asks for one thing alone.
    pub(crate) parameter: Option<&'static str>,
    /// Whether that parameter names what things begin with, and not the things themselves.
    pub(crate) by_prefix: bool,
    pub(crate) first: Option<Arc<dyn First>>,
    /// The system and the verb of the grant that lets a caller hear of a thing.
    pub(crate) readable_by: Option<(&'static str, &'static str)>,
}

impl Topic {
    /// A topic without more to it, for the owner alone.
    pub fn new(name: &'static str) -> Topic {
        Topic { name, parameter: None, by_prefix: false, first: None, readable_by: None }
    }

    /// The same topic, of which a caller with the grant `system:name:verb` hears what is about `name`. An event about
    /// nothing in particular reaches those whose grant covers every name.
    #[must_use]
    pub fn readable_by(self, system: &'static str, verb: &'static str) -> Topic {
        Topic { readable_by: Some((system, verb)), ..self }
    }

    /// A topic whose listeners first hear how things are.
    pub(crate) fn beginning(name: &'static str, first: impl First + 'static) -> Topic {
        Topic { first: Some(Arc::new(first)), ..Topic::new(name) }
    }

    /// The same topic, of which a listener may ask for one thing alone by the query's `parameter`.
    pub(crate) fn about(self, parameter: &'static str) -> Topic {
        Topic { parameter: Some(parameter), ..self }
    }

    /// The same topic, of which a listener may ask for things that begin with some text by the query's `parameter`. Its events about
    /// nothing in particular carry no facts, and everybody hears them who hears of anything.
    pub(crate) fn about_prefixes(self, parameter: &'static str) -> Topic {
        Topic { parameter: Some(parameter), by_prefix: true, ..self }
    }

    /// What a listener needs to hear of `name`; `None` asks whether it may hear of anything. A topic that names no grant
    /// is the owner's.
    pub(crate) fn need<'a>(&self, name: Option<&'a str>) -> Option<Need<'a>> {
        self.readable_by.map(|(system, verb)| Need { system, verb, name })
    }
}
