//! Topics of `/api/events`: what a listener may ask for by name, and what it hears first.

use std::sync::Arc;

use async_trait::async_trait;

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
    pub(crate) first: Option<Arc<dyn First>>,
}

impl Topic {
    /// A topic without more to it.
    pub fn new(name: &'static str) -> Topic {
        Topic { name, parameter: None, first: None }
    }

    /// A topic whose listeners first hear how things are.
    pub(crate) fn beginning(name: &'static str, first: impl First + 'static) -> Topic {
        Topic { name, parameter: None, first: Some(Arc::new(first)) }
    }

    /// The same topic, of which a listener may ask for one thing alone by the query's `parameter`.
    pub(crate) fn about(self, parameter: &'static str) -> Topic {
        Topic { parameter: Some(parameter), ..self }
    }
}
