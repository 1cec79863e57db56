//! The Rust side: components, the target for browsers, and the test runner.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{command, screen};

pub(crate) const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// rustfmt and clippy.
pub(super) fn components(workspace: &Workspace) -> Result<()> {
    // Rustup leaves a proxy where a component is missing: only running it tells.
    let answers = |name: &str| command::succeeds(&mut workspace.cargo([name, "--version"]));
    if answers("fmt") && answers("clippy") {
        screen::done("rustfmt, clippy (present)");
        return Ok(());
    }
    rustup("rustfmt and clippy", &["component", "add", "rustfmt", "clippy"])
}

/// The standard library for browsers.
pub(super) fn wasm_target() -> Result<()> {
    let library = || {
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", WASM_TARGET]);
        command::text(&mut rustc)
    };
    if has_core(Path::new(library()?.trim())) {
        screen::done(&format!("Rust target {WASM_TARGET} (present)"));
        return Ok(());
    }
    rustup(&format!("Rust target {WASM_TARGET}"), &["target", "add", WASM_TARGET])
}

/// The test runner, built from source: its project publishes no package for apt or npm.
pub(super) fn nextest(workspace: &Workspace) -> Result<()> {
    if command::succeeds(&mut workspace.cargo(["nextest", "--version"])) {
        screen::done("cargo-nextest (present)");
        return Ok(());
    }
    let mut install = workspace.cargo(["install", "--locked", "cargo-nextest"]);
    command::watch("cargo-nextest (built from source, this takes minutes, once)", &mut install)
}

fn rustup(title: &str, arguments: &[&str]) -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(arguments);
    if command::program("rustup").is_none() {
        bail!(
            "missing: {title}, and this Rust was not installed with rustup, which would add it.\n\
             With rustup:\n    {}\n\
             With Debian's own Rust:\n    apt-get install rustfmt rust-clippy libstd-rust-dev-wasm32",
            command::line(&rustup)
        );
    }
    command::watch(title, &mut rustup).with_context(|| format!("cannot add {title}"))
}

fn has_core(library: &Path) -> bool {
    let Ok(files) = fs::read_dir(library) else { return false };
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libcore-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_there_when_its_core_library_is() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("lib");
        assert!(!has_core(&library));
        fs::create_dir(&library).unwrap();
        assert!(!has_core(&library), "an empty folder is what a removed target leaves");
        fs::write(library.join("libcore-0a1b.rlib"), "").unwrap();
        assert!(has_core(&library));
    }
}
