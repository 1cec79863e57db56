//! The browser package: the Rust rules as one WebAssembly module for each system, their glue, and the hand-written facade
//! around them.
//!
//! Guarantees: `web/pkg` is replaced as a whole or not at all, and what a page loads for a system never grows beyond its
//! budget. Cargo decides whether a module changed; everything after it is skipped while its inputs are the same.

mod module;
mod package;

pub(crate) use package::loads;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files::{self, Fingerprint};
use crate::screen;
use crate::setup::Need;
use crate::workspace::Workspace;

pub(crate) const NEEDS: &[Need] = &[Need::WasmTarget, Need::Npm];

/// A module of the package, and what belongs to it.
struct System {
    /// The feature of the browser crate; the glue is named after it.
    name: &'static str,
    /// Cargo's optimisation level.
    opt_level: &'static str,
    /// The script a page imports.
    entry: &'static str,
    /// What that names and such a page does not load.
    without: &'static [&'static str],
    /// What a page that imports it may have to load, brotli-compressed: more would cost its users more than it gives.
    budget_bytes: usize,
}

/// Small modules are no larger when they are optimised for speed; that of state, with its many rules, is half as large again.
const SYSTEMS: &[System] = &[
    System { name: "viewer", opt_level: "3", entry: "viewer.js", without: &[], budget_bytes: 18_000 },
    System { name: "lock", opt_level: "3", entry: "autosave.js", without: &[], budget_bytes: 46_000 },
    System { name: "queue", opt_level: "3", entry: "queue.js", without: &[], budget_bytes: 54_000 },
    System {
        name: "state",
        opt_level: "z",
        entry: "state.js",
        without: &["state-bridge.js", "state-codec.js"],
        budget_bytes: 62_500,
    },
    System {
        name: "bridge",
        opt_level: "z",
        entry: "state.js",
        without: &["state-codec.js", "syncline_state_bg.wasm"],
        budget_bytes: 75_000,
    },
    System { name: "covers", opt_level: "3", entry: "covers.js", without: &[], budget_bytes: 36_000 },
];

/// The built package.
pub(crate) struct Package {
    pub(crate) folder: PathBuf,
    /// What pages load of it, in one phrase.
    pub(crate) summary: String,
}

/// Builds the package where it is out of date, prints its sizes, and fails where it is too large.
pub(crate) fn build(workspace: &Workspace) -> Result<Package> {
    // All modules leave Cargo under one name, so nobody else may build them meanwhile.
    let _alone = files::exclusive(&workspace.notes(), "wasm")?;
    let modules =
        SYSTEMS.iter().map(|system| module::build(workspace, system)).collect::<Result<Vec<_>>>()?;
    let folder = workspace.web().join("pkg");
    let stamp = workspace.notes().join("wasm.stamp");
    let inputs = inputs(workspace, &modules)?;
    let noted = fs::read_to_string(&stamp).unwrap_or_default();
    let noted = noted.split_once('\n');
    if let Some((_, summary)) = noted.filter(|(stamp, _)| Some(*stamp) == line(&inputs, &folder).as_deref()) {
        screen::note(&format!("web/pkg is up to date: {summary}"));
        return Ok(Package { folder, summary: summary.to_owned() });
    }
    let summary = files::replace_folder(&folder, |new| assemble(workspace, &modules, new))?;
    let line = line(&inputs, &folder).context("the package that was just written cannot be read")?;
    fs::write(&stamp, format!("{line}\n{summary}")).context("cannot note what the package was built from")?;
    Ok(Package { folder, summary })
}

/// Everything the package is made from.
fn inputs(workspace: &Workspace, modules: &[PathBuf]) -> Result<String> {
    let mut print = Fingerprint::default();
    for module in modules {
        print.add_tree(module)?;
    }
    print.add_tree(&facade(workspace))?;
    print.add(
        &fs::read(workspace.web().join("package-lock.json")).context("cannot read web/package-lock.json")?,
    );
    print.add(workspace.version.as_bytes());
    print.add(include_bytes!("wasm.rs"));
    print.add(include_bytes!("wasm/package.rs"));
    Ok(print.hex())
}

/// The stamp holds the inputs and the outputs, so that a package someone has touched is made again.
fn line(inputs: &str, folder: &Path) -> Option<String> {
    let mut print = Fingerprint::default();
    print.add_tree(folder).ok()?;
    Some(format!("{inputs} {}", print.hex()))
}

fn facade(workspace: &Workspace) -> PathBuf {
    workspace.root.join("crates/syncline-browser/js")
}

fn assemble(workspace: &Workspace, modules: &[PathBuf], folder: &Path) -> Result<String> {
    for module in modules {
        files::copy_tree(module, folder)?;
    }
    files::copy_tree(&facade(workspace), folder)?;
    package::shorten(workspace, folder)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(workspace.root.join(licence), folder.join(licence))
            .with_context(|| format!("cannot copy {licence}"))?;
    }
    package::check(folder, &workspace.version, SYSTEMS)?;
    let sizes = package::measure(folder, SYSTEMS)?;
    package::print(&sizes);
    if let Some(size) = sizes.iter().find(|size| size.is_over()) {
        bail!("a page that uses this loads too much: {}", size.phrase());
    }
    let phrases: Vec<String> = sizes.iter().map(package::Size::phrase).collect();
    Ok(format!("{} brotli", phrases.join(", ")))
}
