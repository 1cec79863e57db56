//! A lease in the hands of this process: asked for, renewed, given back.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use syncline_client::answer::number;
use syncline_client::{Client, Method, Refusal};
use syncline_core::lock::{LeaseId, Moment, Name, Ttl, Validity};
use syncline_core::time::Timestamp;
use tokio::time::Instant;

/// How long the node may take beyond what it was asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long giving the lock back may take; it ends by itself otherwise.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the clocks are looked at: a machine that was asleep is noticed within this time of its waking.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A lease, and what may still be believed of it.
pub(super) struct Hold {
    name: Name,
    lease: LeaseId,
    token: u64,
    validity: Cell<Validity>,
}

/// The lease is over, or may be.
pub(super) struct Lost {
    pub(super) reason: String,
    /// When the command must be gone.
    pub(super) kill_at: Instant,
}

impl Hold {
    /// Asks for the lock and lets the node wait for it.
    pub(super) async fn acquire(
        client: &Client,
        name: &Name,
        (lease, holder): (LeaseId, &str),
        ttl: Ttl,
        wait: Duration,
    ) -> anyhow::Result<Hold> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let body = json!({ "holder": holder, "ttl_ms": ttl.as_ms(), "wait_ms": wait_ms, "leaseId": lease });
        let mut asked = now();
        let mut granted = ask(client, name, "acquire", &body, wait + ANSWER_TIMEOUT).await?;
        if !wait.is_zero() {
            // A lease is counted from before the request that brought it, and this one may have waited for longer than
            // the lease lasts: renewed, it is counted from now.
            asked = now();
            let body = json!({ "leaseId": lease, "ttl_ms": ttl.as_ms() });
            granted = ask(client, name, "renew", &body, ANSWER_TIMEOUT).await?;
        }
        let validity = Cell::new(Validity::new(asked, ttl));
        Ok(Hold { name: name.clone(), lease, token: number(&granted, "token"), validity })
    }

    pub(super) fn lease(&self) -> LeaseId {
        self.lease
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    /// Renews for as long as it works, and ends when the lease is no longer certain.
    pub(super) async fn keep(&self, client: &Client) -> Lost {
        let ttl = self.validity.get().ttl();
        let mut trouble = None;
        let mut renew_at = now().mono + ttl.renew_every();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let moment = now();
            if !self.validity.get().certain(moment) {
                let reason = trouble.unwrap_or_else(|| "this process did not run for too long".to_owned());
                let left = self.validity.get().ends_at().saturating_since(moment.mono);
                return Lost { reason, kill_at: Instant::now() + left.min(ttl.margin()) };
            }
            if moment.mono < renew_at {
                continue;
            }
            match self.renew(client, moment).await {
                Ok(()) => {
                    trouble = None;
                    renew_at = moment.mono + ttl.renew_every();
                }
                Err(error) => {
                    let refusal = error.downcast_ref::<Refusal>();
                    if refusal.is_some_and(|refusal| refusal.code().starts_with("lease-")) {
                        return Lost { reason: error.to_string(), kill_at: Instant::now() + ttl.margin() };
                    }
                    trouble = Some(format!("it could not be renewed in time: {error:#}"));
                }
            }
        }
    }

    /// Gives the lock back.
    pub(super) async fn release(&self, client: &Client) -> anyhow::Result<()> {
        let body = json!({ "leaseId": self.lease });
        ask(client, &self.name, "release", &body, RELEASE_TIMEOUT).await.map(drop)
    }

    async fn renew(&self, client: &Client, asked: Moment) -> anyhow::Result<()> {
        let ttl = self.validity.get().ttl();
        let body = json!({ "leaseId": self.lease, "ttl_ms": ttl.as_ms() });
        // No longer than what is certain anyway, and short enough to try more than once.
        let left = self.validity.get().certain_until().saturating_since(asked.mono);
        ask(client, &self.name, "renew", &body, left.min(ttl.renew_every())).await?;
        self.validity.set(Validity::new(asked, ttl));
        Ok(())
    }
}

async fn ask(
    client: &Client,
    name: &Name,
    what: &str,
    body: &Value,
    within: Duration,
) -> anyhow::Result<Value> {
    let path = ["api", "locks", name.as_str(), what];
    client.ask_within(Method::POST, &path, &[], Some(body), within).await
}

/// Now, on both clocks. The first counts the time this machine sleeps, where the system can tell.
fn now() -> Moment {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    let mono_ms = time.tv_sec.unsigned_abs() * 1_000 + time.tv_nsec.unsigned_abs() / 1_000_000;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    Moment { mono: Timestamp::from_ms(mono_ms), wall: Timestamp::from_ms(wall_ms) }
}
