//! Makes sure that the folders whose files are embedded exist, so that the crate compiles before the browser package
//! has been built. What is not there is answered with a 404 that says how to make it.

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    for folder in ["pages", "pkg"] {
        let folder = web.join(folder);
        fs::create_dir_all(&folder)?;
        // A release embeds the files at compile time and must notice when they change.
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    Ok(())
}
