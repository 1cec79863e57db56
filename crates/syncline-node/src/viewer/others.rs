//! What the other nodes report, read from the kv.

use serde::Serialize;
use syncline_core::kv::LIST_MAX;
use syncline_core::time::Timestamp;
use syncline_core::viewer::{Nodes, REPORT_PREFIX, REPORT_TTL, Report, Summary};
use syncline_store::Error;
use syncline_store::kv::Kv;
use utoipa::ToSchema;

use crate::clock;

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

/// Every report in the store, ours included; what cannot be understood is left out and logged.
pub(super) async fn read(kv: &dyn Kv) -> Result<Vec<(String, Report)>, Error> {
    let entries = kv.list(REPORT_PREFIX, LIST_MAX).await?;
    let reports = entries.into_iter().filter_map(|entry| {
        let node = entry.key.as_str().strip_prefix(REPORT_PREFIX)?.to_owned();
        let left = entry.ttl_left.unwrap_or(REPORT_TTL);
        match serde_json::from_str::<Report>(&entry.value) {
            Ok(report) => Some((node, report.read(left, clock::wall()))),
            Err(error) => {
                tracing::warn!(node, %error, "a report of viewers cannot be read");
                None
            }
        }
    });
    Ok(reports.collect())
}

/// The other nodes as far as they have told.
pub(super) struct Others {
    nodes: Nodes,
}

impl Others {
    pub(super) fn new(own: &str) -> Others {
        Others { nodes: Nodes::new(own) }
    }

    pub(super) fn observe(&mut self, now: Timestamp, reports: &[(String, Report)]) {
        self.nodes.observe(now, reports.iter().map(|(node, report)| (node.as_str(), *report)));
    }

    pub(super) fn total(&self, now: Timestamp) -> Summary {
        self.nodes.total(now)
    }

    pub(super) fn counts(&self, now: Timestamp) -> impl Iterator<Item = NodeCount> {
        let heard = self.nodes.heard(now);
        heard.map(|(node, summary)| NodeCount {
            node: node.to_owned(),
            viewers: summary.viewers,
            visible: summary.visible,
        })
    }
}
