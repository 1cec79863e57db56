//! A throwaway PostgreSQL server made from the machine's own binaries.
//!
//! Guarantees: the server listens on loopback alone, keeps its durable settings (`fsync` stays on), and is gone
//! with its folder when the [`Cluster`] is dropped, when the process that started it exits without dropping it,
//! and when that process is killed: a small shell waits on a pipe only we hold and cleans up when it closes.
//!
//! Leaves to others: what is in the databases, and installing PostgreSQL (the error names the package).

mod programs;

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use self::programs::{DEBIAN_FOLDER, psql_output};
pub(crate) use self::programs::{Programs, finish, psql};
use crate::machine::Machine;

/// Where an already running server for tests may be named.
pub const TEST_DATABASE_URL: &str = "TEST_DATABASE_URL";

/// The one role of a throwaway server; it is the superuser and needs no password.
pub(crate) const ROLE: &str = "syncline";
const START_DEADLINE: Duration = Duration::from_secs(60);
const START_POLL: Duration = Duration::from_millis(20);
/// Somebody else may take the port between our finding it free and the server binding it.
const PORT_ATTEMPTS: u32 = 5;
const LOG_TAIL_BYTES: usize = 2_000;

/// What went wrong with a throwaway server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// PostgreSQL's programs are not on this machine.
    #[error(
        "no {program} in {DEBIAN_FOLDER}/*/bin nor on the PATH; install it with: apt-get install {package}"
    )]
    Missing {
        /// The program looked for.
        program: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// The server refuses to run as root, and there is no other user to run it as.
    #[error("running as root, and neither user `postgres` nor `nobody` exists to run the server as")]
    NoUser,
    /// Networks of one's own take root.
    #[error("a cluster has networks of its own, and only root may make them")]
    NotRoot,
    /// A program of PostgreSQL's failed.
    #[error("{program} failed: {output}")]
    Failed {
        /// The program.
        program: &'static str,
        /// What it said last.
        output: String,
    },
    /// The server did not accept connections in time.
    #[error("the server was not ready after {} s: {log}", START_DEADLINE.as_secs())]
    NotReady {
        /// The end of its log.
        log: String,
    },
    /// A file or process could not be handled.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system answered.
        source: io::Error,
    },
}

/// A PostgreSQL server of our own, with one superuser that needs no password.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    /// Holds `data/`, the socket and the log. Owned by the user the server runs as; removed by `guard`.
    folder: PathBuf,
    /// What the server is told beside the usual.
    settings: Vec<String>,
    port: u16,
    /// Where it runs, if that is a machine of its own.
    machine: Option<Machine>,
    /// `None` while stopped.
    server: Option<Child>,
    /// Cleans up when its standard input closes: on drop, or because this process is no more.
    guard: Child,
}

impl Cluster {
    /// Creates a cluster in a temporary folder and starts its server; returns when it accepts connections.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&[])
    }

    /// The same with further settings of the server, each as `name=value`.
    pub fn start_with(settings: &[&str]) -> Result<Self, Error> {
        let cluster = Self::empty(settings)?;
        cluster.initialise()?;
        cluster.first_start()
    }

    /// The same on a machine of its own behind a router, which can forget connections.
    ///
    /// [`Error::NotRoot`] for anybody else: networks of one's own are root's.
    pub fn start_behind_router(settings: &[&str]) -> Result<Self, Error> {
        let mut cluster = Self::empty(settings)?;
        if cluster.programs.user.is_none() {
            return Err(Error::NotRoot);
        }
        cluster.initialise()?;
        let rights = cluster.data().join("pg_hba.conf");
        let mut rights = File::options().append(true).open(rights).map_err(io("open the server's rights"))?;
        rights.write_all(b"host all all 0.0.0.0/0 trust\n").map_err(io("write the server's rights"))?;
        cluster.machine = Some(Machine::new()?);
        cluster.first_start()
    }

    /// Lets the router forget every connection that clients have at this moment: their packets are dropped without a word. How many.
    pub fn forget_connections(&self) -> Result<usize, Error> {
        let Some(machine) = &self.machine else { return Ok(0) };
        let ports =
            "SELECT client_port FROM pg_stat_activity WHERE client_port > 0 AND pid <> pg_backend_pid()";
        let ports: Vec<u16> =
            self.ask("postgres", ports)?.lines().filter_map(|port| port.trim().parse().ok()).collect();
        machine.forget(&ports)?;
        Ok(ports.len())
    }

    /// What the server has logged since it was started last.
    pub fn log(&self) -> Result<String, Error> {
        fs::read_to_string(self.folder.join("log")).map_err(io("read the server's log"))
    }

    /// A standby of this server: everything committed here arrives there, and it takes no writes until it is promoted.
    pub fn standby(&self) -> Result<Self, Error> {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        let standby = Self::empty(&settings)?;
        let (data, from) = (standby.data(), self.url("postgres"));
        standby.programs.run("pg_basebackup", |command| {
            command.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--wal-method=stream"]);
            command.args(["--dbname", &from, "--pgdata"]).arg(&data)
        })?;
        standby.first_start()
    }

    /// Makes a standby the one that takes writes; returns when it does.
    pub fn promote(&self) -> Result<(), Error> {
        let data = self.data();
        self.programs.run("pg_ctl", |command| command.args(["promote", "--wait", "--pgdata"]).arg(&data))
    }

    /// Stops every process of the server in its steps (`SIGSTOP`): connections stay, and nobody answers.
    pub fn freeze(&self) -> Result<(), Error> {
        self.signal("-STOP")
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<(), Error> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &'static str) -> Result<(), Error> {
        let Some(server) = &self.server else { return Ok(()) };
        // Backends have a process group each; all of them are children of the first process, which is stopped first: it makes
        // new ones.
        let script = r#"kill "$1" "$2"; kill "$1" $(cat "/proc/$2/task/$2/children")"#;
        let mut command = Command::new("sh");
        command.args(["-c", script, "signal", signal, &server.id().to_string()]);
        finish("kill", command)
    }

    fn empty(settings: &[&str]) -> Result<Self, Error> {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let programs = Programs::find()?;
        let folder = programs.own_folder()?;
        let guard = programs.guard(&folder)?;
        Ok(Self { programs, folder, settings, port: 0, machine: None, server: None, guard })
    }

    fn first_start(mut self) -> Result<Self, Error> {
        for attempt in 1.. {
            self.port = free_port()?;
            match self.restart() {
                Err(error) if attempt < PORT_ATTEMPTS && error.to_string().contains("in use") => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        Ok(self)
    }

    /// The address of a database on this server, whether or not that database exists.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ROLE}@{}:{}/{database}", self.address(), self.port)
    }

    fn address(&self) -> Ipv4Addr {
        self.machine.as_ref().map_or(Ipv4Addr::LOCALHOST, Machine::address)
    }

    /// Stops the server at once, as a crash of the server would: sessions are cut, nothing is flushed, and the
    /// next start recovers from the log.
    pub fn stop_immediate(&mut self) -> Result<(), Error> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let data = self.data();
        self.programs.run("pg_ctl", |command| {
            command.args(["stop", "--wait", "--mode=immediate", "--pgdata"]).arg(&data)
        })?;
        server.wait().map_err(io("wait for the server to end"))?;
        Ok(())
    }

    /// Kills the postmaster with SIGKILL. Its backends notice and end by themselves; [`Cluster::restart`] waits
    /// for them.
    pub fn kill(&mut self) -> Result<(), Error> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        server.kill().map_err(io("kill the server"))?;
        server.wait().map_err(io("wait for the server to end"))?;
        Ok(())
    }

    /// Starts the server again on the same port, after stopping it if it still runs.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop_immediate()?;
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            match self.launch(deadline) {
                // Backends that outlived a killed postmaster still hold its shared memory for a moment.
                Err(Error::Failed { output, .. })
                    if output.contains("shared memory") && Instant::now() < deadline =>
                {
                    thread::sleep(START_POLL);
                }
                outcome => return outcome,
            }
        }
    }

    /// Runs one SQL command on `database` as superuser.
    pub fn execute(&self, database: &str, sql: &str) -> Result<(), Error> {
        psql(&self.url(database), sql)
    }

    /// The rows that a question brings on `database`, a line each.
    pub fn ask(&self, database: &str, sql: &str) -> Result<String, Error> {
        psql_output(&self.url(database), &["--tuples-only", "--no-align", "--command", sql])
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn initialise(&self) -> Result<(), Error> {
        let data = self.data();
        // `--no-sync` and small segments only save start-up time; a running server still syncs every commit.
        self.programs.run("initdb", |command| {
            command
                .args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"])
                .args(["--username", ROLE, "--pgdata"])
                .arg(&data)
        })
    }

    fn launch(&mut self, deadline: Instant) -> Result<(), Error> {
        let log_path = self.folder.join("log");
        // Backends that outlived a killed postmaster go on writing into the old one, where nobody looks.
        let _ = fs::remove_file(&log_path);
        let log = File::create(&log_path).map_err(io("create the server's log"))?;
        let errors = log.try_clone().map_err(io("open the server's log"))?;
        let mut command = self.programs.command_on("postgres", self.machine.as_ref());
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        command.args(["-h", &self.address().to_string(), "-p", &self.port.to_string()]);
        command.args(["-c", "max_connections=600", "-c", "shared_buffers=32MB"]);
        command.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let mut server = command.spawn().map_err(io("start the server"))?;
        loop {
            if server.try_wait().map_err(io("look at the server"))?.is_some() {
                return Err(Error::Failed { program: "postgres", output: tail(&log_path) });
            }
            if psql(&self.url("postgres"), "SELECT 1").is_ok() {
                self.server = Some(server);
                return Ok(());
            }
            if Instant::now() >= deadline {
                server.kill().map_err(io("kill the server"))?;
                server.wait().map_err(io("wait for the server to end"))?;
                return Err(Error::NotReady { log: tail(&log_path) });
            }
            thread::sleep(START_POLL);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A frozen server could not be stopped; and where none is frozen this changes nothing.
        let _ = self.thaw();
        drop(self.guard.stdin.take());
        // Nothing can be done about a failure here, and the guard has said what it could to nobody.
        let _ = self.guard.wait();
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
    }
}

/// A fresh, empty database; dropped with this value.
#[derive(Debug)]
pub struct Database {
    /// Its address.
    pub url: String,
    name: String,
    maintenance_url: String,
}

/// A fresh database on the server of [`TEST_DATABASE_URL`], or where that is not set, on a cluster that this
/// process starts once and takes with it.
///
/// # Panics
/// When there is no server to be had; a test can do nothing else, and the message says what to install.
#[must_use]
pub fn database() -> Database {
    database_with("")
}

/// As [`database`], with further options of `CREATE DATABASE`.
///
/// # Panics
/// As [`database`].
#[must_use]
pub fn database_with(options: &str) -> Database {
    static OWN: OnceLock<Cluster> = OnceLock::new();
    let maintenance_url =
        env::var(TEST_DATABASE_URL).ok().filter(|url| !url.is_empty()).unwrap_or_else(|| {
            OWN.get_or_init(|| Cluster::start().unwrap_or_else(|error| panic!("{error}"))).url("postgres")
        });
    let name = format!("syncline_test_{:016x}", rand::random::<u64>());
    if let Err(error) = psql(&maintenance_url, &format!("CREATE DATABASE {name} {options}")) {
        panic!("create database {name}: {error}");
    }
    Database { url: with_database(&maintenance_url, &name), name, maintenance_url }
}

impl Database {
    /// Runs one SQL command in this database, past whatever the test has open on it.
    pub fn execute(&self, sql: &str) -> Result<(), Error> {
        psql(&self.url, sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A server that is gone took the database with it or will be thrown away itself.
        let _ = psql(&self.maintenance_url, &sql);
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("find a free port"))?;
    Ok(listener.local_addr().map_err(io("find a free port"))?.port())
}

fn tail(path: &Path) -> String {
    let mut text = Vec::new();
    // The log only explains another error; one that cannot be read explains nothing.
    let _ = File::open(path).and_then(|mut log| log.read_to_end(&mut text));
    let from = text.len().saturating_sub(LOG_TAIL_BYTES);
    String::from_utf8_lossy(&text[from..]).trim().to_owned()
}

/// `url` with another database name in its place.
fn with_database(url: &str, name: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let path = address[authority..].find('/').map_or(address.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &address[..path])
}

pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { what, source }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_database_name_replaces_the_one_in_the_url() {
        for (url, expected) in [
            ("postgres://u:p@h:1/old", "postgres://u:p@h:1/new"),
            ("postgres://u:p@h:1", "postgres://u:p@h:1/new"),
            ("postgres://h/old?sslmode=disable", "postgres://h/new?sslmode=disable"),
            ("postgres:///old?host=/run/a/b", "postgres:///new?host=/run/a/b"),
        ] {
            assert_eq!(with_database(url, "new"), expected);
        }
    }

    #[test]
    fn a_cluster_survives_kill_and_leaves_nothing_behind() {
        let mut cluster = Cluster::start().unwrap();
        cluster.execute("postgres", "CREATE TABLE kept AS SELECT 1 AS one").unwrap();

        cluster.kill().unwrap();
        assert!(cluster.execute("postgres", "SELECT 1").is_err());
        cluster.restart().unwrap();
        cluster.execute("postgres", "SELECT one FROM kept").unwrap();

        cluster.stop_immediate().unwrap();
        assert!(cluster.execute("postgres", "SELECT 1").is_err());
        cluster.restart().unwrap();
        cluster.execute("postgres", "SELECT one FROM kept").unwrap();

        let (folder, url) = (cluster.folder.clone(), cluster.url("postgres"));
        drop(cluster);
        assert!(!folder.exists());
        assert!(psql(&url, "SELECT 1").is_err());
    }

    /// Set in the process that holds a cluster only to be killed.
    const VICTIM: &str = "SYNCLINE_TEST_VICTIM";

    #[test]
    fn a_killed_process_takes_its_cluster_along() {
        if env::var_os(VICTIM).is_some() {
            let cluster = Cluster::start().unwrap();
            println!("folder={}", cluster.folder.display());
            io::stdin().read_to_end(&mut Vec::new()).unwrap();
            return;
        }
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--exact", "postgres::tests::a_killed_process_takes_its_cluster_along", "--nocapture"])
            .env(VICTIM, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let folder = lines
            .map_while(Result::ok)
            .find_map(|line| Some(PathBuf::from(line.split_once("folder=")?.1)))
            .expect("the victim names its folder");
        assert!(folder.exists());

        victim.kill().unwrap();
        victim.wait().unwrap();
        let deadline = Instant::now() + START_DEADLINE;
        while folder.exists() {
            assert!(Instant::now() < deadline, "{} is still there", folder.display());
            thread::sleep(START_POLL);
        }
    }
}
