//! The rules as a WASM module, and the JavaScript package around it.
//!
//! - [`lock`], [`autosave`]: the project lock, and the document that saves itself under it
//! - [`viewer`]: the heartbeat of a page
//! - [`queue`]: keyed work at a pace
//! - [`covers`]: the covers a page remembers
//! - [`mod@panic`]: what is left to read after a defect
//! - `js/`: the npm package by hand: `syncline.js` is its front door, `syncline.d.ts` its documentation
//!
//! This layer decides nothing and touches no browser API: it hands inputs to the core and small plain values back. No
//! export returns `Err`, which would be thrown as an untyped exception; what can go wrong is a value, and the facade in
//! `js/` throws the typed errors. Every byte here is loaded by every page: no serde, no formatting that is not needed.

pub mod autosave;
pub mod covers;
pub mod lock;
pub mod panic;
pub mod queue;
pub mod viewer;

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of the rules, as in `Cargo.toml`.
#[wasm_bindgen]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Runs once, when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    panic::record();
}
