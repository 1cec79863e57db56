//! Everything that is shipped, in `dist/`: the binaries, the npm packages, the extension, and their checksums.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use crate::{command, files, screen, setup, wasm};

const CHECKSUMS: &str = "SHA256SUMS";
/// The one script of the package that the extension imports.
const EXTENSION_LOADS: &str = "state.js";
/// It keeps its state to itself.
const EXTENSION_LEAVES: &[&str] = &["state-bridge.js", "state-codec.js"];
/// The console's design tokens, which the extension's pages use too.
const TOKENS: &str = "web/console/assets/tokens.css";
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

pub(crate) fn perform(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, wasm::NEEDS)?;
    screen::heading("Build");
    let package = wasm::build(workspace)?;
    command::stream(&mut workspace.cargo(["build", "-p", "syncline-cli", "--bins", "--release"]))?;

    screen::heading("Ship");
    let place = workspace.root.join("dist");
    files::replace_folder(&place, |folder| {
        binaries(workspace, &folder.join("bin"))?;
        npm(workspace, &package.folder, folder)?;
        extension(
            &workspace.root.join("apps/checklist/extension"),
            &workspace.root.join(TOKENS),
            &package.folder,
            &folder.join("extension"),
        )?;
        let sums = checksums(folder)?;
        fs::write(folder.join(CHECKSUMS), sums).context("cannot write the checksums")
    })?;
    for file in files::tree(&place)? {
        let bytes = fs::metadata(place.join(&file)).map_or(0, |data| data.len());
        println!(
            "    {:>10}  dist/{}",
            format!("{}.{} KB", bytes / 1000, bytes % 1000 / 100),
            file.display()
        );
    }
    Ok(())
}

fn binaries(workspace: &Workspace, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for name in &workspace.binaries {
        fs::copy(workspace.binary("release", name), folder.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

/// Each package as a folder to look into, and as the archive that npm publishes and installs.
fn npm(workspace: &Workspace, package: &Path, folder: &Path) -> Result<()> {
    for source in wasm::SOURCES {
        let copy = folder.join("npm").join(source.npm);
        source.write_npm(workspace, package, &copy)?;
        let mut pack = workspace.npm(&copy, ["pack", "--silent", "--pack-destination"]);
        command::watch(&format!("npm pack {}", source.npm), pack.arg(folder))?;
    }
    Ok(())
}

/// The extension with the design tokens and what it loads of the package: copies, because a browser loads an extension
/// from its own folder only.
fn extension(source: &Path, tokens: &Path, package: &Path, folder: &Path) -> Result<()> {
    files::copy_tree(source, folder)?;
    fs::copy(tokens, folder.join("tokens.css"))
        .with_context(|| format!("cannot copy {}", tokens.display()))?;
    let copy = folder.join("pkg");
    fs::create_dir_all(&copy).with_context(|| format!("cannot create {}", copy.display()))?;
    let mut names = wasm::loads(package, EXTENSION_LOADS, EXTENSION_LEAVES)?;
    names.extend(LICENCES.map(str::to_owned));
    for name in names {
        fs::copy(package.join(&name), copy.join(&name)).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

/// As `sha256sum --check` reads them.
fn checksums(folder: &Path) -> Result<String> {
    let mut lines = String::new();
    for file in files::tree(folder)? {
        let sum = files::sha256(&folder.join(&file))?;
        lines.push_str(&format!("{sum}  {}\n", file.display()));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_extension_has_the_tokens_and_what_it_loads_of_the_package_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let [source, tokens, package, folder] =
            ["source", "tokens", "package", "extension"].map(|name| base.path().join(name));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&package).unwrap();
        fs::write(source.join("manifest.json"), "{}").unwrap();
        fs::write(&tokens, ":root {}").unwrap();
        let state = "import { wasmModule } from \"./wasm.js\"; new URL(\"./state.wasm\", import.meta.url)";
        fs::write(package.join("state.js"), state).unwrap();
        for name in ["wasm.js", "state.wasm", "lock.js", "state.d.ts", "LICENSE-APACHE", "LICENSE-MIT"] {
            fs::write(package.join(name), name).unwrap();
        }
        extension(&source, &tokens, &package, &folder).unwrap();
        let files: Vec<_> =
            files::tree(&folder).unwrap().iter().map(|file| file.display().to_string()).collect();
        let pkg = ["LICENSE-APACHE", "LICENSE-MIT", "state.js", "state.wasm", "wasm.js"];
        let mut wanted = vec!["manifest.json".to_owned()];
        wanted.extend(pkg.map(|name| format!("pkg/{name}")));
        wanted.push("tokens.css".to_owned());
        assert_eq!(files, wanted);
    }

    #[test]
    fn checksums_are_what_sha256sum_checks() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("bin")).unwrap();
        fs::write(base.path().join("bin/syncline"), "binary").unwrap();
        fs::write(base.path().join("notes"), "text").unwrap();
        fs::write(base.path().join(CHECKSUMS), checksums(base.path()).unwrap()).unwrap();
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--quiet", CHECKSUMS]).current_dir(base.path());
        assert!(command::succeeds(&mut check));
        fs::write(base.path().join("notes"), "other").unwrap();
        assert!(!command::succeeds(&mut check));
    }
}
