//! Where things are: the repository's folders, its version and its commands, as Cargo itself tells them.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;

/// The repository this program was built from.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`; every command starts here unless it says otherwise.
    pub(crate) root: PathBuf,
    /// Cargo's output folder, wherever the user has put it.
    pub(crate) target: PathBuf,
    /// The one version that all crates and npm packages share.
    pub(crate) version: String,
    /// The names of the binaries that users get.
    pub(crate) binaries: Vec<String>,
}

impl Workspace {
    pub(crate) fn load() -> Result<Workspace> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        Workspace::from_metadata(&command::text(&mut command)?)
    }

    fn from_metadata(json: &str) -> Result<Workspace> {
        let metadata: Value = serde_json::from_str(json).context("cargo metadata answered no JSON")?;
        let folder = |name: &str| metadata[name].as_str().map(PathBuf::from);
        let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
        let cli = packages
            .iter()
            .find(|package| package["name"] == "syncline-cli")
            .context("the workspace has no package syncline-cli")?;
        let targets = cli["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Workspace {
            root: folder("workspace_root").context("cargo metadata names no workspace root")?,
            target: folder("target_directory").context("cargo metadata names no target folder")?,
            version: cli["version"].as_str().context("syncline-cli has no version")?.to_owned(),
            binaries: targets
                .iter()
                .filter(|target| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"bin".into())))
                .filter_map(|target| target["name"].as_str().map(str::to_owned))
                .collect(),
        })
    }

    /// The folder of pages, browser tests and their npm packages.
    pub(crate) fn web(&self) -> PathBuf {
        self.root.join("web")
    }

    /// A binary of the workspace, after a build with `profile` (`debug` or `release`).
    pub(crate) fn binary(&self, profile: &str, name: &str) -> PathBuf {
        self.target.join(profile).join(name)
    }

    /// Where this program keeps its own notes between runs.
    pub(crate) fn notes(&self) -> PathBuf {
        self.target.join("xtask")
    }

    pub(crate) fn cargo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.command(cargo_program(), &self.root, arguments)
    }

    /// A Node.js script with its arguments, started in `folder`.
    pub(crate) fn node<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        self.command("node", folder, arguments)
    }

    pub(crate) fn npm<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = self.command("npm", folder, arguments);
        // Debian's Chromium is the browser of the tests; no package may fetch another one.
        command.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
        command
    }

    fn command<S: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        folder: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        for (name, _) in env::vars_os().filter(|(name, _)| is_about_us(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command
    }
}

/// Whether Cargo has set this variable to describe the program it runs, which is this one.
///
/// Build scripts may ask to run again when such a variable changes (ring's does): left in place, half of the
/// dependencies would be compiled anew whenever a developer goes from `cargo xtask` to plain `cargo` and back.
fn is_about_us(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.starts_with(prefix))
}

/// The very Cargo that started this program, so that one toolchain does everything.
fn cargo_program() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_tells_folders_version_and_shipped_binaries() {
        let workspace = Workspace::from_metadata(
            r#"{ "workspace_root": "/src", "target_directory": "/elsewhere", "packages": [
                { "name": "xtask", "version": "9.9.9", "targets": [{ "kind": ["bin"], "name": "xtask" }] },
                { "name": "syncline-cli", "version": "0.1.0", "targets": [
                    { "kind": ["bin"], "name": "syncline" }, { "kind": ["test"], "name": "serve" },
                    { "kind": ["bin"], "name": "serversync" } ] } ] }"#,
        )
        .unwrap();
        assert_eq!(workspace.root, Path::new("/src"));
        assert_eq!(workspace.binary("debug", "syncline"), Path::new("/elsewhere/debug/syncline"));
        assert_eq!(workspace.version, "0.1.0");
        assert_eq!(workspace.binaries, ["syncline", "serversync"]);
    }

    #[test]
    fn what_describes_this_program_is_not_passed_on() {
        assert!(is_about_us("CARGO_PKG_NAME") && is_about_us("CARGO_MANIFEST_DIR"));
        assert!(
            !["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_TERM_COLOR", "PATH"]
                .into_iter()
                .any(is_about_us)
        );
    }

    #[test]
    fn metadata_without_the_product_is_refused() {
        let error = Workspace::from_metadata(r#"{ "packages": [] }"#).err().unwrap();
        assert_eq!(error.to_string(), "the workspace has no package syncline-cli");
    }
}
