//! Makes sure that the folders whose files are embedded exist, so that the crate compiles before the browser package
//! has been built. What is not there is answered with a 404 that says how to make it.
//!
//! In the repository `web/console`, `web/docs` and `web/pkg` are links to the folders in which the pages and the documents are written and
//! the package is built. Cargo follows them: in a published crate they are folders.

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    for name in ["console", "docs", "pkg"] {
        let entry = web.join(name);
        let folder = fs::read_link(&entry).map_or(entry, |target| web.join(target));
        fs::create_dir_all(&folder)?;
        // A release embeds the files at compile time and must notice when they change.
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    Ok(())
}
