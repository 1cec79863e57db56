//! Holders of one lock, and the judge who knows until when each of them may believe to hold it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use syncline_core::lock::{LeaseId, Name, Token, Ttl};
use syncline_store::lock::{Acquired, Locks, Request};

const LEASE: Duration = Duration::from_secs(3);
/// How often a holder renews before it lets go.
const RENEWALS: usize = 2;
const HOLD: Duration = Duration::from_millis(30);

/// What is known of the lock.
#[derive(Default)]
pub(crate) struct Holders {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    grants: u64,
    token: Option<Token>,
    /// Until when the last holder may believe that it holds the lock; `None` once it let go.
    until: Option<Instant>,
}

impl Holders {
    pub(crate) fn grants(&self) -> u64 {
        self.known().grants
    }

    /// Takes the lock once, if it is free, and lets it go; whether anything was acknowledged.
    pub(crate) async fn hold_once(&self, locks: &dyn Locks, holder: &str) -> bool {
        let (name, lease) = (Name::new("leader").unwrap(), LeaseId::from_random(rand::random()));
        let ttl = Ttl::from_ms(LEASE.as_millis() as u64).unwrap();
        let asked = Instant::now();
        let request = Request { name: &name, lease, holder, ttl, waits: false };
        let Ok(Acquired::Granted { token }) = locks.acquire(request).await else { return false };
        // A commit may wait for a standby for longer than its lease lasts. Who hears of it then holds nothing, and somebody else may
        // have heard of a later grant by now.
        if asked.elapsed() >= LEASE {
            return true;
        }
        self.granted(token, asked + LEASE);
        for _ in 0..RENEWALS {
            tokio::time::sleep(HOLD).await;
            let asked = Instant::now();
            match locks.renew(&name, lease, ttl).await {
                Ok(Ok(renewed)) => {
                    assert_eq!(renewed, token, "a renewal keeps the token");
                    self.known().until = Some(asked + LEASE);
                }
                Ok(Err(_)) => return true,
                Err(_) => {}
            }
        }
        // From here on it does not believe to hold anything, whatever becomes of the message.
        self.known().until = None;
        let _ = locks.release(&name, lease).await;
        true
    }

    /// Judges a grant: the one before must have ended, and its token must be lower.
    fn granted(&self, token: Token, until: Instant) {
        let mut known = self.known();
        if let Some(before) = known.until {
            let early = before.saturating_duration_since(Instant::now());
            assert!(early.is_zero(), "granted although another held it for {early:?} more");
        }
        assert!(known.token.is_none_or(|last| token > last), "{token} after {:?}", known.token);
        (known.token, known.until, known.grants) = (Some(token), Some(until), known.grants + 1);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
