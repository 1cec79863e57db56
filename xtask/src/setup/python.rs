//! Tools of Python's that tests need, in an environment of their own below `target`, so that nothing of the machine's changes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use crate::{command, screen};

/// A server that speaks S3, for the tests of recordings in a bucket, with which comes the validator of API descriptions; a generator of
/// clients, and a checker of types for what it makes.
const PACKAGES: [&str; 3] = ["moto[server]==5.1.16", "openapi-python-client==0.29.1", "mypy==2.4.1"];

/// The Python packages that tests use.
pub(super) fn packages(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("moto");
    let all = PACKAGES.join(" ");
    if fs::read_to_string(stamp(&folder)).is_ok_and(|installed| installed == all) {
        screen::done(&format!("{all} (present)"));
        return Ok(());
    }
    command::watch("Python environment", Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    // By the interpreter: a copied environment has the path of its original in the first line of its programs.
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    command::watch(&format!("{all} from PyPI"), &mut install)?;
    fs::write(stamp(&folder), all).context("cannot note which Python packages are installed")
}

fn stamp(folder: &std::path::Path) -> PathBuf {
    folder.join(".syncline-installed")
}
