//! Tools of Python's that tests need, in an environment of their own below `target`, so that nothing of the machine's changes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use crate::{command, screen};

/// A server that speaks S3, for the tests of recordings in a bucket. With it comes the validator of API descriptions.
const MOTO: &str = "moto[server]==5.1.16";

/// The server that speaks S3.
pub(super) fn moto(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("moto");
    if fs::read_to_string(stamp(&folder)).is_ok_and(|installed| installed == MOTO) {
        screen::done(&format!("{MOTO} (present)"));
        return Ok(());
    }
    command::watch("Python environment", Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let mut install = Command::new(folder.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check", MOTO]);
    command::watch(&format!("{MOTO} from PyPI"), &mut install)?;
    fs::write(stamp(&folder), MOTO).context("cannot note which Python packages are installed")
}

fn stamp(folder: &std::path::Path) -> PathBuf {
    folder.join(".syncline-installed")
}
