//! Calls to the outside: one client for all of them, bounded answers, and errors that keep secrets.
//!
//! Guarantees: no redirect is followed, an answer larger than the caller wants is not read to its end, and no message
//! repeats an address, whose query may hold a credential. The status counts before the body does: of an answer that is no
//! success only the beginning is read, and whatever is wrong with its body, its status and headers come back. How long a
//! call may take is the caller's to say.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::{RequestBuilder, Response, header, redirect};

/// How long a connection may take to come about, within the call's own time-out.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Of the body of an answer that is no success: as much as somebody may want to read, and as long as it may take to come.
const REFUSAL_MAX_BYTES: usize = 4 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// A client whose connections to one address are shared.
pub fn client() -> reqwest::Client {
    // Whoever was first chose the same one.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("syncline/", env!("CARGO_PKG_VERSION")))
        .build()
        .expect("a client with these settings can always be built")
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its `Retry-After`.
    pub retry_after: Option<String>,
    /// Its `Content-Type`.
    pub content_type: Option<String>,
    /// Its body.
    pub body: Bytes,
}

/// Why nothing did.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There was no connection: nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// There was one, and no whole answer came of it: what was sent may have been read.
    #[error("{0}")]
    Lost(String),
    /// The answer is too long.
    #[error("the answer is longer than {max_bytes} bytes")]
    TooLarge {
        /// What is read at most.
        max_bytes: usize,
    },
}

/// Makes a call and reads its answer, as long as that has at most `max_bytes`. Only an answer with status 2xx can be too long.
pub async fn exchange(request: RequestBuilder, max_bytes: usize) -> Result<Reply, Failure> {
    exchange_for(request, max_bytes, |status| (200..300).contains(&status)).await
}

/// The same where other statuses are successes, too.
pub(crate) async fn exchange_for(
    request: RequestBuilder,
    max_bytes: usize,
    is_success: impl Fn(u16) -> bool,
) -> Result<Reply, Failure> {
    let failure = |error: reqwest::Error| match error.is_connect() {
        true => Failure::Unreachable(plain(&error)),
        false => Failure::Lost(plain(&error)),
    };
    let response = request.send().await.map_err(failure)?;
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (status, retry_after, content_type) =
        (response.status().as_u16(), text(header::RETRY_AFTER), text(header::CONTENT_TYPE));
    if !is_success(status) {
        let body = first_bytes(response, REFUSAL_MAX_BYTES).await.into();
        return Ok(Reply { status, retry_after, content_type, body });
    }
    if response.content_length().is_some_and(|length| length > max_bytes as u64) {
        return Err(Failure::TooLarge { max_bytes });
    }
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(failure)?;
        if body.len() + chunk.len() > max_bytes {
            return Err(Failure::TooLarge { max_bytes });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { status, retry_after, content_type, body: body.into() })
}

/// The beginning of an answer as text, for the log or a history. The rest is not read, however long it is.
pub async fn opening(response: Response, max_bytes: usize) -> String {
    String::from_utf8_lossy(&first_bytes(response, max_bytes).await).into_owned()
}

/// What comes of a body within [`REFUSAL_TIMEOUT`], up to `max_bytes`.
async fn first_bytes(response: Response, max_bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    let read = async {
        while let Some(Ok(chunk)) = chunks.next().await {
            body.extend_from_slice(&chunk[..chunk.len().min(max_bytes - body.len())]);
            if body.len() == max_bytes {
                break;
            }
        }
    };
    // Whatever is there by then is what it said.
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, read).await;
    body
}

/// What went wrong without the address, whose query may hold a credential.
pub fn plain(error: &reqwest::Error) -> String {
    let kind = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the call failed"
    };
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    // The outermost message repeats the address; the innermost is the reason alone.
    if std::ptr::addr_eq(cause, std::ptr::from_ref(error)) {
        kind.to_owned()
    } else {
        format!("{kind}: {cause}")
    }
}
