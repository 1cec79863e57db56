//! Measurements side by side with peers: each a folder `bench/<name>/`, as `bench/README.md` tells.
//!
//! Leaves to each bench what to measure; sees to it that its peers are installed, that it gets the release binary, and
//! that it leaves its figures as JSON in `target/bench/<name>.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::setup::{debian_packages, npm_packages};
use crate::workspace::Workspace;
use crate::{command, files, screen, setup, wasm};

#[derive(Args)]
pub(crate) struct Options {
    /// What to measure; without it, a list
    name: Option<String>,
    /// Leave the peers out: to compare two trees, one after the other
    #[arg(long)]
    ours: bool,
    /// Arguments for the bench itself
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// A bench, as its folder shows it.
#[derive(Debug, PartialEq, Eq)]
struct Bench {
    name: String,
    /// The first line of its README.
    about: String,
    folder: PathBuf,
}

pub(crate) fn perform(workspace: &Workspace, options: &Options) -> Result<()> {
    let benches = find(&workspace.root.join("bench"))?;
    let Some(name) = &options.name else {
        println!("{}", list(&benches));
        return Ok(());
    };
    let Some(bench) = benches.iter().find(|bench| bench.name == *name) else {
        bail!("there is no bench {name:?}\n{}", list(&benches));
    };
    prepare(workspace, bench)?;
    let figures = workspace.target.join("bench").join(format!("{name}.json"));
    fs::create_dir_all(figures.parent().expect("a joined path has a parent"))
        .context("cannot create target/bench")?;
    files::forget(&figures)?;
    screen::heading(&format!("Bench {name}: {}", bench.about));
    let mut run = runner(workspace, bench)?;
    run.args(&options.arguments);
    run.env("SYNCLINE_BIN", workspace.binary("release", "syncline")).env("BENCH_JSON", &figures);
    if options.ours {
        run.env("BENCH_OURS", "1");
    }
    command::stream(&mut run)?;
    let text = fs::read_to_string(&figures)
        .with_context(|| format!("bench {name} left no figures in $BENCH_JSON"))?;
    serde_json::from_str::<Value>(&text)
        .with_context(|| format!("the figures of bench {name} are no JSON"))?;
    screen::note(&format!("figures: {}", figures.display()));
    Ok(())
}

/// The product in its release form, and the peers it is held against.
fn prepare(workspace: &Workspace, bench: &Bench) -> Result<()> {
    setup::ensure(workspace, wasm::NEEDS)?;
    if let Ok(names) = fs::read_to_string(bench.folder.join("packages.txt")) {
        debian_packages(&names.split_whitespace().collect::<Vec<_>>())?;
    }
    if bench.folder.join("package-lock.json").exists() {
        npm_packages(workspace, &bench.folder)?;
    }
    screen::heading("Build");
    wasm::build(workspace)?;
    command::stream(&mut workspace.cargo(["build", "-p", "syncline-cli", "--bins", "--release"]))
}

fn runner(workspace: &Workspace, bench: &Bench) -> Result<Command> {
    if bench.folder.join("Cargo.toml").exists() {
        let package = format!("bench-{}", bench.name);
        return Ok(workspace.cargo(["run", "--release", "-p", &package, "--"]));
    }
    if bench.folder.join("main.mjs").exists() {
        return Ok(workspace.node(&bench.folder, ["main.mjs"]));
    }
    bail!("{} holds neither a Cargo.toml nor a main.mjs", bench.folder.display());
}

fn find(folder: &Path) -> Result<Vec<Bench>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut benches = Vec::new();
    for entry in entries {
        let entry = entry.context("cannot read the folder of benches")?;
        let readme = entry.path().join("README.md");
        // A folder without a README is no bench: what nobody explains, nobody can judge.
        if let Ok(text) = fs::read_to_string(&readme) {
            let about = text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_owned();
            benches.push(Bench {
                name: entry.file_name().to_string_lossy().into_owned(),
                about,
                folder: entry.path(),
            });
        }
    }
    benches.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(benches)
}

fn list(benches: &[Bench]) -> String {
    if benches.is_empty() {
        return "there is nothing to measure yet; bench/README.md tells how to add something".to_owned();
    }
    let lines: Vec<String> = benches
        .iter()
        .map(|bench| format!("  cargo xtask bench {:<12} {}", bench.name, bench.about))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_is_a_folder_with_a_readme() {
        let base = tempfile::tempdir().unwrap();
        for (name, text) in [("viewer", "# Heartbeats per second\n\nMore."), ("kv", "Reads and writes\n")] {
            fs::create_dir(base.path().join(name)).unwrap();
            fs::write(base.path().join(name).join("README.md"), text).unwrap();
        }
        fs::create_dir(base.path().join("shared")).unwrap();
        fs::write(base.path().join("README.md"), "# Benches").unwrap();
        let benches = find(base.path()).unwrap();
        assert_eq!(
            list(&benches),
            "  cargo xtask bench kv           Reads and writes\n  cargo xtask bench viewer       Heartbeats per second"
        );
    }

    #[test]
    fn no_bench_is_said_plainly() {
        assert!(list(&[]).starts_with("there is nothing to measure yet"));
    }
}
