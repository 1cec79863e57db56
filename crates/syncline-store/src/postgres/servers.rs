//! The servers that an address names, and which of them takes writes.
//!
//! `postgres://user@a,b:5433,c/main` names three. Connections lead to the one that takes writes. When calls fail or wait, all of
//! them are asked at once, and if another one takes writes by now, connections from before that moment are given up.
//!
//! Guarantees: a connection that is handed out led to a server that took writes when it was made, and has answered a moment ago;
//! nobody waits for a server that is gone for longer than any call waits for a connection; a failover needs no restart.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sqlx::pool::PoolConnectionMetadata;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{ConnectOptions, Connection, Executor, Row};
use tokio::time::timeout;

use super::product::{self, Verdict};
use super::{PARAMETERS, no_answer, session};
use crate::Error;

/// How long a server may take to say whether it takes writes.
const ASK_MAX: Duration = Duration::from_secs(3);
/// How long a connection that was idle may take to show that it lives.
const PING_MAX: Duration = Duration::from_secs(2);
/// A connection that was idle for less is not asked: the pool asked it when it was given back, and a round trip more for each
/// statement costs a third of its time.
const ANSWERED_LATELY: Duration = Duration::from_millis(100);
/// Most servers that an address may name.
const SERVERS_MAX: usize = 16;

/// Asked of every new connection, with its settings in the same round trip.
const IS_STANDBY: &str = "SELECT pg_is_in_recovery()";
const STANDBY: &str =
    "the server is a standby and takes no writes; name the primary, or all servers with commas between";

/// The servers of one address.
#[derive(Debug)]
pub(super) struct Servers {
    all: Vec<PgConnectOptions>,
    /// Whether one is being looked for.
    looking: AtomicBool,
    /// Whether the last server that was connected to was a standby.
    met_standby: AtomicBool,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    /// Which of them takes writes.
    server: usize,
    /// Since when. Connections from before that lead elsewhere.
    since: Instant,
}

impl Servers {
    /// The servers that `url` names, with what else it says.
    pub(super) fn of(url: &str) -> Result<Servers, Error> {
        let refused = |reason: String| Error::Address { address: "postgres://…".to_owned(), reason };
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        if let Some(unknown) = unknown_parameter(query) {
            return Err(refused(format!("unknown parameter `{unknown}`")));
        }
        if named_in_query(query) {
            return Err(refused("names several hosts in `host`; name them before the slash".to_owned()));
        }
        let query = without_session_attrs(query).map_err(refused)?;
        let (before, hosts, after) = hosts(address);
        let all: Vec<PgConnectOptions> = hosts
            .split(',')
            .map(|host| options(&format!("{before}{host}{after}{query}")).map_err(&refused))
            .collect::<Result<_, _>>()?;
        if all.len() > SERVERS_MAX {
            return Err(refused(format!("names more than {SERVERS_MAX} hosts")));
        }
        let current = Mutex::new(Current { server: 0, since: Instant::now() });
        let (looking, met_standby) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Servers { all, looking, met_standby, current })
    }

    /// What is shown instead of the address: all servers, and nothing secret.
    pub(super) fn describe(&self) -> String {
        let first = &self.all[0];
        let database = first.get_database().unwrap_or(first.get_username());
        if let Some(socket) = first.get_socket() {
            return format!("postgres:{}/{database}", socket.display());
        }
        let hosts: Vec<String> = self.all.iter().map(host).collect();
        format!("postgres://{}/{database}", hosts.join(","))
    }

    /// The server to connect to.
    pub(super) fn options(&self) -> PgConnectOptions {
        self.all[self.current().server].clone()
    }

    /// Finds the server that takes writes, or says why none does. For opening a store.
    pub(super) async fn find(&self, store: &str) -> Result<(), Error> {
        let reason = match self.ask_all().await {
            Ok((server, untried)) => {
                if let Some(name) = untried {
                    tracing::warn!(
                        store,
                        "this is {name}, on which nobody has tried it; PostgreSQL is what is tested"
                    );
                }
                *self.current() = Current { server, since: Instant::now() };
                return Ok(());
            }
            Err(mut failures) if failures.len() == 1 => return Err(failures.remove(0).1.into_error(store)),
            Err(failures) => failures,
        };
        let each = reason.iter().map(|(server, failure)| format!("{}: {failure}", host(&self.all[*server])));
        let reason = format!("none of the servers takes writes ({})", each.collect::<Vec<_>>().join("; "));
        Err(Error::Unreachable { store: store.to_owned(), reason })
    }

    /// Looks for the server that takes writes by now, beside whoever noticed that something is wrong.
    pub(super) fn look(self: &Arc<Self>, pool: &PgPool) {
        if self.all.len() == 1 || pool.is_closed() || self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (servers, pool) = (Arc::clone(self), pool.clone());
        tokio::spawn(async move {
            if let Ok((server, _)) = servers.ask_all().await {
                servers.switch_to(server, &pool);
            }
            servers.looking.store(false, Ordering::Release);
        });
    }

    fn switch_to(&self, server: usize, pool: &PgPool) {
        let mut current = self.current();
        if current.server == server {
            return;
        }
        let (from, to) = (host(&self.all[current.server]), host(&self.all[server]));
        tracing::warn!(%from, %to, "another server of the database takes writes now; connections to the old one are given up");
        *current = Current { server, since: Instant::now() };
        pool.set_connect_options(self.all[server].clone());
    }

    /// The first that says it takes writes, or what each said instead.
    async fn ask_all(&self) -> Result<(usize, Option<&'static str>), Vec<(usize, Failure)>> {
        let ask = |server: usize| async move { (server, ask(&self.all[server]).await) };
        let mut answers: FuturesUnordered<_> = (0..self.all.len()).map(ask).collect();
        let mut failures = Vec::new();
        while let Some((server, answer)) = answers.next().await {
            match answer {
                Ok(untried) => return Ok((server, untried)),
                Err(failure) => failures.push((server, failure)),
            }
        }
        failures.sort_by_key(|(server, _)| *server);
        Err(failures)
    }

    /// Prepares a new connection, and refuses one that leads to a standby.
    pub(super) async fn greet(&self, connection: &mut PgConnection, pooled: bool) -> sqlx::Result<()> {
        if !pooled {
            connection.execute(sqlx::raw_sql(session::SETTINGS)).await?;
        }
        let standby = is_standby(connection).await?;
        self.met_standby.store(standby, Ordering::Relaxed);
        if standby { Err(sqlx::Error::Protocol(STANDBY.to_owned())) } else { Ok(()) }
    }

    /// Whether an idle connection may be used: it leads to the server that takes writes, and it lives.
    pub(super) async fn is_usable(
        &self,
        connection: &mut PgConnection,
        about: PoolConnectionMetadata,
    ) -> sqlx::Result<bool> {
        if about.age > self.current().since.elapsed() {
            return Ok(false);
        }
        if about.idle_for < ANSWERED_LATELY {
            return Ok(true);
        }
        // As the pool itself would ask, but a server that is frozen never answers.
        match timeout(PING_MAX, connection.ping()).await {
            Ok(answer) => answer.map(|()| true),
            Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
        }
    }

    /// Says why there was no connection, where the pool does not know.
    pub(super) fn explain(&self, store: &str, error: &sqlx::Error) -> Error {
        if matches!(error, sqlx::Error::PoolTimedOut) && self.met_standby.load(Ordering::Relaxed) {
            return Failure::Standby.into_error(store);
        }
        Error::postgres(store, error)
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a server is not the one.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{STANDBY}")]
    Standby,
    #[error("no answer within {} s", ASK_MAX.as_secs())]
    Silent,
    #[error("{0}")]
    Foreign(String),
    #[error(transparent)]
    Failed(sqlx::Error),
}

impl Failure {
    fn into_error(self, store: &str) -> Error {
        match self {
            Failure::Standby => standby(store),
            Failure::Silent => no_answer(store, ASK_MAX),
            Failure::Foreign(reason) => Error::Denied { store: store.to_owned(), reason },
            Failure::Failed(error) => Error::postgres(store, &error),
        }
    }
}

/// The error that says it.
pub(super) fn standby(store: &str) -> Error {
    Error::Unreachable { store: store.to_owned(), reason: STANDBY.to_owned() }
}

/// Connects once and asks what the server is, and whether it takes writes. The product that nobody has tried, if it is one.
async fn ask(options: &PgConnectOptions) -> Result<Option<&'static str>, Failure> {
    let asked = timeout(ASK_MAX, async {
        let mut connection = options.connect().await?;
        // Before anything that another product may not have.
        let verdict = product::ask(&mut connection).await?;
        let standby = !matches!(verdict, Verdict::Refused(_)) && is_standby(&mut connection).await?;
        connection.close().await?;
        sqlx::Result::Ok((verdict, standby))
    });
    match asked.await {
        Ok(Ok((Verdict::Refused(reason), _))) => Err(Failure::Foreign(reason)),
        Ok(Ok((_, true))) => Err(Failure::Standby),
        Ok(Ok((Verdict::Untried(name), false))) => Ok(Some(name)),
        Ok(Ok((Verdict::Usable, false))) => Ok(None),
        Ok(Err(error)) => Err(Failure::Failed(error)),
        Err(_) => Err(Failure::Silent),
    }
}

/// In the simple protocol, which needs no prepared statement.
async fn is_standby(connection: &mut PgConnection) -> sqlx::Result<bool> {
    connection.fetch_one(sqlx::raw_sql(IS_STANDBY)).await?.try_get(0)
}

fn options(url: &str) -> Result<PgConnectOptions, String> {
    let options = PgConnectOptions::from_str(url).map_err(|error| error.to_string())?;
    // We read no floats, and poolers refuse the parameter.
    let options = options.extra_float_digits(None);
    Ok(match options.get_application_name() {
        None => options.application_name("syncline"),
        Some(_) => options,
    })
}

fn host(options: &PgConnectOptions) -> String {
    format!("{}:{}", options.get_host(), options.get_port())
}

/// An address cut around its hosts. What stands before the last `@` is a user and a password, and may have commas.
fn hosts(address: &str) -> (&str, &str, &str) {
    let begin = address.find("://").map_or(0, |at| at + 3);
    let end = address[begin..].find('/').map_or(address.len(), |at| begin + at);
    let begin = address[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    (&address[..begin], &address[begin..end], &address[end..])
}

fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let each = query.split('&').filter(|parameter| !parameter.is_empty());
    each.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

fn unknown_parameter(query: &str) -> Option<&str> {
    let known = |name: &str| PARAMETERS.contains(&name) || name.starts_with("options[");
    parameters(query).map(|(name, _)| name).find(|name| !known(name))
}

fn named_in_query(query: &str) -> bool {
    parameters(query).any(|(name, value)| matches!(name, "host" | "hostaddr" | "port") && value.contains(','))
}

/// The query as the driver takes it. It does not know `target_session_attrs`, and we write: only what asks for that is right.
fn without_session_attrs(query: &str) -> Result<String, String> {
    let wrong = parameters(query).find(|(name, value)| {
        *name == SESSION_ATTRS && !matches!(*value, "read-write" | "primary" | "any" | "prefer-primary")
    });
    if let Some((_, value)) = wrong {
        return Err(format!("{SESSION_ATTRS} is `{value}`, but everything here writes; say `read-write`"));
    }
    let kept =
        query.split('&').filter(|parameter| !parameter.is_empty() && !parameter.starts_with(SESSION_ATTRS));
    let kept = kept.collect::<Vec<_>>().join("&");
    Ok(if kept.is_empty() { kept } else { format!("?{kept}") })
}

const SESSION_ATTRS: &str = "target_session_attrs";

#[cfg(test)]
mod tests {
    use super::*;

    fn named(url: &str) -> String {
        Servers::of(url).map_or_else(|error| error.to_string(), |servers| servers.describe())
    }

    #[test]
    fn op_02_an_address_names_one_server_or_several_and_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("postgres://user:hunter2@db.example:6000/main", "postgres://db.example:6000/main"),
            ("postgresql://h/main?password=hunter2&user=u", "postgres://h:5432/main"),
            ("postgres://u@%2Frun%2Fpg/main", "postgres:/run/pg/main"),
            ("postgres://u:p,w@a,b:6000,c/main", "postgres://a:5432,b:6000,c:5432/main"),
            (
                "postgres://a,b/db?target_session_attrs=read-write&sslmode=disable",
                "postgres://a:5432,b:5432/db",
            ),
            ("postgres://u:p,w@one/db,x?options=a,b", "postgres://one:5432/db,x"),
            ("postgres://u:p@[::1]:6000,b/db", "postgres://[::1]:6000,b:5432/db"),
        ] {
            assert_eq!(named(url), shown, "{url}");
        }
    }

    #[test]
    fn op_02_an_address_that_cannot_be_meant_is_refused_with_the_reason() {
        for (url, reason) in [
            ("postgres://a/db?ssl_mode=disable", "unknown parameter `ssl_mode`"),
            ("postgres://a,b/db?target_session_attrs=standby", "say `read-write`"),
            ("postgres:///db?host=a,b", "before the slash"),
            ("postgres://a,b:port/db", "invalid port"),
        ] {
            assert!(named(url).contains(reason), "{url}: {}", named(url));
        }
        assert!(named(&format!("postgres://{}/db", ["a"; 17].join(","))).contains("more than 16 hosts"));
    }
}
