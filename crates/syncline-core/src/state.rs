//! Shared state: every context shows the same entities and settings, and no change is lost.

mod index;
pub mod json;
mod layout;
pub mod names;
mod settings;
mod stamp;
mod value;

pub use index::{Entry, Index, is_forgotten};
pub use layout::Layout;
pub use settings::{FieldError, Scope, Settings};
pub use stamp::{Clock, Stamp};
pub use value::{Encoder, Refused, Stored, Value, Why, is_id};
