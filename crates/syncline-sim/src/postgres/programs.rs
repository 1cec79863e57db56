//! PostgreSQL's programs on this machine, and the user to run them as.

use std::env;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Error, io};
use crate::machine::Machine;

/// Every Debian release keeps its versions beneath this folder, off the search path.
pub(super) const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// PostgreSQL's programs and the user to run them as.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) folder: PathBuf,
    /// Set when we are root, which the server refuses to run as.
    pub(crate) user: Option<User>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Programs {
    pub(crate) fn find() -> Result<Self, Error> {
        let missing = Error::Missing { program: "initdb", package: "postgresql" };
        let folder = newest_debian_folder().or_else(|| folder_on_path("initdb")).ok_or(missing)?;
        // The owner of our own process entry is who we run as.
        let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let user =
            if root { Some(user("postgres").or_else(|| user("nobody")).ok_or(Error::NoUser)?) } else { None };
        Ok(Self { folder, user })
    }

    /// A new temporary folder that the server's user owns. Its removal is left to the guard.
    pub(crate) fn own_folder(&self) -> Result<PathBuf, Error> {
        let folder = tempfile::Builder::new()
            .prefix("syncline-postgres-")
            .tempdir()
            .map_err(io("create a temporary folder"))?;
        if let Some(User { uid, gid }) = self.user {
            chown(folder.path(), Some(uid), Some(gid)).map_err(io("hand over the temporary folder"))?;
        }
        Ok(folder.keep())
    }

    pub(super) fn guard(&self, folder: &Path) -> Result<Child, Error> {
        let script = r#"cat >/dev/null; "$1" stop --silent --mode=immediate --pgdata "$2/data"; rm -rf "$2""#;
        let mut command = Command::new("sh");
        self.become_user(&mut command);
        command.arg("-c").arg(script).arg("guard").arg(self.folder.join("pg_ctl")).arg(folder);
        // Its own process group: an interrupt meant for the test must not end the one who cleans up after it.
        command.process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(io("start the guard"))
    }

    fn command(&self, program: &str) -> Command {
        self.command_on(program, None)
    }

    /// A command on a machine of its own, if there is one. Only root may go there, and becomes the server's user on the way.
    pub(super) fn command_on(&self, program: &str, machine: Option<&Machine>) -> Command {
        let mut command = match (machine, self.user) {
            (Some(machine), Some(User { uid, gid })) => {
                let [ip, arguments @ ..] = machine.prefix();
                let mut command = Command::new(ip);
                command.args(arguments).arg("setpriv");
                command.args([
                    format!("--reuid={uid}"),
                    format!("--regid={gid}"),
                    "--clear-groups".to_owned(),
                ]);
                command.arg(self.folder.join(program));
                command
            }
            _ => {
                let mut command = Command::new(self.folder.join(program));
                self.become_user(&mut command);
                command
            }
        };
        // The user we become may not be allowed to enter the folder we were started in.
        command.current_dir("/").env("LC_ALL", "C");
        command
    }

    pub(crate) fn become_user(&self, command: &mut Command) {
        if let Some(User { uid, gid }) = self.user {
            command.uid(uid).gid(gid);
        }
    }

    pub(super) fn run(
        &self,
        program: &'static str,
        arguments: impl Fn(&mut Command) -> &mut Command,
    ) -> Result<(), Error> {
        let mut command = self.command(program);
        arguments(&mut command);
        finish(program, command)
    }
}

fn newest_debian_folder() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN_FOLDER).ok()?;
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            let folder = entry.path().join("bin");
            folder.join("initdb").exists().then_some((version, folder))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

fn folder_on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find(|folder| folder.join(program).exists())
}

fn user(name: &str) -> Option<User> {
    let table = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.split(':');
    fields.next()?;
    Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

pub(crate) fn psql(url: &str, sql: &str) -> Result<(), Error> {
    psql_output(url, &["--command", sql]).map(drop)
}

pub(super) fn psql_output(url: &str, arguments: &[&str]) -> Result<String, Error> {
    let missing = Error::Missing { program: "psql", package: "postgresql-client" };
    let folder = newest_debian_folder().or_else(|| folder_on_path("psql")).ok_or(missing)?;
    let mut command = Command::new(folder.join("psql"));
    command.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--no-password"]);
    command.args(arguments).arg(url).env("PGCONNECT_TIMEOUT", "10");
    output("psql", command)
}

pub(crate) fn finish(program: &'static str, command: Command) -> Result<(), Error> {
    output(program, command).map(drop)
}

/// What a program writes, if it ends well.
fn output(program: &'static str, mut command: Command) -> Result<String, Error> {
    let output = command.stdin(Stdio::null()).output().map_err(io("run a program of PostgreSQL's"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::Failed { program, output: String::from_utf8_lossy(&said).trim().to_owned() })
}
