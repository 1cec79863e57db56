//! `syncline doctor`: whether a node could run here, and what to do if not.
//!
//! Looks at the same configuration as `syncline serve` and changes nothing, neither files nor the database. With `--from` it
//! asks a running node instead, as a page of another site would.

mod from;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::json;
use syncline_client::Target;
use syncline_client::output::{self, Shown, Tone, WrongUse, toned};
use syncline_node::Config;
use syncline_node::config::origin;
use syncline_store::{Replication, Store};

use super::serve::{Settings, exposed};

/// Less free space than this stops writes soon; less than the second deserves a look.
const SPACE_FAIL_BYTES: u64 = 100 * 1024 * 1024;
const SPACE_WARN_BYTES: u64 = 1024 * 1024 * 1024;

/// A token shorter than this can be guessed.
const TOKEN_WARN_BYTES: usize = 16;

/// A clock before this moment (2025-01-01) was never set.
const CLOCK_FLOOR_SEC: u64 = 1_735_689_600;

/// How far data may lie in the future before the clock is suspect.
const CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);

/// How long the database may take.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  syncline doctor                            check what `syncline serve` would use here
  syncline doctor --config /etc/syncline.toml
  syncline doctor --from https://shop.example --url https://node.example
                                             may pages of this site call the node?
  syncline doctor --json | jq '.checks[] | select(.state == \"fail\")'

Exit codes: 0 nothing fails, 1 something does, 2 the configuration is wrong.";

/// Check what a node needs to run.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    settings: Settings,
    /// Ask a running node as a page of this site would, and explain the answer.
    #[arg(long, value_name = "ORIGIN")]
    from: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// What was found, and what to do about it.
    finding: String,
}

impl Doctor {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if let Some(site) = &self.from {
            let site = origin(site).map_err(|what| WrongUse(format!("--from: {what}")))?;
            let client = self.target.client()?;
            let mut checks = Vec::new();
            // What a page does first: it listens, and it writes.
            for (method, path) in [("GET", &["api", "events"][..]), ("POST", &["api", "state", "-"])] {
                checks.push(from::explain(&site, method, &client.preflight(path, &site, method).await?));
            }
            return self.show(&checks);
        }
        let config = self.settings.clone().load()?;
        let mut checks = vec![
            configuration(&config),
            token(&config),
            data_folder(&config.data),
            disk_space(&config.data),
            database(&config).await,
        ];
        checks.extend(replication(&config).await);
        checks.extend([port(&config), open_files(&config), clock(&config.data), browser_package()]);
        self.show(&checks)
    }

    fn show(&self, checks: &[Check]) -> anyhow::Result<()> {
        if self.target.json {
            output::line(json!({ "checks": checks }))?;
        } else {
            checks.iter().try_for_each(show)?;
        }
        if checks.iter().any(|check| check.state == State::Fail) { Err(Shown.into()) } else { Ok(()) }
    }
}

fn show(check: &Check) -> anyhow::Result<()> {
    let state = match check.state {
        State::Ok => toned(Tone::Good, "ok  "),
        State::Warn => toned(Tone::Doubtful, "warn"),
        State::Fail => toned(Tone::Bad, "fail"),
    };
    output::line(format_args!("{state}  {:<16} {}", check.name, check.finding))
}

fn ok(name: &'static str, finding: impl Into<String>) -> Check {
    Check { name, state: State::Ok, finding: finding.into() }
}

fn warn(name: &'static str, finding: impl Into<String>) -> Check {
    Check { name, state: State::Warn, finding: finding.into() }
}

fn fail(name: &'static str, finding: impl Into<String>) -> Check {
    Check { name, state: State::Fail, finding: finding.into() }
}

/// That it makes sense was checked when it was read.
fn configuration(config: &Config) -> Check {
    match config.exposed_file() {
        Some(file) => warn("configuration", exposed(file)),
        None => ok("configuration", "makes sense"),
    }
}

/// That a token is there when one is needed was checked with the configuration.
fn token(config: &Config) -> Check {
    match &config.token {
        None => ok("token", format!("none, so the node is for this machine alone ({})", config.listen)),
        Some(token) if token.expose().len() < TOKEN_WARN_BYTES => {
            warn("token", format!("shorter than {TOKEN_WARN_BYTES} characters: choose a long random one"))
        }
        Some(_) => ok("token", "set"),
    }
}

fn data_folder(folder: &Path) -> Check {
    let shown = folder.display();
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => {
            fail("data folder", format!("{shown} is not a folder: remove it or use --data"))
        }
        Ok(_) => match probe(folder) {
            Ok(()) => ok("data folder", format!("{shown} can be written")),
            Err(error) => fail(
                "data folder",
                format!("{shown} cannot be written ({error}): check its owner and rights"),
            ),
        },
        Err(_) => match probe(&nearest(folder)) {
            Ok(()) => ok("data folder", format!("{shown} does not exist yet and will be created")),
            Err(error) => {
                fail("data folder", format!("{shown} does not exist and cannot be created ({error})"))
            }
        },
    }
}

/// Writes a file that is really on the disk, and removes it.
fn probe(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".syncline-doctor-{}", std::process::id()));
    let written = fs::File::create_new(&path).and_then(|mut file| {
        file.write_all(b"probe")?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}

/// The folder itself, or the closest one above it that exists.
fn nearest(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    absolute.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn disk_space(folder: &Path) -> Check {
    let disk = match rustix::fs::statvfs(nearest(folder)) {
        Ok(disk) => disk,
        Err(error) => return warn("disk space", format!("cannot be measured ({error})")),
    };
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let free = format!("{} MiB free for the data folder", free_bytes / (1024 * 1024));
    match free_bytes {
        0..SPACE_FAIL_BYTES => {
            fail("disk space", format!("{free}: free some, or use --data on another disk"))
        }
        SPACE_FAIL_BYTES..SPACE_WARN_BYTES => warn("disk space", format!("{free}: that may not last")),
        _ => ok("disk space", free),
    }
}

async fn database(config: &Config) -> Check {
    let shown = config.database_shown();
    let url = config.database_url.expose();
    let file = url.strip_prefix("sqlite:").map(|path| path.trim_start_matches("//"));
    if file.is_some_and(|path| {
        !path.starts_with(":memory:") && !Path::new(path.split('?').next().unwrap_or(path)).exists()
    }) {
        return ok("database", format!("{shown} does not exist yet and will be created"));
    }
    let options = config.store_options();
    match tokio::time::timeout(DATABASE_TIMEOUT, Store::check_with(url, &options)).await {
        Ok(Ok(true)) => ok("database", format!("{shown} answers")),
        Ok(Ok(false)) => ok(
            "database",
            format!("{shown} answers; the next start makes its tables or brings them up to date"),
        ),
        Ok(Err(error)) => {
            let hint = error.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
            fail("database", format!("{error}{hint}"))
        }
        Err(_) => fail("database", format!("{shown} did not answer within {} s", DATABASE_TIMEOUT.as_secs())),
    }
}

/// Whether what is acknowledged outlives the server. Nothing to say where there is none, or where it does not answer.
async fn replication(config: &Config) -> Option<Check> {
    let asked = Store::replication(config.database_url.expose());
    let found = tokio::time::timeout(DATABASE_TIMEOUT, asked).await.ok()?.ok()??;
    Some(replication_of(&found))
}

fn replication_of(found: &Replication) -> Check {
    let Replication { standbys, is_confirmed } = found;
    match (standbys, is_confirmed) {
        (_, true) => ok("replication", "commits wait for a standby (synchronous_standby_names)"),
        (0, false) => ok("replication", "none: no standby copies this server"),
        (_, false) => warn(
            "replication",
            format!(
                "standbys: {standbys}, and no commit waits for one: a failover loses what was acknowledged last, and locks stand \
                 still until the leases that are lost have ended; set synchronous_standby_names"
            ),
        ),
    }
}

fn port(config: &Config) -> Check {
    let listen = config.listen;
    match TcpListener::bind(listen) {
        Ok(_) => ok("port", format!("{listen} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => warn(
            "port",
            format!("{listen} is in use: by a running node, which is fine, or by another program"),
        ),
        Err(error) => {
            fail("port", format!("cannot listen on {listen} ({error}): choose another with --listen"))
        }
    }
}

fn open_files(config: &Config) -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let wanted = config.limits.connections as u64 + 128;
    match limit {
        Some(limit) if limit < wanted => {
            warn("open files", format!("the system allows {limit}, {wanted} are wanted: raise `ulimit -Hn`"))
        }
        _ => ok("open files", "enough for all connections"),
    }
}

fn clock(folder: &Path) -> Check {
    let now = SystemTime::now();
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if since_epoch.as_secs() < CLOCK_FLOOR_SEC {
        return fail("clock", "the time of day was never set: set it, or wait until it is synchronised");
    }
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let newest = files.filter_map(|file| file.metadata().ok()?.modified().ok()).max();
    match newest.and_then(|newest| newest.duration_since(now).ok()) {
        Some(ahead) if ahead > CLOCK_SKEW => warn(
            "clock",
            format!("the data was written {} s in the future: the clock was set back", ahead.as_secs()),
        ),
        _ => ok("clock", "plausible"),
    }
}

fn browser_package() -> Check {
    if syncline_node::http::has_browser_package() {
        ok("browser package", "built in")
    } else {
        warn(
            "browser package",
            "not built in: pages cannot count as viewers; run `cargo xtask wasm` and build again",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_03_standbys_that_nobody_waits_for_deserve_a_look() {
        let state = |standbys, is_confirmed| replication_of(&Replication { standbys, is_confirmed }).state;
        assert!(state(0, false) == State::Ok && state(2, true) == State::Ok && state(0, true) == State::Ok);
        assert!(state(1, false) == State::Warn);
    }
}
