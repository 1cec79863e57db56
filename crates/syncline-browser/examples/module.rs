//! The library as a WASM module: with one feature on, the rules of one system. Built by `cargo xtask wasm`.

use syncline_browser as _;
