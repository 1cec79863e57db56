//! Telephone calls, an application on Syncline.
//!
//! - [`call_box`]: a box that takes calls, the sending side of an outbox

pub mod call_box;
