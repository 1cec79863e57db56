//! Telling the other nodes, and hearing them: the only part of the viewers that waits for the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use syncline_core::time::Timestamp;
use syncline_core::viewer::{Draft, REPORT_TTL, Report};
use syncline_store::Topic;

use super::{PEERS_EVERY, Refused, ReportOutcome, Viewers, peers};
use crate::clock;

/// Longest wait for the store before it counts as unreadable.
pub(super) const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// After a failed report the store is left alone for this long.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Viewers {
    /// Stores a report whenever one is wanted and due.
    pub(super) async fn keep_reporting(&self) {
        loop {
            self.report_wanted.notified().await;
            if self.report_due() && !self.report().await {
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    fn report_due(&self) -> bool {
        let local = self.local();
        local.own_report.due(self.now(), &local.sessions)
    }

    /// Stores a report of the viewers as they are, and tells everybody who waits how that went.
    pub(super) async fn report(&self) -> bool {
        let draft = {
            let mut guard = self.local();
            let local = &mut *guard;
            local.own_report.draft(self.now(), &local.sessions)
        };
        let failure = self.put(draft).await.err();
        if let Some(error) = &failure {
            self.meters.store_errors.increment(1);
            self.failed_at_ms.store(self.now().as_ms(), Ordering::Relaxed);
            self.local().own_report.record_failed();
            tracing::warn!(error, "viewers could not be reported to the store");
        } else {
            self.failed_at_ms.store(0, Ordering::Relaxed);
            self.local().own_report.record_stored(draft);
        }
        let failed = failure.is_some();
        self.reports.send_replace(ReportOutcome { failed });
        // A report of nobody is no news, unless it is the first, or somebody watched before.
        let watched = draft.report.watched_for_ms > 0;
        let is_news = !failed
            && (self.told_watched.swap(watched, Ordering::Relaxed) || watched || draft.report.seq == 1);
        if let Some(store) = self.store.as_ref().filter(|_| is_news) {
            // A promise to nobody: the report is there, and is found a little later.
            let announced = tokio::time::timeout(STORE_TIMEOUT, store.announce(Topic::Viewer)).await;
            if let Ok(Err(error)) = announced {
                tracing::debug!(%error, "other nodes could not be told of the report of viewers");
            }
        }
        !failed
    }

    /// Reads the reports of the other nodes: every few seconds while somebody watches anywhere, otherwise when there are news.
    pub(super) async fn keep_reading(&self) {
        // Subscribed to before the first look: what is stored after it is news.
        let mut news = self.store.as_ref().map(|store| store.news(Topic::Viewer));
        loop {
            let read = self.read_peers().await && self.read_rooms().await;
            self.publish_occupancy(false);
            if self.local().own_report.may_renew(self.now()) {
                self.local().own_report.want();
                self.report_wanted.notify_one();
            }
            match &mut news {
                Some(news) if read && !self.snapshot().occupied => news.heard(PEERS_EVERY).await,
                _ => tokio::time::sleep(PEERS_EVERY).await,
            }
        }
    }

    async fn put(&self, draft: Draft) -> Result<(), String> {
        let report = Report { written_at_ms: clock::wall().as_ms(), ..draft.report };
        let value = serde_json::to_string(&report).map_err(|error| error.to_string())?;
        let put = self.kv.put(&self.key, &value, Some(REPORT_TTL));
        match tokio::time::timeout(STORE_TIMEOUT, put).await {
            Ok(result) => result.map(|_| ()).map_err(|error| error.to_string()),
            Err(_) => Err("the store did not answer in time".to_owned()),
        }
    }

    /// Waits until a stored report covers the heartbeat of `now`, or the store has failed to take one.
    pub(super) async fn wait_until_report_covers(&self, now: Timestamp) -> Result<(), Refused> {
        // Listened to before the first look, so that a report that is finished in between is not waited for in vain.
        let mut reports = self.reports.subscribe();
        loop {
            let covered = {
                let local = self.local();
                local.own_report.covers(now, &local.sessions)
            };
            if covered {
                return Ok(());
            }
            let failed_at_ms = self.failed_at_ms.load(Ordering::Relaxed);
            if failed_at_ms != 0 && now.as_ms() < failed_at_ms + RETRY_AFTER.as_millis() as u64 {
                return Err(Refused::Store);
            }
            self.report_wanted.notify_one();
            reports.changed().await.map_err(|_| Refused::Store)?;
            if reports.borrow_and_update().failed {
                return Err(Refused::Store);
            }
        }
    }

    /// Reads the reports of the other nodes, and says whether that worked. Our own is looked for too: one that a restored
    /// database or a late write has taken back covers nothing any more.
    pub(super) async fn read_peers(&self) -> bool {
        let expected_seq = self.local().own_report.stored_seq();
        let read = tokio::time::timeout(STORE_TIMEOUT, peers::read(&*self.kv, &self.unreadable)).await;
        let failure = match read {
            Ok(Ok(reports)) => {
                let own = reports.iter().find(|(node, _)| node == self.node.as_str());
                self.local().own_report.confirm_in_store(expected_seq, own.map(|(_, report)| report.seq));
                let read = reports.iter().map(|(node, report)| (node.as_str(), *report));
                self.peers().observe(self.now(), read);
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the store did not answer in time".to_owned(),
        };
        self.meters.store_errors.increment(1);
        tracing::warn!(error = failure, "the other nodes' viewers could not be read");
        false
    }
}
