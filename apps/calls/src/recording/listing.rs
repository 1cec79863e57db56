//! `/api/recordings`: which recordings there are.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use syncline_store::inbox::LIST_BYTES_MAX;
use utoipa::{IntoParams, ToSchema};

use super::table::{LIST_MAX, Recording};
use crate::recording::Recordings;
use syncline_node::http::body::Query;
use syncline_node::http::{Error, range};
use syncline_node::part::Service;

/// A recording that is here.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordingView {
    call_log_id: String,
    recording_id: String,
    length: u64,
    sha256: String,
    /// Where it can be played.
    path: String,
    /// What came with it.
    #[schema(value_type = Object)]
    meta: Value,
    received_at: String,
}

/// Several.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordingList {
    recordings: Vec<RecordingView>,
    /// What to pass as `after` for those that follow; `null` at the end.
    next: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Page {
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists the recordings that are here, the last received first.
#[utoipa::path(get, path = "/api/recordings", tag = "outbox", params(Page),
    responses((status = 200, body = RecordingList), (status = 400)))]
pub(crate) async fn list(
    Service(recordings): Service<Arc<Recordings>>,
    Query(page): Query<Page>,
) -> Result<axum::Json<RecordingList>, Error> {
    let limit = range::checked(page.limit, LIST_MAX)?;
    let listed = recordings.received(page.after.as_deref(), limit).await?;
    let full = listed.len() == limit;
    let mut recordings: Vec<RecordingView> = listed.into_iter().map(RecordingView::of).collect();
    // What came with a recording may be large.
    let cut = range::fit(&mut recordings, LIST_BYTES_MAX);
    let next = recordings.last().filter(|_| full || cut).map(|last| last.call_log_id.clone());
    Ok(axum::Json(RecordingList { recordings, next }))
}

impl RecordingView {
    fn of(recording: Recording) -> RecordingView {
        RecordingView {
            path: format!("/storage/recordings/{}/mixed.wav", recording.call_log_id),
            call_log_id: recording.call_log_id,
            recording_id: recording.recording_id,
            length: recording.bytes,
            sha256: recording.sha256,
            meta: serde_json::from_str(&recording.meta).unwrap_or_default(),
            received_at: recording.received_at.to_string(),
        }
    }
}
