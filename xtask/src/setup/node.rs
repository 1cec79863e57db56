//! Node.js and the npm packages that a lockfile pins.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{command, screen};

/// The oldest Node.js that the browser tests' runner supports.
const OLDEST_MAJOR: u32 = 20;

/// Node.js cannot be installed from here without choosing a version for the user's other work, so it is only checked.
pub(super) fn check_version() -> Result<()> {
    let version = command::text(Command::new("node").arg("--version")).ok();
    judge(version.as_deref().map(str::trim), command::program("npm").is_some())?;
    screen::done(&format!("Node.js {} (present)", version.unwrap_or_default().trim()));
    Ok(())
}

fn judge(version: Option<&str>, has_npm: bool) -> Result<()> {
    let remedy = format!("Install Node.js {OLDEST_MAJOR} or newer with npm, and run the same command again.");
    let Some(version) = version else {
        bail!("there is no Node.js on the PATH, and the browser package and its tests need it.\n{remedy}");
    };
    let major: Option<u32> = version.trim_start_matches('v').split('.').next().and_then(|n| n.parse().ok());
    match major {
        None => bail!("`node --version` answered {version:?}, which is no version.\n{remedy}"),
        Some(major) if major < OLDEST_MAJOR => bail!("Node.js {version} is too old.\n{remedy}"),
        Some(_) if !has_npm => bail!("Node.js {version} is there, but npm is not.\n{remedy}"),
        Some(_) => Ok(()),
    }
}

/// Makes `node_modules` in `folder` match its lockfile.
pub(crate) fn packages(workspace: &Workspace, folder: &Path) -> Result<()> {
    let shown = folder.strip_prefix(&workspace.root).unwrap_or(folder).display();
    let title = format!("npm packages of {shown}");
    if matches_lockfile(folder)? {
        screen::done(&format!("{title} (present)"));
        return Ok(());
    }
    command::watch(&title, &mut workspace.npm(folder, ["ci", "--no-audit", "--no-fund"]))?;
    fs::copy(lockfile(folder), stamp(folder)).context("cannot note which npm packages are installed")?;
    Ok(())
}

/// The stamp is a copy of the lockfile that was installed: equal bytes, equal packages.
fn matches_lockfile(folder: &Path) -> Result<bool> {
    let lockfile = lockfile(folder);
    let wanted = fs::read(&lockfile).with_context(|| format!("cannot read {}", lockfile.display()))?;
    Ok(fs::read(stamp(folder)).is_ok_and(|installed| installed == wanted))
}

fn lockfile(folder: &Path) -> std::path::PathBuf {
    folder.join("package-lock.json")
}

/// Inside `node_modules`, so that whoever removes that folder removes the stamp with it, as `npm ci` does.
fn stamp(folder: &Path) -> std::path::PathBuf {
    folder.join("node_modules/.syncline-installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_must_be_there_new_enough_and_with_npm() {
        assert!(judge(Some("v20.20.2"), true).is_ok());
        assert!(judge(Some("v104.0.0"), true).is_ok());
        let told = |version, npm| judge(version, npm).unwrap_err().to_string();
        assert!(told(None, true).starts_with("there is no Node.js on the PATH"));
        assert!(told(Some("v18.19.0"), true).starts_with("Node.js v18.19.0 is too old"));
        assert!(told(Some("v20.20.2"), false).contains("npm is not"));
        assert!(told(Some("nonsense"), true).contains("no version"));
        assert!(told(None, false).contains("Install Node.js 20 or newer"));
    }

    #[test]
    fn packages_count_as_installed_only_for_the_very_lockfile() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches_lockfile(folder.path()).is_err(), "a lockfile is required");
        fs::write(lockfile(folder.path()), "one").unwrap();
        assert!(!matches_lockfile(folder.path()).unwrap());
        fs::create_dir(folder.path().join("node_modules")).unwrap();
        fs::write(stamp(folder.path()), "one").unwrap();
        assert!(matches_lockfile(folder.path()).unwrap());
        fs::write(lockfile(folder.path()), "two").unwrap();
        assert!(!matches_lockfile(folder.path()).unwrap());
    }
}
