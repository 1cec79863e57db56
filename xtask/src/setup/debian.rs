//! Debian packages: found by what they bring, not by their names, so that a PostgreSQL or a Chromium from elsewhere
//! is as good; installed with apt where they are missing.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::Need;
use crate::{command, screen};

/// A package and how to see that the machine already has what it brings.
struct Package {
    name: &'static str,
    need: Need,
    present: fn() -> bool,
}

const PACKAGES: &[Package] = &[
    Package { name: "postgresql", need: Need::Postgres, present: has_postgres },
    // A cluster that fails over, each server with a network of its own.
    Package { name: "patroni", need: Need::Cluster, present: || command::program("patroni").is_some() },
    Package { name: "etcd-server", need: Need::Cluster, present: || command::program("etcd").is_some() },
    Package { name: "iproute2", need: Need::Cluster, present: || command::program("ip").is_some() },
    Package { name: "chromium", need: Need::Chromium, present: has_chromium },
    Package { name: "firefox-esr", need: Need::Firefox, present: has_firefox },
    Package { name: "webkit2gtk-driver", need: Need::WebKit, present: has_webkit },
    // It shows its pages on a screen, and there may be none.
    Package { name: "xvfb", need: Need::WebKit, present: || command::program("Xvfb").is_some() },
    Package { name: "fontconfig", need: Need::Chromium, present: has_fontconfig },
    Package { name: "python3-venv", need: Need::Python, present: has_venv },
    // Book titles are Japanese; this family also brings the Latin letters.
    Package { name: "fonts-noto-cjk", need: Need::Chromium, present: has_japanese_font },
];

/// Installs the packages behind `needs` that are missing.
pub(super) fn ensure(needs: &[Need]) -> Result<()> {
    let relevant: Vec<&Package> = PACKAGES.iter().filter(|package| needs.contains(&package.need)).collect();
    let missing = |package: &&Package| !(package.present)();
    let absent: Vec<&str> = relevant.iter().copied().filter(missing).map(|package| package.name).collect();
    if !relevant.is_empty() && absent.is_empty() {
        let names: Vec<&str> = relevant.iter().map(|package| package.name).collect();
        screen::done(&format!("{} (present)", names.join(", ")));
    }
    install(&absent)?;
    let still: Vec<&str> = relevant.iter().copied().filter(missing).map(|package| package.name).collect();
    if !still.is_empty() {
        bail!("{} installed, but what it should bring is not found on this machine", still.join(", "));
    }
    Ok(())
}

/// Installs packages by their Debian names, where dpkg does not know them as installed.
pub(crate) fn packages(names: &[&str]) -> Result<()> {
    let installed = |name: &str| {
        let status =
            command::text(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status}", name]));
        status.is_ok_and(|status| status == "installed")
    };
    let absent: Vec<&str> = names.iter().copied().filter(|name| !installed(name)).collect();
    install(&absent)
}

fn install(names: &[&str]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let machine = Machine::here();
    let [update, install] = commands(&machine, names)?;
    if update.starts_with(&["sudo".to_owned(), "apt-get".to_owned()]) {
        // The password is asked for now, while no spinner draws over the question.
        command::stream(Command::new("sudo").arg("-v"))?;
    }
    command::watch("Debian package lists", &mut into_command(&update))?;
    command::watch(&format!("Debian packages {}", names.join(", ")), &mut into_command(&install))
}

/// What decides how packages get onto this machine.
struct Machine {
    apt: bool,
    root: bool,
    sudo: bool,
    /// Somebody is there to type a password.
    attended: bool,
}

impl Machine {
    fn here() -> Machine {
        Machine {
            apt: command::program("apt-get").is_some(),
            root: rustix::process::geteuid().is_root(),
            sudo: command::program("sudo").is_some(),
            attended: io::stdin().is_terminal() && env::var_os("CI").is_none(),
        }
    }
}

/// The two commands, update and install, or the sentence that tells what to do instead.
fn commands(machine: &Machine, names: &[&str]) -> Result<[Vec<String>; 2]> {
    let names = names.join(" ");
    if !machine.apt {
        bail!(
            "this machine has no apt-get, and these are missing: {names}\n\
             Install their like yourself: PostgreSQL's server programs (initdb, postgres), `chromium`, `firefox`, \
             `WebKitWebDriver` and `Xvfb` on the PATH, a Japanese font known to fontconfig; then run the same command again."
        );
    }
    let install =
        format!("env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {names}");
    let prefix = match machine {
        Machine { root: true, .. } => "",
        Machine { sudo: true, attended: true, .. } => "sudo ",
        // Without anybody to answer, a password prompt would wait for ever.
        Machine { sudo: true, attended: false, .. } => "sudo -n ",
        _ => bail!(
            "installing packages takes root, and there is no sudo here; by hand, as root:\n    {install}"
        ),
    };
    let words = |line: &str| format!("{prefix}{line}").split(' ').map(str::to_owned).collect();
    Ok([words("apt-get update"), words(&install)])
}

fn into_command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn has_postgres() -> bool {
    command::program("initdb").is_some() || debian_initdb(Path::new("/usr/lib/postgresql"))
}

/// Debian keeps each major version in a folder of its own, away from the PATH.
fn debian_initdb(base: &Path) -> bool {
    let Ok(versions) = fs::read_dir(base) else { return false };
    versions.flatten().any(|version| version.path().join("bin/initdb").is_file())
}

fn has_chromium() -> bool {
    chromium().is_some()
}

/// The browser under test: the one that is named, or the one on the PATH.
pub(crate) fn chromium() -> Option<PathBuf> {
    env::var_os("CHROMIUM_PATH").map(PathBuf::from).or_else(|| command::program("chromium"))
}

fn has_firefox() -> bool {
    firefox().is_some()
}

/// The other browser under test.
pub(crate) fn firefox() -> Option<PathBuf> {
    let named = env::var_os("FIREFOX_PATH").map(PathBuf::from);
    named.or_else(|| command::program("firefox-esr")).or_else(|| command::program("firefox"))
}

fn has_webkit() -> bool {
    command::program("WebKitWebDriver").is_some()
}

/// Debian's Python comes without what makes an environment.
fn has_venv() -> bool {
    command::succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"]))
}

fn has_fontconfig() -> bool {
    command::program("fc-list").is_some()
}

fn has_japanese_font() -> bool {
    command::text(Command::new("fc-list").args([":lang=ja", "family"]))
        .is_ok_and(|fonts| !fonts.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTENDED: Machine = Machine { apt: true, root: false, sudo: true, attended: true };

    fn lines(machine: &Machine) -> Result<Vec<String>> {
        Ok(commands(machine, &["postgresql", "chromium"])?.map(|words| words.join(" ")).to_vec())
    }

    const INSTALL: &str =
        "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql chromium";

    #[test]
    fn root_installs_directly() {
        let lines = lines(&Machine { root: true, ..ATTENDED }).unwrap();
        assert_eq!(lines, ["apt-get update", INSTALL]);
    }

    #[test]
    fn others_go_through_sudo_which_asks_only_where_somebody_can_answer() {
        assert_eq!(lines(&ATTENDED).unwrap()[1], format!("sudo {INSTALL}"));
        let unattended = lines(&Machine { attended: false, ..ATTENDED }).unwrap();
        assert_eq!(unattended, ["sudo -n apt-get update".to_owned(), format!("sudo -n {INSTALL}")]);
    }

    #[test]
    fn without_sudo_the_command_for_root_is_named() {
        let error = lines(&Machine { sudo: false, ..ATTENDED }).unwrap_err().to_string();
        assert!(error.ends_with(INSTALL), "{error}");
    }

    #[test]
    fn without_apt_the_missing_things_are_named() {
        let error = lines(&Machine { apt: false, ..ATTENDED }).unwrap_err().to_string();
        assert!(error.starts_with("this machine has no apt-get"), "{error}");
        assert!(error.contains("postgresql chromium"), "{error}");
    }

    #[test]
    fn a_server_is_found_in_debians_folder_of_any_version() {
        let base = tempfile::tempdir().unwrap();
        assert!(!debian_initdb(base.path()));
        fs::create_dir_all(base.path().join("17/bin")).unwrap();
        assert!(!debian_initdb(base.path()), "a client alone is no server");
        fs::write(base.path().join("17/bin/initdb"), "").unwrap();
        assert!(debian_initdb(base.path()));
        assert!(!debian_initdb(Path::new("/nowhere")));
    }
}
