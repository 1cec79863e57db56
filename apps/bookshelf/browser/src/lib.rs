//! The bookshelf in a page, as a WASM module, and the npm package around it.
//!
//! - [`covers`]: the covers a page remembers
//! - `js/`: the npm package `syncline-bookshelf` by hand, which depends on the platform's package `syncline`
//!
//! As in `syncline-browser`, this layer decides nothing and touches no browser API. `cargo xtask wasm` builds the module.

pub mod covers;

// Brings what each module of the platform exports: `version`, and the text of the last panic.
use syncline_browser as _;
