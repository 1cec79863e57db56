//! Calls to the outside: one client for all of them, bounded answers, and errors that keep secrets.
//!
//! Guarantees: no redirect is followed, an answer larger than the caller wants is not read to its end, and no message
//! repeats an address, whose query may hold a credential. How long a call may take is the caller's to say.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::{RequestBuilder, Response, header, redirect};

/// How long a connection may take to come about, within the call's own time-out.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client whose connections to one address are shared.
pub(crate) fn client() -> reqwest::Client {
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
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
}

/// Why nothing did.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There was no connection: nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// There was one, and no whole answer came of it: what was sent may have been read.
    #[error("{0}")]
    Lost(String),
    #[error("the answer is longer than {max_bytes} bytes")]
    TooLarge { max_bytes: usize },
}

/// Makes a call and reads its answer, as long as that has at most `max_bytes`.
pub(crate) async fn exchange(request: RequestBuilder, max_bytes: usize) -> Result<Reply, Failure> {
    let failure = |error: reqwest::Error| match error.is_connect() {
        true => Failure::Unreachable(plain(&error)),
        false => Failure::Lost(plain(&error)),
    };
    let response = request.send().await.map_err(failure)?;
    if response.content_length().is_some_and(|length| length > max_bytes as u64) {
        return Err(Failure::TooLarge { max_bytes });
    }
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (status, retry_after, content_type) =
        (response.status().as_u16(), text(header::RETRY_AFTER), text(header::CONTENT_TYPE));
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

/// The beginning of an answer, for the log or a history. The rest is not read, however long it is.
pub(crate) async fn opening(response: Response, max_bytes: usize) -> String {
    let mut read = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = max_bytes - read.len();
        read.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if read.len() == max_bytes {
            break;
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// What went wrong without the address, whose query may hold a credential.
pub(crate) fn plain(error: &reqwest::Error) -> String {
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
