//! One kind of entries on its way: when to claim, how much, and how long to leave a front end alone that is down.
//!
//! ```text
//!   ┌─▶ claim ─▶ a flight for each claim ─▶ wait for: a landing, a wake, the time to look, the stop ─┐
//!   └──────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Changes and files have a lane each, so that an hour of upload holds no change up. On stop flights get some seconds to land,
//! and what is left is given back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_core::outbox::{Exchange, Health, PAUSE};
use syncline_store::outbox::{Claimed, Kind};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::flight::{Landed, fly};
use super::{Live, STORE_PAUSE, STORE_PAUSE_MAX, Shared, Until, carry::carry};

/// Requests under way at a time. More than one keeps the front end busy while the store settles; many would only wait.
const FLIGHTS_OF_CHANGES: usize = 4;
const FLIGHTS_OF_FILES: usize = 2;

/// How long flights may take to land when the worker stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How often a drain that has nothing to do looks: other workers finish what is pending without a word.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// How long a front end may be down before a drain is given up.
const DOWN_MAX: Duration = Duration::from_secs(60);

pub(super) struct Lane {
    kind: Kind,
    shared: Arc<Shared>,
    health: Health,
    flights: JoinSet<Landed>,
    wakes: watch::Receiver<u64>,
    live: watch::Receiver<Live>,
    /// Nothing is claimed before this.
    not_before: Instant,
    /// Since when the front end is down, and why.
    down: Option<(Instant, String)>,
    store_pause: Duration,
    give_up: CancellationToken,
}

/// What a look at the outbox showed.
struct Look {
    /// When to look again, whatever is heard.
    again: Instant,
    /// Nothing can be done before that or a wake.
    idle: bool,
}

impl Lane {
    pub(super) fn new(kind: Kind, shared: Arc<Shared>) -> Lane {
        let live = shared.live.subscribe();
        let batch = if kind == Kind::File { 1 } else { live.borrow().batch_size };
        Lane {
            kind,
            health: Health::new(PAUSE, batch),
            flights: JoinSet::new(),
            wakes: shared.outbox.wakes(),
            live,
            not_before: Instant::now(),
            down: None,
            store_pause: STORE_PAUSE,
            give_up: CancellationToken::new(),
            shared,
        }
    }

    /// Works until done or stopped; why the front end was down in the end, if it was.
    pub(super) async fn live(mut self, until: Until, stop: CancellationToken) -> Option<String> {
        while !stop.is_cancelled() {
            let look = self.look().await;
            if self.flights.is_empty()
                && (self.shared.drained.is_cancelled() || look.idle && self.is_done(until).await)
            {
                break;
            }
            self.wait(look.again, until, &stop).await;
        }
        self.land_all().await;
        self.down.map(|(_, reason)| reason)
    }

    /// Claims what may fly now.
    async fn look(&mut self) -> Look {
        // Whatever is inserted or set from here on is news.
        self.wakes.mark_unchanged();
        let live = *self.live.borrow_and_update();
        let usual = Instant::now() + live.poll_interval;
        if !live.sends(self.kind) {
            return Look { again: usual, idle: true };
        }
        if self.kind == Kind::Change {
            self.health.set_batch_max(live.batch_size);
        }
        while self.flights.len() < self.flights_max() {
            if Instant::now() < self.not_before {
                return Look { again: self.not_before.min(usual), idle: self.down.is_some() };
            }
            let claiming = self.shared.outbox.claim(
                &self.shared.name,
                self.kind,
                self.health.batch(),
                self.shared.lease,
            );
            match self.shared.asked("claim", claiming).await {
                Ok(claimed) => {
                    self.store_pause = STORE_PAUSE;
                    self.shared.told_unreadable(&claimed.unreadable);
                    let (look_in, none) = (claimed.look_in, claimed.entries.is_empty());
                    self.launch(claimed);
                    if look_in != Some(Duration::ZERO) {
                        let again = look_in.map_or(usual, |wait| usual.min(Instant::now() + wait));
                        return Look { again, idle: none };
                    }
                }
                Err(_) => {
                    let again = Instant::now() + self.store_pause;
                    self.store_pause = (self.store_pause * 2).min(STORE_PAUSE_MAX);
                    return Look { again, idle: false };
                }
            }
        }
        Look { again: usual, idle: false }
    }

    fn flights_max(&self) -> usize {
        match self.kind {
            // One that is down is asked by one.
            _ if self.health.is_down() => 1,
            Kind::Change => FLIGHTS_OF_CHANGES,
            Kind::File => FLIGHTS_OF_FILES,
        }
    }

    fn launch(&mut self, claimed: Claimed) {
        let (shared, give_up) = (&self.shared, &self.give_up);
        match self.kind {
            _ if claimed.entries.is_empty() => {}
            Kind::Change => {
                self.flights.spawn(fly(Arc::clone(shared), claimed, give_up.clone()));
            }
            Kind::File => {
                for entry in claimed.entries {
                    self.flights.spawn(carry(Arc::clone(shared), claimed.claim, entry, give_up.clone()));
                }
            }
        }
    }

    /// Waits until there is a reason to look again.
    async fn wait(&mut self, again: Instant, until: Until, stop: &CancellationToken) {
        // A wake is no reason while the front end is to be left alone, or while all flights are out.
        let hears = Instant::now() >= self.not_before && self.flights.len() < self.flights_max();
        let again = match until {
            Until::Drained => again.min(Instant::now() + LOOK_AROUND),
            Until::Stopped | Until::Idle => again,
        };
        tokio::select! {
            () = stop.cancelled() => {}
            Some(landed) = self.flights.join_next() => self.landed(landed),
            _ = self.wakes.changed(), if hears => {}
            _ = self.live.changed() => {}
            () = self.shared.drained.cancelled(), if self.flights.is_empty() => {}
            () = tokio::time::sleep_until(again.into()) => {}
        }
        while let Some(landed) = self.flights.try_join_next() {
            self.landed(landed);
        }
    }

    fn landed(&mut self, landed: Result<Landed, tokio::task::JoinError>) {
        let exchange = match landed {
            Ok(landed) => landed.exchange,
            Err(error) => {
                tracing::error!(%error, "a flight failed inside; its entries come back when their lease ends");
                return;
            }
        };
        let pause = self.health.heard(&exchange, rand::random());
        self.not_before = Instant::now() + pause;
        self.down = match exchange {
            Exchange::Down { reason, .. } => {
                Some((self.down.take().map_or_else(Instant::now, |(since, _)| since), reason))
            }
            Exchange::Well { .. } => None,
        };
        self.shared.meters.down.set(if self.down.is_some() { 1.0 } else { 0.0 });
    }

    async fn is_done(&self, until: Until) -> bool {
        match until {
            Until::Stopped => false,
            Until::Idle => true,
            Until::Drained if !self.live.borrow().sends(self.kind) => true,
            Until::Drained if self.down.as_ref().is_some_and(|(since, _)| since.elapsed() > DOWN_MAX) => true,
            Until::Drained => {
                let stats = self.shared.asked("stats", self.shared.outbox.stats()).await;
                let drained = stats.is_ok_and(|stats| stats.pending == 0);
                if drained {
                    self.shared.drained.cancel();
                }
                drained
            }
        }
    }

    /// Lets flights land, and gives back what does not in time.
    async fn land_all(&mut self) {
        let give_up = self.give_up.clone();
        if self.kind == Kind::File {
            give_up.cancel();
        }
        let patience = tokio::spawn(async move {
            tokio::time::sleep(STOP_GRACE).await;
            give_up.cancel();
        });
        while let Some(landed) = self.flights.join_next().await {
            self.landed(landed);
        }
        patience.abort();
    }
}
