//! Makes the calls to the front end, and reads their answers as the contract means them.
//!
//! Guarantees: no redirect is followed; an answer that is not the expected JSON is a failure, whatever its status; answers are
//! read up to a limit; a file is streamed and hashed on the way. A file counts as received only after all of it was sent, and
//! only if the receiver states the file's own length and SHA-256. An operator may do without the statement
//! (`SYNC_PLAIN_RECEIPTS`), never without the whole file. Finding files and settling entries are left to others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use metrics::Counter;
use reqwest::RequestBuilder;
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use syncline_core::outbox::{Answer, IngestReply, Response, interpret};
use syncline_core::queue::retry_after;
use syncline_core::text;
use tokio::io::AsyncReadExt as _;
use url::Url;

use super::file::{OpenFile, UploadJob, hex};
use super::route::Route;
use super::settings::Settings;
use super::webhook::Keys;
use crate::clock;
use crate::outbound::{self, Failure, Reply};
use crate::secret::Secret;

/// Longest answer that is read: a result for each entry of the largest batch, each with a sentence.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;

/// Longest address of a file that is believed.
const FILE_URL_MAX_BYTES: usize = 2_048;

/// Bytes of a file that are read at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// Where batches are posted, below the front end's address.
const SYNC_PATH: &str = "/api/ingest/sync";

/// The receiver's answer to a file: where it is now, and what was stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UploadReply {
    file_url: String,
    length: Option<u64>,
    sha256: Option<String>,
}

/// The bytes that were sent of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    length: u64,
    sha256: String,
}

/// A file that the receiver has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Received {
    /// Where it is now.
    pub(super) file_url: String,
    pub(super) length: u64,
    pub(super) sha256: String,
}

/// Why the receiver does not have a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UploadFailure {
    /// What its answer means, or what its silence does.
    Answered(Answer),
    /// The receiver has nothing at the kind's upload path. Other kinds may have better luck.
    NoSuchPath {
        /// What it said.
        reason: String,
    },
}

impl From<Answer> for UploadFailure {
    fn from(answer: Answer) -> UploadFailure {
        UploadFailure::Answered(answer)
    }
}

/// A receiver: the front end, or that of a route.
pub(super) struct Sender {
    http: reqwest::Client,
    base: Url,
    sync: Url,
    token: Option<Secret>,
    /// What signs webhooks, where entries go as such.
    keys: Option<Keys>,
    /// Whether a batch has the contract's four fields of each entry and nothing else.
    plain_entries: bool,
    /// Whether a receipt may leave out length and SHA-256.
    plain_receipts: bool,
    upload_bytes: Counter,
}

impl Sender {
    pub(super) fn new(
        http: reqwest::Client,
        route: &Route,
        settings: &Settings,
        upload_bytes: Counter,
    ) -> Sender {
        Sender {
            http,
            base: route.url.clone(),
            sync: below(&route.url, SYNC_PATH),
            token: route.token.clone(),
            keys: route.keys.clone(),
            plain_entries: route.plain,
            plain_receipts: settings.plain_receipts,
            upload_bytes,
        }
    }

    /// Whether each entry is a request of its own.
    pub(super) fn is_webhook(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether a batch has the contract's four fields of each entry and nothing else.
    pub(super) fn is_plain(&self) -> bool {
        self.plain_entries
    }

    /// Sends one entry as a signed webhook. Any success will do: such receivers have no answer to agree on.
    pub(super) async fn webhook(&self, id: &str, body: String, timeout: Duration) -> Answer {
        let timestamp_sec = clock::wall().as_ms() / 1_000;
        let signature =
            self.keys.as_ref().map(|keys| keys.sign(id, timestamp_sec, &body)).unwrap_or_default();
        let request = self
            .to(&self.base)
            .timeout(timeout)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp_sec)
            .header("webhook-signature", signature)
            .body(body);
        match outbound::exchange(request, ANSWER_MAX_BYTES).await {
            Ok(reply) => {
                let taken = (200..300).contains(&reply.status);
                let read = taken.then_some(IngestReply { ok: true, results: None });
                interpret(response(&reply, read), 1)
            }
            Err(failure) => not_answered(&failure),
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
                let read: Option<IngestReply> = serde_json::from_slice(&reply.body).ok();
                interpret(response(&reply, read), entries)
            }
            Err(failure) => not_answered(&failure),
        }
    }

    /// Sends a file. `stall` is how long the receiver may stop reading, and take to answer after the end.
    pub(super) async fn upload(
        &self,
        job: &UploadJob,
        open: OpenFile,
        stall: Duration,
    ) -> Result<Received, UploadFailure> {
        let length = open.identity.length;
        let progress = Arc::new(Progress::new(self.upload_bytes.clone()));
        let form = form(job, open, &progress);
        let url = below(&self.base, &job.kind.upload_path);
        let call = outbound::exchange(self.to(&url).multipart(form), ANSWER_MAX_BYTES);
        let reply = tokio::select! {
            reply = call => reply.map_err(|failure| not_answered(&failure))?,
            () = progress.stalled(stall) => {
                let reason = format!("the receiver stopped reading or answering for {} s", stall.as_secs_f64());
                return Err(Answer::Failed { reason, retry_after: None }.into());
            }
        };
        let sent = progress.sent();
        // An early refusal says why by its status. An early success cannot be true: the receiver has not read the file.
        if (200..300).contains(&reply.status) && sent.length < length {
            let reason = format!(
                "the receiver answered {} after {} of {length} bytes: the file was not received",
                reply.status, sent.length
            );
            return Err(Answer::Failed { reason, retry_after: None }.into());
        }
        if let 404 | 405 = reply.status {
            let reason = format!("{} at {}", reply.status, job.kind.upload_path);
            return Err(UploadFailure::NoSuchPath { reason });
        }
        let read: Option<UploadReply> = serde_json::from_slice(&reply.body).ok();
        let believed = read.as_ref().map(|read| read.check(&sent, self.plain_receipts));
        if let (200..300, Some(Err(reason))) = (reply.status, &believed) {
            return Err(Answer::Refused { reason: reason.clone() }.into());
        }
        let ok = believed.map(|_| IngestReply { ok: true, results: None });
        match (interpret(response(&reply, ok), 1), read) {
            (Answer::Accepted, Some(UploadReply { file_url, .. })) => {
                Ok(Received { file_url, length: sent.length, sha256: sent.sha256 })
            }
            (answer, _) => Err(answer.into()),
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

impl UploadReply {
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

/// Whether a file can be fetched from there.
fn is_address(text: &str) -> bool {
    let plain =
        text.len() <= FILE_URL_MAX_BYTES && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    plain
        && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
}

/// The form of a file: its text fields, the file, its attachments.
fn form(job: &UploadJob, open: OpenFile, progress: &Arc<Progress>) -> Form {
    let typed =
        |part: Part, kind: &str| part.mime_str(kind).expect("media types are checked with their kind");
    let OpenFile { file, identity, attachments } = open;
    let pieces = pieces(file, identity.length, Arc::clone(progress));
    let part = Part::stream_with_length(reqwest::Body::wrap_stream(pieces), identity.length);
    let part = part.file_name(job.file_name().to_owned());
    let fields = job.fields.iter();
    let form = fields.fold(Form::new(), |form, (name, value)| form.text(name.clone(), value.clone()));
    let form = form.part(job.kind.part.clone(), typed(part, &job.kind.content_type));
    attachments.into_iter().fold(form, |form, attachment| {
        let part = Part::bytes(attachment.content).file_name(attachment.name);
        form.part(attachment.part, typed(part, &attachment.content_type))
    })
}

/// A path of the contract below the front end's address, which may have a path of its own.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let mut segments = url.path_segments_mut().expect("http addresses have a path");
    segments.pop_if_empty().extend(path.trim_matches('/').split('/'));
    drop(segments);
    url
}

fn response(reply: &Reply, read: Option<IngestReply>) -> Response {
    let body = String::from_utf8_lossy(&reply.body);
    let sentence = serde_json::from_str::<serde_json::Value>(&body).ok();
    let sentence = sentence.as_ref().and_then(|body| body["error"].as_str()).unwrap_or(&body);
    Response {
        status: reply.status,
        retry_after: reply.retry_after.as_deref().and_then(|text| retry_after::parse(text, clock::wall())),
        detail: text::excerpt(sentence),
        reply: read,
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
            assert_eq!(below(&Url::parse(base).unwrap(), SYNC_PATH).as_str(), expected);
        }
    }

    #[test]
    fn ss_28_ss_30_what_a_receipt_states_must_be_there_and_true() {
        let sent = Sent { length: 5, sha256: "ab".repeat(32) };
        let receipt = |length, sha256: Option<&str>, url: &str| UploadReply {
            file_url: url.to_owned(),
            length,
            sha256: sha256.map(str::to_owned),
        };
        let url = "https://f.example/storage/photos/1.jpg";
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
