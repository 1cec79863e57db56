//! What the other nodes report, read from the kv.

use serde::Serialize;
use syncline_core::kv::LIST_MAX;
use syncline_core::time::Timestamp;
use syncline_core::viewer::{Peers, REPORT_PREFIX, REPORT_TTL, Report};
use syncline_store::Error;
use syncline_store::kv::{Asked, Entry, Kv};
use utoipa::ToSchema;

use crate::clock;
use crate::log_throttle::LogThrottle;

/// The viewers of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct NodeCount {
    /// The node's id.
    pub node: String,
    /// Its live sessions.
    pub viewers: u64,
    /// Those whose page is in sight.
    pub visible: u64,
}

/// Pages of reports that are read at most: many more nodes than anybody runs.
const PAGES_MAX: usize = 16;

/// Every report in the store, ours included; what cannot be understood is left out, counted and now and then logged.
pub(super) async fn read(kv: &dyn Kv, unreadable: &LogThrottle) -> Result<Vec<(String, Report)>, Error> {
    let (mut reports, mut after) = (Vec::new(), None::<String>);
    for _ in 0..PAGES_MAX {
        let asked = Asked { prefix: REPORT_PREFIX, after: after.as_deref(), limit: LIST_MAX, values: true };
        let page = kv.page(asked).await?;
        let last = page.entries.last().map(|entry| entry.key.as_str().to_owned());
        reports.extend(page.entries.into_iter().filter_map(|entry| report(&entry, unreadable)));
        after = last.filter(|_| page.more);
        if after.is_none() {
            break;
        }
    }
    Ok(reports)
}

fn report(entry: &Entry, unreadable: &LogThrottle) -> Option<(String, Report)> {
    let node = entry.key.as_str().strip_prefix(REPORT_PREFIX)?.to_owned();
    let left = entry.ttl_left.unwrap_or(REPORT_TTL);
    match serde_json::from_str::<Report>(&entry.value) {
        Ok(report) => Some((node, report.read(left, clock::wall()))),
        Err(error) => {
            if let Some(count) = unreadable.due() {
                tracing::warn!(node, %error, count, "reports of viewers cannot be read");
            }
            None
        }
    }
}

/// How many watch through each of the other nodes.
pub(super) fn counts(peers: &Peers, now: Timestamp) -> impl Iterator<Item = NodeCount> {
    peers.live(now).map(|(node, summary)| NodeCount {
        node: node.to_owned(),
        viewers: summary.viewers,
        visible: summary.visible,
    })
}

#[cfg(test)]
mod tests {
    use syncline_core::kv::Key;
    use syncline_core::viewer::Summary;
    use syncline_store::Store;

    use super::*;

    /// A thousand keys that make no sense used to hide the reports behind them, and to fill the log with a line each.
    #[tokio::test]
    async fn vw_21_what_is_no_report_hides_none_and_is_told_once_a_minute() {
        let kv = Store::open("sqlite::memory:").await.unwrap().kv();
        for number in 0..LIST_MAX + 50 {
            kv.put(&Key::new(format!("{REPORT_PREFIX}a{number}")).unwrap(), "nonsense", None).await.unwrap();
        }
        let summary = Summary { viewers: 1, visible: 1 };
        let real =
            Report { seq: 7, summary, watched_for_ms: 1, visible_for_ms: 1, written_at_ms: 0, age_ms: 0 };
        let key = Key::new(format!("{REPORT_PREFIX}zebra")).unwrap();
        kv.put(&key, &serde_json::to_string(&real).unwrap(), None).await.unwrap();
        let unreadable = LogThrottle::default();
        let reports = read(&*kv, &unreadable).await.unwrap();
        assert_eq!(reports, [("zebra".to_owned(), real)]);
        assert_eq!(unreadable.due(), None, "one line was written for all of them");
    }
}
