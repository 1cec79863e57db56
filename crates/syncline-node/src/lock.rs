//! Locks as this node hands them out: waiting in order, and nothing left behind by who went away.
//!
//! The store decides who holds what, in one statement. This adds an order: the waiters for a name on this node are served
//! in order of arrival, nobody who comes later is served before them, and a release, here or on another node, wakes the
//! first waiter at once. Who asks on with the same lease keeps its place. A grant is given back if its caller has gone away meanwhile. While the store cannot be asked
//! nothing is granted.
//!
//! Between nodes there is no order: the first waiters of the nodes compete.

mod http;
mod meters;
mod part;
mod waiters;

pub use part::LockPart;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use syncline_core::lock::{LeaseId, Name, Refused, Token, Ttl};
use syncline_store::Error;
use syncline_store::lock::{Acquired, Holding, Locks as Port, Request};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::meters::Meters;
use self::waiters::Waiters;
use crate::events::Bus;
use crate::metrics::Registry;

/// How many may wait for locks on one node.
pub const WAITING_MAX: usize = 4_096;

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Which lock.
    pub name: Name,
    /// The id of the lease to be.
    pub lease: LeaseId,
    /// Who asks, for others to read.
    pub holder: String,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Ttl,
    /// How long to wait for it.
    pub wait: Duration,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is theirs.
    Granted {
        /// The number of the grant.
        token: Token,
    },
    /// Somebody has it.
    Held(Holding),
    /// It was free just now, and others have waited longer.
    OthersFirst,
    /// The machine was started anew, and leases from before may still be out.
    Quiet {
        /// How much longer.
        left: Duration,
    },
    /// More wait than this node has room for.
    TooManyWait,
}

/// The locks of a node.
pub struct Locks {
    store: Arc<dyn Port>,
    waiters: Waiters,
    events: Bus,
    meters: Meters,
}

/// What happened to a lock, for whoever listens.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Happened<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    token: Token,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    forced: bool,
}

impl Locks {
    /// Those that `store` grants, with waiters of this process's own for each name.
    pub fn new(store: Arc<dyn Port>, events: Bus, registry: &Registry) -> Locks {
        Locks { store, waiters: Waiters::default(), events, meters: Meters::new(registry) }
    }

    /// Asks, and waits in line if need be. Dropped while it waits, it leaves nothing behind.
    pub async fn acquire(&self, ask: &Ask) -> Result<Answer, Error> {
        let started = Instant::now();
        let answer = self.count_store_errors(self.ask(ask, started + ask.wait).await)?;
        self.meters.wait.record(started.elapsed());
        if let Answer::Granted { token } = answer {
            self.meters.granted.increment(1);
            self.happened("lock.acquired", &ask.name, Some(&ask.holder), token, Some(ask.ttl));
        } else {
            self.meters.held.increment(1);
        }
        Ok(answer)
    }

    /// Lets a lease last `ttl` from now.
    pub async fn renew(
        &self,
        name: &Name,
        lease: LeaseId,
        ttl: Ttl,
    ) -> Result<Result<Token, Refused>, Error> {
        let renewed = self.count_store_errors(self.store.renew(name, lease, ttl).await)?;
        match renewed {
            Ok(token) => {
                self.meters.renewed.increment(1);
                self.happened("lock.renewed", name, None, token, Some(ttl));
            }
            Err(refused) => self.meters.refused(refused).increment(1),
        }
        Ok(renewed)
    }

    /// Gives a lock back.
    pub async fn release(&self, name: &Name, lease: LeaseId) -> Result<Result<Token, Refused>, Error> {
        let released = self.count_store_errors(self.store.release(name, lease).await)?;
        match released {
            Ok(token) => {
                self.meters.released.increment(1);
                self.happened("lock.released", name, None, token, None);
            }
            Err(refused) => self.meters.refused(refused).increment(1),
        }
        Ok(released)
    }

    /// Ends whatever lease is in force; its holder finds out when it renews.
    pub async fn force_release(&self, name: &Name) -> Result<Option<Holding>, Error> {
        let ended = self.count_store_errors(self.store.force_release(name).await)?;
        if let Some(held) = &ended {
            self.meters.forced.increment(1);
            tracing::warn!(lock = %name, holder = held.holder, "a lease was ended by force");
            let (name, holder) = (name.as_str(), Some(held.holder.as_str()));
            let facts = Happened { name, holder, token: held.token, ttl_ms: None, forced: true };
            self.events.publish_in("lock.released", name, &facts);
        }
        Ok(ended)
    }

    /// How many wait for a lock on this node.
    pub fn waiting(&self, name: &Name) -> usize {
        self.waiters.count(name)
    }

    /// A lock, if it is held.
    pub async fn look(&self, name: &Name) -> Result<Option<Holding>, Error> {
        self.count_store_errors(self.store.look(name).await)
    }

    /// Locks that are held, by name.
    pub async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Holding>, Error> {
        self.count_store_errors(self.store.list(prefix, after, limit).await)
    }

    /// Forgets names that nobody uses any more.
    pub(crate) async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        self.count_store_errors(self.store.sweep(limit).await)
    }

    async fn ask(&self, ask: &Ask, deadline: Instant) -> Result<Answer, Error> {
        let waits = !ask.wait.is_zero();
        if !self.waiters.has(&ask.name) {
            let answer = self.ask_once(ask, waits).await?;
            if !waits || matches!(answer, Answer::Granted { .. }) {
                return Ok(answer);
            }
        } else if !waits {
            return self.as_it_is(&ask.name).await;
        }
        let kept = self.waiters.take_kept(&ask.name, ask.lease);
        let Some(mut waiter) = kept.or_else(|| self.waiters.join(&ask.name)) else {
            return Ok(Answer::TooManyWait);
        };
        let _waiting = self.meters.waiting();
        if tokio::time::timeout_at(deadline, waiter.first()).await.is_err() {
            self.waiters.keep(ask.lease, waiter);
            return self.as_it_is(&ask.name).await;
        }
        let mut watch = self.store.watch(&ask.name);
        loop {
            let answer = self.ask_once(ask, true).await?;
            let left = match &answer {
                Answer::Held(held) => held.left,
                Answer::Quiet { left } => *left,
                Answer::Granted { .. } | Answer::OthersFirst | Answer::TooManyWait => return Ok(answer),
            };
            let now = Instant::now();
            if now >= deadline {
                self.waiters.keep(ask.lease, waiter);
                return Ok(answer);
            }
            watch.freed(left.min(deadline - now)).await;
        }
    }

    /// The lock as it is, for somebody who may not have it because others come first.
    async fn as_it_is(&self, name: &Name) -> Result<Answer, Error> {
        Ok(self.store.look(name).await?.map_or(Answer::OthersFirst, Answer::Held))
    }

    /// Asks the store once, in a task of its own: whoever asked may go away, and then somebody must still be there to
    /// give a grant back.
    async fn ask_once(&self, ask: &Ask, waits: bool) -> Result<Answer, Error> {
        let (answer, answered) = oneshot::channel();
        let (store, ask) = (Arc::clone(&self.store), ask.clone());
        tokio::spawn(async move {
            let request =
                Request { name: &ask.name, lease: ask.lease, holder: &ask.holder, ttl: ask.ttl, waits };
            let acquired = store.acquire(request).await.map(|acquired| match acquired {
                Acquired::Granted { token } => {
                    Ok(Unclaimed { token, grant: Some((store, ask.name, ask.lease)) })
                }
                Acquired::Held(held) => Err(Answer::Held(held)),
                Acquired::Quiet { left } => Err(Answer::Quiet { left }),
            });
            // Nobody there to take it: what is dropped here gives itself back.
            drop(answer.send(acquired));
        });
        let answered = answered.await.unwrap_or_else(|_| {
            let (store, reason) = ("the lock".to_owned(), "the task that asked has ended".to_owned());
            Err(Error::Engine { store, reason })
        });
        Ok(match answered? {
            Ok(unclaimed) => Answer::Granted { token: unclaimed.claim() },
            Err(answer) => answer,
        })
    }

    fn happened(
        &self,
        what: &'static str,
        name: &Name,
        holder: Option<&str>,
        token: Token,
        ttl: Option<Ttl>,
    ) {
        let ttl_ms = ttl.map(Ttl::as_ms);
        let facts = Happened { name: name.as_str(), holder, token, ttl_ms, forced: false };
        self.events.publish_in(what, name.as_str(), &facts);
    }

    /// Counts what is the store's own failure.
    fn count_store_errors<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        answer.inspect_err(|error| {
            if !matches!(error, Error::Invalid { .. } | Error::Kv(_)) {
                self.meters.store_errors.increment(1);
            }
        })
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}

/// A grant on its way to whoever asked. Dropped on the way it is given back.
struct Unclaimed {
    token: Token,
    grant: Option<(Arc<dyn Port>, Name, LeaseId)>,
}

impl Unclaimed {
    fn claim(mut self) -> Token {
        self.grant = None;
        self.token
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        let Some((store, name, lease)) = self.grant.take() else { return };
        tokio::spawn(async move {
            if let Err(error) = store.release(&name, lease).await {
                tracing::warn!(lock = %name, %error, "a grant whose caller had gone could not be given back; its lease expires by itself");
            }
        });
    }
}
