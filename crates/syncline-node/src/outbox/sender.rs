//! Makes the calls to the front end, and hears their answers as the contract means them.
//!
//! Guarantees: no redirect is followed; an answer that is not the expected JSON is a failure, whatever its status; answers are
//! read up to a limit; a recording is streamed and hashed on the way. A recording counts as received only after all of the file
//! was sent, and only if the receiver states the file's own length and SHA-256; an operator may do without the statement
//! (`SYNC_PLAIN_RECEIPTS`), never without the whole file. Files, and what becomes of entries, are left to others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use metrics::Counter;
use reqwest::RequestBuilder;
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use syncline_core::outbox::{Answer, Response, Said, interpret};
use syncline_core::queue::retry_after;
use tokio::io::AsyncReadExt as _;
use url::Url;

use super::recording::{Files, Order};
use super::settings::Settings;
use crate::clock;
use crate::outbound::{self, Failure, Reply};
use crate::recording::{AUDIO, META, hex};
use crate::secret::Secret;

/// Longest answer that is read: a result for each entry of the largest batch, each with a sentence.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;

/// How much of an answer that was no success is worth telling.
const DETAIL_MAX_CHARS: usize = 200;

/// Longest address of a recording that is believed.
const FILE_URL_MAX_BYTES: usize = 2_048;

/// Bytes of a recording that are read at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// What the receiver says of a recording: where it is, and what it got.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    pub(super) file_url: String,
    length: Option<u64>,
    sha256: Option<String>,
}

/// What was sent of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) length: u64,
    pub(super) sha256: String,
}

/// The front end.
pub(super) struct Sender {
    http: reqwest::Client,
    sync: Url,
    recording_file: Url,
    token: Option<Secret>,
    /// Whether a receipt may leave out length and SHA-256.
    plain_receipts: bool,
    upload_bytes: Counter,
}

impl Sender {
    pub(super) fn new(settings: &Settings, upload_bytes: Counter) -> Sender {
        Sender {
            http: outbound::client(),
            sync: below(&settings.frontend, "sync"),
            recording_file: below(&settings.frontend, "recording-file"),
            token: settings.token.clone(),
            plain_receipts: settings.plain_receipts,
            upload_bytes,
        }
    }

    /// Sends a body of `entries` entries.
    pub(super) async fn sync(&self, body: String, entries: usize, timeout: Duration) -> Answer {
        let request = self
            .to(&self.sync)
            .timeout(timeout)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body);
        match outbound::exchange(request, ANSWER_MAX_BYTES).await {
            Ok(reply) => {
                let said: Option<Said> = serde_json::from_slice(&reply.body).ok();
                interpret(response(&reply, said), entries)
            }
            Err(failure) => not_answered(&failure),
        }
    }

    /// Sends a recording. `stall` is how long the receiver may stop reading, and take to answer after the end.
    pub(super) async fn upload(
        &self,
        order: &Order,
        files: Files,
        stall: Duration,
    ) -> Result<(Receipt, Sent), Answer> {
        let length = files.is.length;
        let progress = Arc::new(Progress::new(self.upload_bytes.clone()));
        let pieces = pieces(files.audio, length, Arc::clone(&progress));
        let part = |part: Part, kind| part.mime_str(kind).expect("a constant that is a media type");
        let audio = Part::stream_with_length(reqwest::Body::wrap_stream(pieces), length).file_name(AUDIO);
        let meta = Part::bytes(files.meta).file_name(META);
        let form = Form::new()
            .text("callLogId", order.call_log.as_str().to_owned())
            .text("recordingId", order.recording.as_str().to_owned())
            .part("audio", part(audio, "application/octet-stream"))
            .part("meta", part(meta, "application/json"));
        let call = outbound::exchange(self.to(&self.recording_file).multipart(form), ANSWER_MAX_BYTES);
        let reply = tokio::select! {
            reply = call => reply.map_err(|failure| not_answered(&failure))?,
            () = progress.stalled(stall) => {
                let reason = format!("the receiver stopped reading or answering for {} s", stall.as_secs_f64());
                return Err(Answer::Failed { reason, retry_after: None });
            }
        };
        let sent = progress.sent();
        // An early refusal says why by its status. An early success cannot be true: the receiver has not read the file.
        if (200..300).contains(&reply.status) && sent.length < length {
            let reason = format!(
                "the receiver answered {} after {} of {length} bytes: the recording was not received",
                reply.status, sent.length
            );
            return Err(Answer::Failed { reason, retry_after: None });
        }
        let receipt: Option<Receipt> = serde_json::from_slice(&reply.body).ok();
        let believed = receipt.as_ref().map(|receipt| receipt.check(&sent, self.plain_receipts));
        if let (200..300, Some(Err(reason))) = (reply.status, &believed) {
            return Err(Answer::Refused { reason: reason.clone() });
        }
        let said = believed.map(|_| Said { ok: true, results: None });
        match (interpret(response(&reply, said), 1), receipt) {
            (Answer::Accepted, Some(receipt)) => Ok((receipt, sent)),
            (answer, _) => Err(answer),
        }
    }

    fn to(&self, url: &Url) -> RequestBuilder {
        let request = self.http.post(url.clone());
        match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        }
    }
}

impl Receipt {
    /// Whether this can be the receipt of what was sent, which is the whole file; if not, why.
    fn check(&self, sent: &Sent, plain: bool) -> Result<(), String> {
        if !is_address(&self.file_url) {
            return Err("the receiver's fileUrl is no http or https address".to_owned());
        }
        if (self.length.is_none() || self.sha256.is_none()) && !plain {
            let reason = "the receiver does not state length and sha256 of what it stored; \
                          SYNC_PLAIN_RECEIPTS=true believes it without";
            return Err(reason.to_owned());
        }
        if let Some(length) = self.length.filter(|length| *length != sent.length) {
            return Err(format!("the receiver stored {length} bytes of {}", sent.length));
        }
        match &self.sha256 {
            Some(sha256) if !sha256.eq_ignore_ascii_case(&sent.sha256) => Err(format!(
                "the receiver stored other bytes: SHA-256 {sha256:.64} instead of {}",
                sent.sha256
            )),
            _ => Ok(()),
        }
    }
}

/// Whether a recording can be fetched from there.
fn is_address(text: &str) -> bool {
    let plain =
        text.len() <= FILE_URL_MAX_BYTES && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    plain
        && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
}

/// `{base}/api/ingest/{name}`
fn below(base: &Url, name: &str) -> Url {
    let mut url = base.clone();
    let mut segments = url.path_segments_mut().expect("http addresses have a path");
    segments.pop_if_empty().extend(["api", "ingest", name]);
    drop(segments);
    url
}

fn response(reply: &Reply, said: Option<Said>) -> Response {
    let text = String::from_utf8_lossy(&reply.body);
    let sentence = serde_json::from_str::<serde_json::Value>(&text).ok();
    let sentence = sentence.as_ref().and_then(|body| body["error"].as_str()).unwrap_or(&text);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Response {
        status: reply.status,
        retry_after: reply.retry_after.as_deref().and_then(|text| retry_after::parse(text, clock::wall())),
        detail: sentence.chars().take(DETAIL_MAX_CHARS).map(plain).collect::<String>().trim().to_owned(),
        said,
    }
}

fn not_answered(failure: &Failure) -> Answer {
    let reason = failure.to_string();
    match failure {
        // It may have been read, and one of the entries may be why there was no answer.
        Failure::Lost(_) | Failure::TooLarge { .. } => Answer::Failed { reason, retry_after: None },
        Failure::Unreachable(_) => Answer::Unavailable { reason, retry_after: None },
    }
}

/// How far an upload is.
struct Progress {
    state: Mutex<State>,
    bytes: Counter,
}

struct State {
    hash: Sha256,
    length: u64,
    moved: Instant,
}

impl Progress {
    fn new(bytes: Counter) -> Progress {
        let state = State { hash: Sha256::new(), length: 0, moved: Instant::now() };
        Progress { state: Mutex::new(state), bytes }
    }

    fn add(&self, piece: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.hash.update(piece);
        state.length += piece.len() as u64;
        state.moved = Instant::now();
        self.bytes.increment(piece.len() as u64);
    }

    fn sent(&self) -> Sent {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Sent { length: state.length, sha256: hex(state.hash.clone()) }
    }

    /// Ends when nothing has moved for so long.
    async fn stalled(&self, stall: Duration) {
        loop {
            let moved = self.state.lock().unwrap_or_else(PoisonError::into_inner).moved;
            if moved.elapsed() >= stall {
                return;
            }
            tokio::time::sleep_until((moved + stall).into()).await;
        }
    }
}

/// The first `length` bytes of a file, piece by piece. A file that has fewer breaks the request off.
fn pieces(
    file: std::fs::File,
    length: u64,
    progress: Arc<Progress>,
) -> impl futures::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    let file = tokio::fs::File::from_std(file).take(length);
    stream::try_unfold((file, progress), async |(mut file, progress)| {
        let mut piece = bytes::BytesMut::with_capacity(PIECE_BYTES);
        if file.read_buf(&mut piece).await? == 0 {
            return Ok(None);
        }
        progress.add(&piece);
        Ok(Some((piece.freeze(), (file, progress))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_05_addresses_are_below_the_base_with_and_without_a_path() {
        for (base, expected) in [
            ("https://f.example", "https://f.example/api/ingest/sync"),
            ("https://f.example/", "https://f.example/api/ingest/sync"),
            ("http://localhost:3000/front", "http://localhost:3000/front/api/ingest/sync"),
            ("http://localhost:3000/front/", "http://localhost:3000/front/api/ingest/sync"),
        ] {
            assert_eq!(below(&Url::parse(base).unwrap(), "sync").as_str(), expected);
        }
    }

    #[test]
    fn ss_28_ss_30_what_a_receipt_states_must_be_there_and_true() {
        let sent = Sent { length: 5, sha256: "ab".repeat(32) };
        let receipt = |length, sha256: Option<&str>, url: &str| Receipt {
            file_url: url.to_owned(),
            length,
            sha256: sha256.map(str::to_owned),
        };
        let url = "https://f.example/storage/recordings/c1/mixed.wav";
        let hash = "AB".repeat(32);
        for plain in [false, true] {
            receipt(Some(5), Some(&hash), url).check(&sent, plain).unwrap();
            for bad in [
                receipt(Some(4), Some(&hash), url),
                receipt(Some(5), Some(&"cd".repeat(32)), url),
                receipt(Some(5), Some(""), url),
                receipt(Some(4), None, url),
                receipt(None, Some(""), url),
                receipt(Some(5), Some(&hash), ""),
                receipt(Some(5), Some(&hash), "x"),
                receipt(Some(5), Some(&hash), "/storage/c1"),
                receipt(Some(5), Some(&hash), "javascript:alert(1)"),
                receipt(Some(5), Some(&hash), "file:///etc/passwd"),
                receipt(Some(5), Some(&hash), "https://f.example/\n"),
                receipt(Some(5), Some(&hash), &format!("http://f/{}", "x".repeat(FILE_URL_MAX_BYTES))),
            ] {
                assert!(bad.check(&sent, plain).is_err(), "{bad:?}");
            }
        }
        for less in [receipt(None, None, url), receipt(Some(5), None, url), receipt(None, Some(&hash), url)] {
            assert!(less.check(&sent, false).unwrap_err().contains("SYNC_PLAIN_RECEIPTS"), "{less:?}");
            less.check(&sent, true).unwrap();
        }
    }
}
