//! What parts offer each other and their handlers: one value for each type.
//!
//! A part offers a service while it is built; a later part finds it by its type, and a handler takes it as an argument
//! ([`Service`]). A clone of a service is the same service.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::Context;
use crate::http::Error;

/// Services by type.
#[derive(Default)]
pub struct Services(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl Services {
    /// Puts one in. Of two of a type the later one counts.
    pub fn offer<T: Clone + Send + Sync + 'static>(&mut self, service: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(service));
    }

    /// The one of this type.
    pub fn find<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>()).and_then(|service| service.downcast_ref::<T>()).cloned()
    }
}

/// A service as an argument of a handler. A part's handlers can only be reached where the part was built, so the services that
/// the part itself offers are always there; a request for another part's service that is off is an error of the node.
pub struct Service<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromRequestParts<Arc<Context>> for Service<T> {
    type Rejection = Error;

    async fn from_request_parts(_: &mut Parts, context: &Arc<Context>) -> Result<Self, Error> {
        let missing = || Error::internal(format_args!("no part offers {}", type_name::<T>()));
        context.find::<T>().map(Service).ok_or_else(missing)
    }
}
