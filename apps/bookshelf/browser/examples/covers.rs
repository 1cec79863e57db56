//! The library as a WASM module. Built by `cargo xtask wasm`.

use syncline_bookshelf_browser as _;
