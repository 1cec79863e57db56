//! A job that calls an address.
//!
//! One request an attempt. Success is a 2xx answer and nothing less: redirects are not followed, because a redirected
//! POST turns into a GET that does nothing. The answer's beginning is kept for the history, the rest is not read.

use syncline_core::text;

use super::Call;
use super::work::{Done, Failure, Firing};
use crate::outbound::{opening, plain};

/// How much of an answer is read for the history.
const ANSWER_MAX_BYTES: usize = 4 * 1024;

/// Makes the call once.
pub(super) async fn make(client: &reqwest::Client, call: &Call, firing: &Firing) -> Result<Done, Failure> {
    let mut request = client
        .request(call.method.clone(), call.url.clone())
        .header("x-syncline-job", &firing.job)
        .header("x-syncline-bucket", firing.bucket.to_string())
        .header("x-syncline-viewers", firing.viewers)
        // The same for every attempt at one firing, so that a receiver can tell a repetition.
        .header("idempotency-key", format!("{}/{}", firing.job, firing.bucket));
    for (name, value) in &call.headers {
        request = request.header(name, value.expose());
    }
    if let Some(body) = &call.body {
        request = request.body(body.clone());
    }
    let response = request.send().await.map_err(|error| Failure::Unreachable(plain(&error)))?;
    let status = response.status();
    let answer = opening(response, ANSWER_MAX_BYTES).await;
    if status.is_success() {
        Ok(Done { detail: format!("{} {}", status.as_u16(), text::excerpt(&answer)).trim_end().to_owned() })
    } else {
        Err(Failure::Answered { status: status.as_u16(), answer: text::excerpt(&answer) })
    }
}
