//! The accept loop: sockets in, requests out, and nobody can sit on a connection for ever.
//!
//! Bounds: connections at a time, all together (more wait in the system's backlog) and by address; the time from opening
//! to the end of the first headers, between requests, and for a peer that does not read its answer; what is buffered of an
//! answer, 64 KiB or so for each request. On `stop` it accepts nothing more, lets answers in flight finish until the drain
//! time is over, and then cuts what is left. Bodies and slow handlers are bounded by the door (`crate::http`).

mod activity;
mod permits;
mod stall;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use metrics::{Counter, Gauge};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::config::Limits;
use crate::metrics::Registry;
pub(crate) use activity::AnswerShare;
use activity::{Activity, Answer};
pub(crate) use permits::{AddressPermit, AddressPermits};
use stall::Stall;

/// Descriptors kept for everything that is not a connection: files, the database, outgoing calls.
const FILES_RESERVED: u64 = 128;

/// Connections the system holds until they are accepted. What a burst brings beyond that has to knock again, which takes
/// the caller a second.
const BACKLOG: u32 = 4_096;

/// How long a peer may leave an answer unread.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after the system refused to accept: it is out of something that only time gives back.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Request heads are refused beyond this size.
const HEAD_MAX_BYTES: usize = 64 * 1024;

/// Requests one HTTP/2 connection may have under way.
const STREAMS_PER_CONNECTION: u32 = 128;

/// What is buffered of one HTTP/2 answer whose reader is slow.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// How often a connection is looked at: whether it is idle, and whether its peer reads.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a connection may be idle while hardly any place is free.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// It is crowded when fewer than one place in this many is free.
const CROWDED_SHARE: usize = 16;

/// Who sent a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Listens on `address`. A port that the last process has just left can be taken at once.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `app` on `listener` until `stop`, and returns when the last connection is gone.
pub(crate) async fn run(
    listener: TcpListener,
    app: Router,
    limits: &Limits,
    registry: &Registry,
    stop: CancellationToken,
) {
    let meters = Meters::new(registry);
    let cut = CancellationToken::new();
    let most = affordable(limits.connections);
    let slots = Arc::new(Semaphore::new(most));
    let permits = AddressPermits::new(limits.connections_per_address);
    let connections = TaskTracker::new();
    let settings = Arc::new(Settings {
        builder: builder(limits),
        idle_timeout: limits.header_timeout,
        slots: Arc::clone(&slots),
        crowded_below: (most / CROWDED_SHARE).max(1),
    });
    loop {
        // The slot comes first: a connection that has none stays with the system.
        let slot = tokio::select! {
            () = stop.cancelled() => break,
            slot = Arc::clone(&slots).acquire_owned() => slot.expect("the semaphore is never closed"),
        };
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            },
        };
        let Some(permit) = permits.take(peer.ip(), slots.available_permits()) else {
            meters.refused.increment(1);
            continue;
        };
        meters.accepted.increment(1);
        let open = Open::new(&meters.open);
        let connection = connection(stream, Peer(peer), app.clone(), Arc::clone(&settings), stop.clone());
        let cut = cut.clone();
        connections.spawn(async move {
            cut.run_until_cancelled_owned(connection).await;
            drop((slot, permit, open));
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(limits.drain_timeout, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "cutting connections that did not finish in time");
        cut.cancel();
        connections.wait().await;
    }
}

/// Raises the number of files this process may open to what the system allows, as servers do, and says how many that is.
pub fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit on open files could not be raised");
            limit.current
        }
    }
}

struct Settings {
    builder: auto::Builder<TokioExecutor>,
    idle_timeout: Duration,
    slots: Arc<Semaphore>,
    crowded_below: usize,
}

impl Settings {
    /// How long a connection may be idle now. When places run out, those who wait at the door come before those who might
    /// ask again.
    fn idle_timeout(&self) -> Duration {
        let crowded = self.slots.available_permits() < self.crowded_below;
        if crowded { self.idle_timeout.min(CROWDED_IDLE_TIMEOUT) } else { self.idle_timeout }
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HEAD_MAX_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .keep_alive_timeout(Duration::from_secs(10))
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(HEAD_MAX_BYTES as u32);
    builder
}

/// Serves one connection until it ends, is idle for too long, or the node stops.
async fn connection(
    stream: TcpStream,
    peer: Peer,
    app: Router,
    settings: Arc<Settings>,
    stop: CancellationToken,
) {
    // Answers are small and complete: waiting to fill a packet only delays them. A socket that cannot even be told so is
    // already broken, which the first read reports.
    let _ = stream.set_nodelay(true);
    let activity = Activity::new();
    let service = {
        let activity = Arc::clone(&activity);
        service_fn(move |mut request: Request<Incoming>| {
            let exchange = activity.begin();
            request.extensions_mut().insert(peer);
            let answering = app.clone().call(request.map(Body::new));
            async move {
                let mut response = answering.await?;
                let share = response.extensions_mut().remove::<AnswerShare>();
                Ok::<_, Infallible>(response.map(|body| Answer::new(body, exchange, share)))
            }
        })
    };
    let io = TokioIo::new(Stall::new(stream, WRITE_STALL_TIMEOUT));
    let mut serving = pin!(settings.builder.serve_connection(io, service));
    let every = LOOK_EVERY.min(settings.idle_timeout / 2);
    let mut look = tokio::time::interval_at(Instant::now() + every, every);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut closing: Option<Instant> = None;
    let mut stopping = false;
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(peer = %peer.0, error, "connection ended");
                }
                return;
            }
            _ = look.tick() => {
                if activity.is_stalled(WRITE_STALL_TIMEOUT) {
                    tracing::debug!(peer = %peer.0, "connection cut: its peer leaves an answer unread");
                    return;
                }
                let limit = settings.idle_timeout();
                if activity.idle_for().is_none_or(|idle| idle < limit) {
                    continue;
                }
                // A peer that does not let go when asked to is let go of.
                let ignored = closing.is_some_and(|since| since.elapsed() >= limit);
                if !activity.was_asked() || ignored {
                    return;
                }
                if closing.is_none() {
                    closing = Some(Instant::now());
                    serving.as_mut().graceful_shutdown();
                }
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                if !activity.was_asked() {
                    return;
                }
                closing.get_or_insert_with(Instant::now);
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Connections the process has descriptors for.
fn affordable(wanted: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let Some(files) = files else { return wanted };
    let room = usize::try_from(files.saturating_sub(FILES_RESERVED)).unwrap_or(usize::MAX).max(16);
    if room < wanted {
        tracing::warn!(
            wanted,
            room,
            "fewer connections than configured: the system allows no more open files"
        );
    }
    wanted.min(room)
}

/// A connection that died before it was accepted is its own affair; anything else means the system is short of something.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};

    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
    }
}

struct Meters {
    open: Gauge,
    accepted: Counter,
    refused: Counter,
}

impl Meters {
    fn new(registry: &Registry) -> Meters {
        let help = "Connections closed at once because their address has too many.";
        Meters {
            open: registry.gauge("syncline_http_connections", "Connections open now.", &[]),
            accepted: registry.counter("syncline_http_connections_total", "Connections accepted.", &[]),
            refused: registry.counter("syncline_http_connections_refused_total", help, &[]),
        }
    }
}

/// Counts a connection as open for as long as it lives.
struct Open(Gauge);

impl Open {
    fn new(gauge: &Gauge) -> Open {
        gauge.increment(1.0);
        Open(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
