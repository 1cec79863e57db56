//! The browser packages, the platform's and those of apps: the Rust rules as one WebAssembly module for each system, their
//! glue, and the hand-written scripts around them.
//!
//! `web/pkg` is what a node serves: the platform's package, and in it a folder for each app. npm gets a package of each.
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

/// A crate whose modules pages load, and the npm package around them.
pub(crate) struct Source {
    /// What npm calls the package.
    pub(crate) npm: &'static str,
    /// What Cargo calls the crate.
    pub(crate) name: &'static str,
    /// Where it is; its `js/` has the manifest of the npm package and the scripts.
    folder: &'static str,
    /// The example of the crate that becomes a module.
    example: &'static str,
    /// Whether the crate has a feature for each system; otherwise it has one system.
    by_feature: bool,
    /// The folder for pages: in `js/`, in the npm package and in `web/pkg`. The platform's is empty: everything is for pages.
    pages: &'static str,
}

const PLATFORM: Source = Source {
    npm: "syncline",
    name: "syncline-browser",
    folder: "crates/syncline-browser",
    example: "module",
    by_feature: true,
    pages: "",
};

/// Its scripts name the platform's as `../wasm.js`, which they are for pages; in its npm package a script of that name
/// leads to the platform's package.
const BOOKSHELF: Source = Source {
    npm: "syncline-bookshelf",
    name: "syncline-bookshelf-browser",
    folder: "apps/bookshelf/browser",
    example: "covers",
    by_feature: false,
    pages: "bookshelf",
};

/// Everything that is made into packages.
pub(crate) const SOURCES: [&Source; 2] = [&PLATFORM, &BOOKSHELF];

impl Source {
    fn scripts(&self, workspace: &Workspace) -> PathBuf {
        workspace.root.join(self.folder).join("js")
    }

    /// What the package has in `web/pkg`. What is deeper there belongs to another one.
    fn built(&self, web_pkg: &Path) -> Result<Vec<PathBuf>> {
        let files = files::tree(&web_pkg.join(self.pages))?;
        let own = files.into_iter().filter(|file| file.components().count() == 1);
        Ok(own.map(|file| Path::new(self.pages).join(file)).collect())
    }

    /// Writes the package as npm gets it into `folder`.
    pub(crate) fn write_npm(&self, workspace: &Workspace, web_pkg: &Path, folder: &Path) -> Result<()> {
        files::copy_tree(&self.scripts(workspace), folder)?;
        for file in self.built(web_pkg)? {
            fs::copy(web_pkg.join(&file), folder.join(&file))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        copy_licences(workspace, folder)
    }
}

/// A module of a package, and what belongs to it.
struct System {
    source: &'static Source,
    /// The glue is named after it.
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
    System {
        source: &PLATFORM,
        name: "viewer",
        opt_level: "3",
        entry: "viewer.js",
        without: &["token.js"],
        budget_bytes: 13_800,
    },
    System {
        source: &PLATFORM,
        name: "lock",
        opt_level: "3",
        entry: "autosave.js",
        without: &[],
        budget_bytes: 40_000,
    },
    System {
        source: &PLATFORM,
        name: "queue",
        opt_level: "3",
        entry: "queue.js",
        without: &[],
        // Groups have paces of their own.
        budget_bytes: 60_500,
    },
    System {
        source: &PLATFORM,
        name: "state",
        opt_level: "z",
        entry: "state.js",
        without: &["state-bridge.js", "state-codec.js"],
        // Values say which addition they belong to.
        budget_bytes: 63_500,
    },
    System {
        source: &PLATFORM,
        name: "bridge",
        opt_level: "z",
        entry: "state.js",
        without: &["state-codec.js", "syncline_state_bg.wasm", "syncline_token_bg.wasm"],
        // And what the node does not list is compared with the marks in storage.
        budget_bytes: 80_000,
    },
    System {
        source: &PLATFORM,
        name: "token",
        opt_level: "z",
        entry: "client.js",
        without: &[],
        budget_bytes: 12_000,
    },
    System {
        source: &BOOKSHELF,
        name: "covers",
        opt_level: "3",
        entry: "bookshelf/covers.js",
        without: &[],
        budget_bytes: 30_000,
    },
];

impl System {
    /// The name of its module in `web/pkg`.
    fn module(&self) -> String {
        let folder = if self.source.pages.is_empty() { "" } else { "/" };
        format!("{}{folder}syncline_{}_bg.wasm", self.source.pages, self.name)
    }
}

/// What a node serves of the packages.
pub(crate) struct Package {
    pub(crate) folder: PathBuf,
    /// What pages load of it, in one phrase.
    pub(crate) summary: String,
}

/// Builds what is out of date, prints what pages load, and fails where that is too large.
pub(crate) fn build(workspace: &Workspace) -> Result<Package> {
    // The platform's modules leave Cargo under one name, so nobody else may build them meanwhile.
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

/// Everything the packages are made from.
fn inputs(workspace: &Workspace, modules: &[PathBuf]) -> Result<String> {
    let mut print = Fingerprint::default();
    for module in modules {
        print.add_tree(module)?;
    }
    for source in SOURCES {
        print.add_tree(&source.scripts(workspace))?;
    }
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

fn assemble(workspace: &Workspace, modules: &[PathBuf], folder: &Path) -> Result<String> {
    for (system, module) in SYSTEMS.iter().zip(modules) {
        files::copy_tree(module, &folder.join(system.source.pages))?;
    }
    for source in SOURCES {
        let scripts = source.scripts(workspace).join(source.pages);
        files::copy_tree(&scripts, &folder.join(source.pages))?;
    }
    package::shorten(workspace, folder)?;
    copy_licences(workspace, folder)?;
    for source in SOURCES {
        let npm = source.built(folder)?.into_iter().chain(files::tree(&source.scripts(workspace))?);
        package::check_manifest(&source.scripts(workspace), &npm.collect::<Vec<_>>(), &workspace.version)?;
    }
    package::check_modules(folder, SYSTEMS)?;
    let sizes = package::measure(folder, SYSTEMS)?;
    package::print(&sizes);
    if let Some(size) = sizes.iter().find(|size| size.is_over()) {
        bail!("a page that uses this loads too much: {}", size.phrase());
    }
    let phrases: Vec<String> = sizes.iter().map(package::Size::phrase).collect();
    Ok(format!("{} brotli", phrases.join(", ")))
}

fn copy_licences(workspace: &Workspace, folder: &Path) -> Result<()> {
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(workspace.root.join(licence), folder.join(licence))
            .with_context(|| format!("cannot copy {licence}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_its_own_files_and_not_those_of_another() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bookshelf")).unwrap();
        for name in ["wasm.js", "bookshelf/covers.js"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        assert_eq!(PLATFORM.built(folder.path()).unwrap(), [Path::new("wasm.js")]);
        assert_eq!(BOOKSHELF.built(folder.path()).unwrap(), [Path::new("bookshelf/covers.js")]);
    }
}
