//! What the receiver's answer to a batch means.
//!
//! Success is what the contract says and nothing less: 2xx with `"ok": true`, or with a result for each entry. Everything
//! else is sorted by whose fault it may be: one entry's, which is found by splitting, or nobody's, and then the
//! receiver is left alone for a while.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What became of one entry at the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum EntryResult {
    /// It is there now.
    Applied,
    /// It was there before.
    Duplicate,
    /// A newer change of the entity was there already.
    Stale,
    /// It cannot be taken.
    Refused {
        /// Why, in a sentence.
        reason: String,
    },
}

impl EntryResult {
    /// Whether the sender is done with the entry.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}

/// The body of an answer to `POST /api/ingest/sync`: `{ "ok": true }`, and beside it what became of each entry, in the
/// order of the request, where the sender gave its entries' ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestReply {
    /// Whether all entries were taken.
    pub ok: bool,
    /// One result for each entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<EntryResult>>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body, if it is the JSON it should be.
    pub reply: Option<IngestReply>,
    /// How long the receiver asks to be left alone.
    pub retry_after: Option<Duration>,
    /// What is worth telling of the body or the failure, for people.
    pub detail: String,
}

/// What the answer to a request with several entries means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// All are taken.
    Accepted,
    /// What became of each, in order.
    Each(Vec<EntryResult>),
    /// The receiver read them and refuses: one of them is at fault.
    Refused {
        /// What the receiver said.
        reason: String,
    },
    /// The receiver failed on them, or did not answer in time: one of them may be at fault, or none.
    Failed {
        /// What the receiver said.
        reason: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// They were not read at all: no connection, too many requests, not the right place or key. No entry is at fault.
    Unavailable {
        /// What was seen.
        reason: String,
        /// How long the receiver asks to be left alone.
        retry_after: Option<Duration>,
    },
}

/// What `response` to a request with `entries` entries means.
#[must_use]
pub fn interpret(response: Response, entries: usize) -> Answer {
    let Response { status, reply, retry_after, detail } = response;
    let reason = || if detail.is_empty() { status.to_string() } else { format!("{status}: {detail}") };
    match (status, reply) {
        // Results are heard whatever the status: a receiver that gives them has read every entry.
        (200..=299 | 400 | 409 | 422, Some(IngestReply { results: Some(results), .. }))
            if results.len() == entries =>
        {
            Answer::Each(results)
        }
        (200..=299, Some(IngestReply { ok: true, .. })) => Answer::Accepted,
        (200..=299, Some(IngestReply { ok: false, .. })) => {
            Answer::Refused { reason: format!("{}, not ok", reason()) }
        }
        (400 | 409 | 411 | 413 | 415 | 422, _) => Answer::Refused { reason: reason() },
        (408 | 500 | 501 | 505..=599, _) => Answer::Failed { reason: reason(), retry_after },
        (200..=299, None) => {
            Answer::Unavailable { reason: format!("{}, not the answer of a receiver", reason()), retry_after }
        }
        _ => Answer::Unavailable { reason: reason(), retry_after },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, reply: Option<IngestReply>) -> Response {
        Response { status, reply, retry_after: None, detail: String::new() }
    }

    fn ok(ok: bool) -> Option<IngestReply> {
        Some(IngestReply { ok, results: None })
    }

    #[test]
    fn ss_28_success_is_what_the_contract_says_and_nothing_less() {
        assert_eq!(interpret(response(200, ok(true)), 3), Answer::Accepted);
        assert_eq!(interpret(response(201, ok(true)), 3), Answer::Accepted);
        let unavailable = |status| matches!(interpret(response(status, None), 3), Answer::Unavailable { .. });
        for status in [200, 204, 301, 302, 303, 307, 308, 401, 403, 404, 405, 429, 502, 503, 504, 100, 600] {
            assert!(unavailable(status), "{status}");
        }
        // A redirect is a failure even where its body claims success.
        assert!(matches!(interpret(response(302, ok(true)), 1), Answer::Unavailable { .. }));
        assert!(matches!(interpret(response(500, ok(true)), 1), Answer::Failed { .. }));
    }

    #[test]
    fn ss_21_what_may_be_an_entrys_fault_is_told_apart() {
        for status in [400, 409, 413, 422] {
            assert!(matches!(interpret(response(status, None), 3), Answer::Refused { .. }), "{status}");
        }
        assert!(matches!(interpret(response(200, ok(false)), 3), Answer::Refused { .. }));
        for status in [408, 500, 501, 507] {
            assert!(matches!(interpret(response(status, None), 3), Answer::Failed { .. }), "{status}");
        }
    }

    #[test]
    fn ss_21_results_are_honoured_where_there_is_one_for_each() {
        let refused = EntryResult::Refused { reason: "unknown type".to_owned() };
        let results = vec![EntryResult::Applied, refused];
        let reply = |ok| Some(IngestReply { ok, results: Some(results.clone()) });
        assert_eq!(interpret(response(200, reply(false)), 2), Answer::Each(results.clone()));
        assert_eq!(interpret(response(422, reply(false)), 2), Answer::Each(results.clone()));
        // Results for another number of entries are none; what is left is the plain answer.
        assert_eq!(interpret(response(200, reply(true)), 3), Answer::Accepted);
        assert!(matches!(interpret(response(200, reply(false)), 3), Answer::Refused { .. }));
    }
}
