//! The servers under load that this program is itself.
//!
//! Ceiling and Redis are whole nodes with all their workers: the same accept loop, the same door, the same runtime, at the
//! same address. Only what stands behind `POST /api/viewer` differs.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use serde::Deserialize;
use syncline_node::{Config, Node, config, http};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// How often, and how long after each other, a connection to a Redis that is just starting is tried.
const CONNECT_ATTEMPTS: u32 = 200;
const CONNECT_PAUSE: Duration = Duration::from_millis(25);

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// axum's own server without any door.
    Bare,
    /// Syncline's server and door, and an answer that looks at nothing.
    Ceiling,
    /// Syncline's server and door, and a key with a time to live in Redis.
    Redis,
}

/// Serves on a port the system chooses, prints which, and ends when told to.
pub(crate) async fn run(kind: Kind) -> Result<()> {
    if kind == Kind::Bare {
        return bare().await;
    }
    let config =
        Config::load(&config::Flags::default(), &|name| std::env::var(name).ok(), syncline_node::systems())?;
    let redis = if kind == Kind::Redis { Some(Redis::start().await?) } else { None };
    let routes = match &redis {
        None => Router::new().route("/api/viewer", post(async || accepted())),
        Some(redis) => redis.routes(),
    };
    let node = Node::start_with(config, |context| http::behind_door(routes, context)).await?;
    println!("listening on http://{}", node.address());
    told_to_stop().await;
    node.stop().await;
    Ok(())
}

async fn bare() -> Result<()> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let app = Router::new().route("/api/viewer", post(async || accepted()));
    axum::serve(listener, app).with_graceful_shutdown(told_to_stop()).await?;
    Ok(())
}

/// The answer of a node to a heartbeat, byte for byte.
fn accepted() -> Response {
    ([("content-type", "application/json")], Bytes::from_static(b"{\"success\":true}")).into_response()
}

/// The bench asks by signal; should it die, standard input ends.
async fn told_to_stop() {
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be listened for");
    let input = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = input => {}
    }
}

/// A Redis that keeps nothing on disk, gone when dropped.
struct Redis {
    connection: MultiplexedConnection,
    _server: Child,
}

/// What the peer has to know of a heartbeat.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Heartbeat<'a> {
    session_id: &'a str,
}

impl Redis {
    async fn start() -> Result<Redis> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let server = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start redis-server")?;
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
        // Its own time-out would cost a timer for each command; the door has one already.
        let settings = AsyncConnectionConfig::new().set_response_timeout(None);
        for attempt in 1.. {
            match client.get_multiplexed_async_connection_with_config(&settings).await {
                Ok(connection) => return Ok(Redis { connection, _server: server }),
                Err(error) if attempt == CONNECT_ATTEMPTS => return Err(error.into()),
                Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
            }
        }
        unreachable!("the loop above ends by returning")
    }

    fn routes<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let (beats, counts) = (self.connection.clone(), self.connection.clone());
        let beat = post(move |body: Bytes| beat(beats.clone(), body)).get(move || count(counts.clone()));
        Router::new().route("/api/viewer", beat)
    }
}

async fn beat(mut redis: MultiplexedConnection, body: Bytes) -> Result<Response, http::Error> {
    let beat: Heartbeat<'_> = serde_json::from_slice(&body).map_err(http::Error::internal)?;
    let key = format!("viewer:{}", beat.session_id);
    let set = redis::cmd("SET").arg(key).arg(1).arg("EX").arg(60).exec_async(&mut redis).await;
    set.map_err(http::Error::internal)?;
    Ok(accepted())
}

/// All keys there are: nothing else is kept.
async fn count(mut redis: MultiplexedConnection) -> Result<String, http::Error> {
    let keys: u64 = redis::cmd("DBSIZE").query_async(&mut redis).await.map_err(http::Error::internal)?;
    Ok(format!("{{\"viewers\":{keys}}}"))
}
