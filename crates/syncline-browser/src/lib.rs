//! The rules as WASM modules, one for each system, and the JavaScript package around them.
//!
//! Each system is a feature; `cargo xtask wasm` builds a module with each of them alone. A crate that makes a module of its
//! own can use this one without any feature: its module then exports [`version`] and [`panic::last_panic`] too.
//!
//! - [`lock`], [`autosave`]: the project lock, and the document that saves itself under it
//! - [`viewer`]: the heartbeat of a page
//! - [`queue`]: keyed work at a pace
//! - [`state`]: one context's view of the shared state
//! - [`token`]: when a page asks for the token that it shows to a node
//! - [`mod@panic`]: what is left to read after a defect
//! - `js/`: the npm package by hand: `syncline.js` is its front door, `syncline.d.ts` its documentation
//!
//! This layer decides nothing and touches no browser API: it hands inputs to the core and small plain values back. No
//! export returns `Err`, which would be thrown as an untyped exception; what can go wrong is a value, and the facade in
//! `js/` throws the typed errors. Every byte here is loaded by pages: no serde, no formatting that is not needed.

#[cfg(feature = "lock")]
pub mod autosave;
#[cfg(feature = "lock")]
pub mod lock;
pub mod panic;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(feature = "state")]
pub mod state;
#[cfg(feature = "token")]
pub mod token;
#[cfg(feature = "viewer")]
pub mod viewer;

use wasm_bindgen::prelude::wasm_bindgen;

/// A quarter of the standard library's in bytes that pages load, and faster with the many small texts of the rules.
#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

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
