//! Any HTTP API as work: one call for a key, its answer the result.

use std::time::Instant;

use async_trait::async_trait;
use serde_json::Value;
use syncline_core::queue::{Answer, retry_after};
use syncline_core::text;

use super::config::Api;
use super::template::{self, Filling};
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

impl Api {
    /// The call for a key, or why there can be none.
    pub(super) fn request(
        &self,
        client: &reqwest::Client,
        filling: Filling<'_>,
    ) -> Result<reqwest::RequestBuilder, String> {
        let mut request = client.request(self.method.clone(), self.url.expand(filling)?);
        for (name, value) in &self.headers {
            request = request.header(name, template::header(value.expose(), filling)?);
        }
        Ok(match &self.body {
            Some((body, escape)) => request.body(escape.fill(body, filling)?),
            None => request,
        })
    }

    /// Whether a call needs more than the key.
    pub(super) fn needs_input(&self) -> bool {
        let in_headers = self.headers.iter().any(|(_, value)| template::has_input(value.expose()));
        let in_body = self.body.as_ref().is_some_and(|(body, _)| template::has_input(body));
        in_headers || in_body || template::has_input(self.url.as_str())
    }
}

#[async_trait]
impl Work for ApiWork {
    async fn run(&self, task: &Task) -> Answer<String> {
        let filling = Filling { key: &task.key, input: task.input.as_ref() };
        let request = match self.api.request(&self.client, filling) {
            Ok(request) => request,
            Err(reason) => return Answer::Refused { reason },
        };
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
