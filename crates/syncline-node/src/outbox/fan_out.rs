//! Hands entries over to the routes that want them: from `sync_outbox` into the table of each.
//!
//! One transaction for each claim, so an entry is with all of its receivers' tables or with none. Nothing is sent here: a receiver
//! that is down keeps its entries waiting in its own table, and nobody else's. An entry whose type no route wants is a dead letter,
//! with the line that would change that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_store::minute_before;
use syncline_store::outbox::{Entry, HandOver, Kind};
use tokio_util::sync::CancellationToken;

use super::Until;
use super::route::Route;
use super::shared::Shared;
use crate::store_retry;

/// Entries that are handed over at once.
const STEP: usize = 1_000;

/// How long a claim lasts: handing over is one statement for each route.
const LEASE: Duration = Duration::from_secs(30);

/// How often a drain looks for entries that other workers have claimed.
const DRAIN_POLL: Duration = Duration::from_secs(1);

pub(super) struct FanOut {
    /// The outbox of the application; nothing of it is sent from there.
    pub(super) shared: Arc<Shared>,
    pub(super) routes: Vec<Route>,
}

impl FanOut {
    /// Works until done or stopped.
    pub(super) async fn run(self, until: Until, stop: CancellationToken) {
        let mut wakes = self.shared.outbox.wakes();
        let mut failures = 0;
        while !stop.is_cancelled() {
            wakes.mark_unchanged();
            let usual = minute_before((Instant::now() + self.shared.live.borrow().poll_interval).into());
            let next = match self.step().await {
                Ok(Some(wait)) if wait.is_zero() => continue,
                Ok(wait) => {
                    failures = 0;
                    if until == Until::Idle || until == Until::Drained && self.is_empty().await {
                        return;
                    }
                    let wait = if until == Until::Drained { Some(DRAIN_POLL) } else { wait };
                    wait.map_or(usual, |wait| usual.min(tokio::time::Instant::now() + wait))
                }
                Err(()) => {
                    failures += 1;
                    tokio::time::Instant::now() + store_retry::pause(failures)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                _ = wakes.changed(), if failures == 0 => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Hands over what is in line; when there may be more.
    async fn step(&self) -> Result<Option<Duration>, ()> {
        let mut next: Option<Duration> = None;
        for kind in [Kind::Change, Kind::File] {
            let claiming = self.shared.outbox.claim(&self.shared.name, kind, STEP, LEASE);
            let claimed = self.shared.count_store_errors("claim", claiming).await.map_err(drop)?;
            self.shared.record_unreadable(&claimed.unreadable);
            if !claimed.entries.is_empty() {
                let to = sort(&self.routes, &claimed.entries);
                for (id, reason) in &to.unwanted {
                    self.shared.record_unreadable(&[(*id, reason.clone())]);
                }
                let handing = self.shared.outbox.hand_over(claimed.claim, &to);
                let held = self.shared.count_store_errors("hand over", handing).await.map_err(drop)?;
                tracing::debug!(entries = held.len(), "entries handed over to their routes");
            }
            next = match (next, claimed.look_in) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        Ok(next)
    }

    async fn is_empty(&self) -> bool {
        let stats = self.shared.count_store_errors("stats", self.shared.outbox.stats()).await;
        stats.is_ok_and(|stats| stats.pending == 0)
    }
}

/// Which entries go where.
fn sort(routes: &[Route], entries: &[Entry]) -> HandOver {
    let mut to = HandOver::default();
    for route in routes.iter().filter(|route| !route.rest) {
        let wanted = entries.iter().filter(|entry| route.takes(&entry.entity_type));
        to.routes.push((route.name.clone(), wanted.map(|entry| entry.id).collect()));
    }
    let rest = entries.iter().filter(|entry| !routes.iter().any(|route| route.takes(&entry.entity_type)));
    match routes.iter().find(|route| route.rest) {
        Some(route) => to.routes.push((route.name.clone(), rest.map(|entry| entry.id).collect())),
        None => {
            to.unwanted = rest.map(|entry| (entry.id, nobody_takes(&entry.entity_type))).collect();
        }
    }
    to
}

fn nobody_takes(entity_type: &str) -> String {
    let name: String = entity_type.chars().filter(|c| !c.is_control()).take(60).collect();
    format!("no route takes the type '{name}': add \"{name}\" to the types of one of the [[routes]]")
}

#[cfg(test)]
mod tests {
    use syncline_core::outbox::Moment;

    use super::*;

    #[test]
    fn ss_35_an_entry_goes_to_every_route_that_names_its_type_and_to_no_other() {
        let route = |name: &str, types: &str| -> Route {
            toml::from_str(&format!("name = \"{name}\"\nurl = \"http://localhost/\"\ntypes = {types}"))
                .unwrap()
        };
        let routes = [route("a", "[\"invoice\"]"), route("b", "[\"invoice\", \"order\"]")];
        let entry = |id, entity_type: &str| Entry {
            id,
            entity_type: entity_type.to_owned(),
            entity_id: String::new(),
            payload: String::new(),
            created_at: Moment::from_us(0),
            attempts: 0,
            failed_before: false,
        };
        let to = sort(&routes, &[entry(1, "invoice"), entry(2, "order"), entry(3, "visit")]);
        assert_eq!(to.routes, [("a".to_owned(), vec![1]), ("b".to_owned(), vec![1, 2])]);
        assert_eq!(to.unwanted.len(), 1);
        assert!(to.unwanted[0].1.contains("add \"visit\" to the types"), "{:?}", to.unwanted);
        let url = "http://localhost/".parse().unwrap();
        let rest = [routes[0].clone(), Route::frontend(url, None, false)];
        let to = sort(&rest, &[entry(1, "invoice"), entry(2, "order")]);
        assert_eq!(to.routes, [("a".to_owned(), vec![1]), ("frontend".to_owned(), vec![2])]);
        let all = [route("all", "[\"*\"]")];
        assert_eq!(sort(&all, &[entry(1, "visit")]).unwanted, []);
    }
}
