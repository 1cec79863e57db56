//! Any HTTP API as work: one call for a key, its answer the result.

use std::time::Instant;

use async_trait::async_trait;
use serde_json::Value;
use syncline_core::queue::{Answer, retry_after};
use syncline_core::text;

use super::config::Api;
use super::{Task, Work};
use crate::clock;
use crate::outbound::{self, Failure, Reply};

/// A declared API.
pub(crate) struct ApiWork {
    api: Api,
    client: reqwest::Client,
}

impl ApiWork {
    pub(crate) fn new(api: Api, client: reqwest::Client) -> ApiWork {
        ApiWork { api, client }
    }

    fn is_success(&self, status: u16) -> bool {
        // A 429 says when to come back, whatever else it is taken for.
        status != 429 && self.api.success.iter().any(|statuses| statuses.contains(status))
    }

    /// What an answer means.
    fn judge(&self, reply: &Reply) -> Answer<String> {
        let named = reply.retry_after.as_deref().and_then(|text| retry_after::parse(text, clock::wall()));
        // A server that is down and says until when asks for the same as one that is asked too fast.
        if reply.status == 429 || (reply.status == 503 && named.is_some()) {
            return Answer::Throttled { retry_after: named };
        }
        if self.is_success(reply.status) {
            return Answer::Done(result(reply));
        }
        let said = text::excerpt(&String::from_utf8_lossy(&reply.body));
        let reason = format!("the API answered with status {}: {said}", reply.status);
        let reason = reason.trim_end_matches([':', ' ']).to_owned();
        if matches!(reply.status, 408 | 425 | 500..=599) {
            Answer::Broken { reason, retry: true, away: matches!(reply.status, 502..=504) }
        } else {
            Answer::Refused { reason }
        }
    }
}

#[async_trait]
impl Work for ApiWork {
    async fn run(&self, task: &Task) -> Answer<String> {
        let url = match self.api.url.expand(&task.key) {
            Ok(url) => url,
            Err(reason) => return Answer::Refused { reason },
        };
        let mut request = self.client.request(self.api.method.clone(), url);
        for (name, value) in &self.api.headers {
            request = request.header(name, value.expose());
        }
        if let Some((body, escape)) = &self.api.body {
            request = request.body(escape.fill(body, &task.key));
        }
        let began = Instant::now();
        let reply =
            outbound::exchange_for(request, self.api.result_max_bytes, |status| self.is_success(status))
                .await;
        task.calls.count(reply.as_ref().ok().map(|reply| reply.status), began.elapsed());
        match reply {
            Ok(reply) => self.judge(&reply),
            Err(error @ Failure::TooLarge { .. }) => Answer::Refused { reason: error.to_string() },
            Err(Failure::Unreachable(reason) | Failure::Lost(reason)) => {
                Answer::Broken { reason, retry: true, away: true }
            }
        }
    }

    fn failure_attempts(&self) -> u32 {
        self.api.failure_attempts
    }
}

/// The body as JSON: itself if it says it is JSON and is, a text otherwise.
fn result(reply: &Reply) -> String {
    let text = String::from_utf8_lossy(&reply.body);
    let says = |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json"));
    if reply.content_type.as_deref().is_some_and(says) && serde_json::from_str::<Value>(&text).is_ok() {
        return text.into_owned();
    }
    Value::String(text.into_owned()).to_string()
}
