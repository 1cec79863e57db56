//! Carries what an application committed to its front end: what `serversync` runs.
//!
//! - [`settings`]: what it is told ([`Settings`])

pub mod settings;

pub use settings::{InvalidSettings, Settings};
