//! One WebAssembly module with its glue: compiled by Cargo, bound by wasm-bindgen, shrunk by wasm-opt.
//!
//! Guarantees: the work after Cargo is done once for each module that differs from the last.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use super::{Source, System};
use crate::command;
use crate::files::{self, Fingerprint};
use crate::setup::WASM_TARGET;
use crate::workspace::Workspace;

/// Every page pays for the stack with memory, and the linker's is a megabyte. The rules nest no deeper than their values do.
const STACK: &str = "-Clink-arg=-zstack-size=131072";

/// The folder with the module of one system, `syncline_<system>_bg.wasm`, and its glue.
pub(super) fn build(workspace: &Workspace, system: &System) -> Result<PathBuf> {
    let module = compile(workspace, system)?;
    let folder = workspace.notes().join("wasm").join(system.name);
    let stamp = folder.with_extension("stamp");
    let inputs = inputs(workspace, &module)?;
    if !folder.exists() || fs::read_to_string(&stamp).ok().as_ref() != Some(&inputs) {
        fs::create_dir_all(folder.parent().expect("a joined path has a parent"))
            .context("cannot create a folder for the modules")?;
        files::replace_folder(&folder, |new| bind(workspace, system.name, &module, new))?;
        fs::write(&stamp, inputs).context("cannot note what the module was built from")?;
    }
    Ok(folder)
}

/// Compiles the module with this system alone; Cargo knows best whether there is anything to do.
fn compile(workspace: &Workspace, system: &System) -> Result<PathBuf> {
    let Source { name, example, by_feature, .. } = *system.source;
    let mut cargo = workspace.cargo(["build", "-p", name, "--example", example]);
    cargo.args(["--profile", "wasm", "--target", WASM_TARGET]);
    if by_feature {
        cargo.args(["--no-default-features", "--features", system.name]);
    }
    cargo.env("CARGO_PROFILE_WASM_OPT_LEVEL", system.opt_level);
    command::stream(cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", STACK))?;
    Ok(workspace.target.join(WASM_TARGET).join("wasm/examples").join(example).with_extension("wasm"))
}

/// The compiled module, which carries the version of wasm-bindgen it was built with, and the tools after it.
fn inputs(workspace: &Workspace, module: &Path) -> Result<String> {
    let mut print = Fingerprint::default();
    print.add(&fs::read(module).with_context(|| format!("cannot read {}", module.display()))?);
    print.add(
        &fs::read(workspace.web().join("package-lock.json")).context("cannot read web/package-lock.json")?,
    );
    print.add(include_bytes!("module.rs"));
    Ok(print.hex())
}

fn bind(workspace: &Workspace, system: &str, module: &Path, folder: &Path) -> Result<()> {
    let glue = format!("syncline_{system}");
    Bindgen::new()
        .input_path(module)
        .web(true)?
        // The facade has types of its own, and always says where the module is.
        .typescript(false)
        .omit_default_module_path(true)
        .out_name(&glue)
        .generate(folder)
        .context("wasm-bindgen cannot make the glue")?;
    let script = folder.join(format!("{glue}.js"));
    let text = fs::read_to_string(&script).context("wasm-bindgen wrote no glue")?;
    fs::write(&script, without_docs(&text)).context("cannot write the glue")?;
    shrink(workspace, system, &folder.join(format!("{glue}_bg.wasm")))
}

/// Whoever wants the documentation of a module reads its source; pages need not load it.
fn without_docs(script: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in script.lines() {
        inside |= line.trim_start().starts_with("/**");
        if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
        inside &= !line.trim_end().ends_with("*/");
    }
    kept
}

/// Names and debug sections go here and not in Cargo's profile, which would also strip what wasm-bindgen reads.
fn shrink(workspace: &Workspace, system: &str, binary: &Path) -> Result<()> {
    let tool = workspace.web().join("node_modules/binaryen/bin/wasm-opt");
    let mut optimise = workspace.node(&workspace.root, [tool.as_path(), binary]);
    // Twice: the first round leaves something for the second.
    optimise.args(["-Oz", "-Oz", "--strip-debug", "--strip-producers", "-o"]).arg(binary);
    command::watch(&format!("wasm-opt {system}"), &mut optimise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glue_loses_its_documentation_and_nothing_else() {
        let script = "/** Beats. */\nexport class A {\n    /**\n     * One.\n     *\n     * @returns {number}\n     */\n    b() { return 2; }\n}\n";
        assert_eq!(without_docs(script), "export class A {\n    b() { return 2; }\n}\n");
    }
}
