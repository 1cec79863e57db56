//! The browser package: the Rust rules as one WebAssembly module, its glue, and the hand-written facade around both.
//!
//! Guarantees: `web/pkg` is replaced as a whole or not at all, and never grows beyond [`BUDGET_BYTES`]. Cargo decides
//! whether the module changed; the rest is skipped while the module and the facade are the same as last time.

mod package;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

use crate::files::{self, Fingerprint};
use crate::setup::{Need, WASM_TARGET};
use crate::workspace::Workspace;
use crate::{command, screen};

pub(crate) const NEEDS: &[Need] = &[Need::WasmTarget, Need::Npm];

/// What a page may have to load, brotli-compressed: more would cost its users more than it gives them.
const BUDGET_BYTES: usize = 120_000;

/// The name of the generated module and its glue; the facade imports it.
const GLUE: &str = "syncline_wasm";

/// The built package.
pub(crate) struct Package {
    pub(crate) folder: PathBuf,
    size: package::Size,
}

impl Package {
    /// Its size against the budget, in one phrase.
    pub(crate) fn summary(&self) -> String {
        self.size.against(BUDGET_BYTES)
    }
}

/// Builds the package where it is out of date, prints its sizes, and fails where it is too large.
pub(crate) fn build(workspace: &Workspace) -> Result<Package> {
    let module = compile(workspace)?;
    let _alone = files::exclusive(&workspace.notes(), "wasm")?;
    let folder = workspace.web().join("pkg");
    let stamp = workspace.notes().join("wasm.stamp");
    let inputs = inputs(workspace, &module)?;
    if fs::read_to_string(&stamp).is_ok_and(|stamp| Some(stamp) == line(&inputs, &folder)) {
        let size = package::measure(&folder)?;
        screen::note(&format!("web/pkg is up to date: {}", size.against(BUDGET_BYTES)));
        return Ok(Package { folder, size });
    }
    let size = files::replace_folder(&folder, |new| assemble(workspace, &module, new))?;
    let line = line(&inputs, &folder).context("the package that was just written cannot be read")?;
    fs::write(&stamp, line).context("cannot note what the package was built from")?;
    Ok(Package { folder, size })
}

/// Compiles the module; Cargo knows best whether there is anything to do.
fn compile(workspace: &Workspace) -> Result<PathBuf> {
    let arguments = ["build", "-p", "syncline-browser", "--profile", "wasm", "--target", WASM_TARGET];
    command::stream(&mut workspace.cargo(arguments))?;
    Ok(workspace.target.join(WASM_TARGET).join("wasm/syncline_browser.wasm"))
}

/// Everything the package is made from. The module itself carries the version of wasm-bindgen it was built with.
fn inputs(workspace: &Workspace, module: &Path) -> Result<String> {
    let mut print = Fingerprint::default();
    print.add(&fs::read(module).with_context(|| format!("cannot read {}", module.display()))?);
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
    Some(format!("{inputs} {}\n", print.hex()))
}

fn facade(workspace: &Workspace) -> PathBuf {
    workspace.root.join("crates/syncline-browser/js")
}

fn assemble(workspace: &Workspace, module: &Path, folder: &Path) -> Result<package::Size> {
    Bindgen::new()
        .input_path(module)
        .web(true)?
        .typescript(true)
        .omit_default_module_path(false)
        .out_name(GLUE)
        .generate(folder)
        .context("wasm-bindgen cannot make the glue")?;
    let binary = folder.join(format!("{GLUE}_bg.wasm"));
    shrink(workspace, &binary)?;
    // Types of the raw module's exports, which only the glue itself calls.
    fs::remove_file(folder.join(format!("{GLUE}_bg.wasm.d.ts")))
        .context("wasm-bindgen wrote other files than expected")?;
    files::copy_tree(&facade(workspace), folder)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(workspace.root.join(licence), folder.join(licence))
            .with_context(|| format!("cannot copy {licence}"))?;
    }
    package::check(folder, &workspace.version)?;
    let size = package::measure(folder)?;
    size.print();
    screen::note(&size.against(BUDGET_BYTES));
    if size.brotli() > BUDGET_BYTES {
        bail!("the browser package is too large: {}", size.against(BUDGET_BYTES));
    }
    Ok(size)
}

/// Names and debug sections go here and not in Cargo's profile, which would also strip what wasm-bindgen reads.
fn shrink(workspace: &Workspace, binary: &Path) -> Result<()> {
    let tool = workspace.web().join("node_modules/binaryen/bin/wasm-opt");
    let mut optimise = workspace.node(&workspace.root, [tool.as_path(), binary]);
    optimise.args(["-Oz", "--strip-debug", "--strip-producers", "-o"]).arg(binary);
    command::watch("wasm-opt", &mut optimise)
}
