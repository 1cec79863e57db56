//! Our locks, as an application in Rust uses them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use syncline_core::lock::{LeaseId, Name, Ttl};
use syncline_node::events::Bus;
use syncline_node::lock::{Answer, Ask, Locks};
use syncline_node::metrics::Registry;
use syncline_store::Store;
use tokio::sync::Barrier;

use crate::race::{Outcome, Percentiles, Race};

/// Longer than any client has to wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Per name: who let go last, and when.
type Last = Arc<Mutex<Option<(u32, Instant)>>>;

/// What one client saw, in milliseconds.
#[derive(Default)]
struct Seen {
    pairs: Vec<f64>,
    handovers: Vec<f64>,
}

/// The whole race on a fresh database.
pub(crate) fn run(url: &str, race: Race) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let store = Store::open(url).await?;
        let locks = Arc::new(Locks::new(store.locks(), Bus::new(), &Registry::new()));
        let lasts: Vec<Last> = (0..race.names).map(|_| Last::default()).collect();
        let start = Arc::new(Barrier::new(race.clients as usize));
        let begun = Instant::now();
        let clients: Vec<_> = (0..race.clients)
            .map(|client| {
                let number = client % race.names;
                let name = Name::new(format!("name-{number}"))?;
                let last = Arc::clone(&lasts[number as usize]);
                let lasts_for = Duration::from_secs(race.seconds.into());
                let client = Client { locks: Arc::clone(&locks), client, name, last };
                let start = Arc::clone(&start);
                Ok(tokio::spawn(client.race(start, lasts_for)))
            })
            .collect::<Result<_>>()?;
        let mut all = Seen::default();
        for client in clients {
            let seen = client.await.context("a client did not end well")??;
            all.pairs.extend(seen.pairs);
            all.handovers.extend(seen.handovers);
        }
        let pairs_per_second = all.pairs.len() as f64 / begun.elapsed().as_secs_f64();
        store.close().await;
        let (pair_ms, handover_ms) = (Percentiles::of(all.pairs), Percentiles::of(all.handovers));
        Ok(Outcome { pairs_per_second, pair_ms, handover_ms })
    })
}

struct Client {
    locks: Arc<Locks>,
    client: u32,
    name: Name,
    last: Last,
}

impl Client {
    async fn race(self, start: Arc<Barrier>, lasts_for: Duration) -> Result<Seen> {
        // The first round connects, and does not count.
        let lease = self.acquire().await?;
        self.release(lease).await?;
        start.wait().await;
        let end = Instant::now() + lasts_for;
        let mut seen = Seen::default();
        while Instant::now() < end {
            let asked = Instant::now();
            let lease = self.acquire().await?;
            {
                let mut last = self.last.lock().expect("nobody panics while holding it");
                if let Some((_, at)) = last.filter(|(client, _)| *client != self.client) {
                    seen.handovers.push(at.elapsed().as_secs_f64() * 1e3);
                }
                *last = Some((self.client, Instant::now()));
            }
            self.release(lease).await?;
            seen.pairs.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        Ok(seen)
    }

    async fn acquire(&self) -> Result<LeaseId> {
        let lease = LeaseId::from_random(rand::random());
        let (name, holder) = (self.name.clone(), "bench".to_owned());
        let ask = Ask { name, lease, holder, ttl: Ttl::default(), wait: PATIENCE };
        match self.locks.acquire(&ask).await? {
            Answer::Granted { .. } => Ok(lease),
            other => bail!("nothing was granted: {other:?}"),
        }
    }

    async fn release(&self, lease: LeaseId) -> Result<()> {
        self.locks.release(&self.name, lease).await?.map(drop).context("the lease was not in force")
    }
}
