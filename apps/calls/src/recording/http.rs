//! `POST /api/ingest/recording-file` and `/storage/recordings`: recordings in, and out again in the parts a player asks for.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use syncline_core::outbox::Moment;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::byte_range::{Wanted, names, wanted};
use super::listing;
use super::multipart::{self, Form};
use super::table::Recording;
use crate::recording::{self, Name, Playback, Receipt, Recordings, Upload};
use syncline_node::Context;
use syncline_node::clock;
use syncline_node::http::body::Path;
use syncline_node::http::{Error, body};
use syncline_node::part::{CrossSite, Name as Granted, Patience, Routes, Rules, Service};

pub(crate) fn routes() -> Routes {
    let sending = Rules::new().needs("ingest", "send", Granted::Caller);
    let playing = Rules::new().needs("recording", "read", Granted::Path("call_log_id"));
    Routes::new()
        .with_rules(sending.patience(Patience::Upload), routes!(ingest))
        .with_rules(playing.cross_site(CrossSite::Links), routes!(play))
        // A page of the listing ends at a recording, which not everybody may know of.
        .with_rules(Rules::new().needs("recording", "read", Granted::All), routes!(listing::list))
}

/// Largest description of a recording.
const META_MAX_BYTES: u64 = recording::META_MAX_BYTES as u64;

/// Largest id, as sent; what is longer than a name may be is no name.
const ID_MAX_BYTES: u64 = 1024;

/// Bytes read from the disk at a time while playing.
const PIECE_BYTES: usize = 64 * 1024;

/// What the bucket's answer tells a player.
const PLAYED: [header::HeaderName; 4] =
    [header::CONTENT_LENGTH, header::CONTENT_RANGE, header::ETAG, header::LAST_MODIFIED];

/// A recording that is safe here.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordingStored {
    /// Where it can be played.
    file_url: String,
    /// Its bytes.
    length: u64,
    /// Their SHA-256 in hexadecimal.
    sha256: String,
}

/// What is told to whoever listens.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredEvent<'a> {
    call_log_id: &'a str,
    recording_id: &'a str,
    length: u64,
}

/// The form of an upload, as described.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what is read part by part")]
#[schema(rename_all = "camelCase")]
pub(crate) struct RecordingForm {
    /// The call it belongs to: 1 to 64 of `a-z A-Z 0-9 - _`, a UUID for one.
    call_log_id: String,
    /// Its own id, of the same kind.
    recording_id: String,
    /// `mixed.wav`.
    #[schema(value_type = String, format = Binary)]
    audio: Vec<u8>,
    /// `meta.json`: a JSON object.
    #[schema(value_type = Object)]
    meta: Value,
}

/// Takes a recording. The answer comes when it is durably kept, with its length and SHA-256 as received. The same upload again
/// gets the same answer; another recording for the same call is refused, and nothing is replaced.
#[utoipa::path(post, path = "/api/ingest/recording-file", tag = "outbox",
    request_body(content = RecordingForm, content_type = "multipart/form-data"),
    responses((status = 200, body = RecordingStored), (status = 400), (status = 408), (status = 413), (status = 415),
        (status = 422), (status = 503), (status = 507)))]
pub(crate) async fn ingest(
    State(context): State<Arc<Context>>,
    Service(recordings): Service<Arc<Recordings>>,
    headers: HeaderMap,
    request: Request,
) -> Result<axum::Json<RecordingStored>, Error> {
    let max_bytes = recordings.max_bytes();
    if announced(&headers).is_some_and(|length| length > max_bytes + 2 * META_MAX_BYTES) {
        // Who waits for a "100 Continue" has sent nothing, and must not be invited to.
        if !headers.contains_key(header::EXPECT) {
            body::discard(request.into_body()).await;
        }
        let message = format!("a recording has at most {max_bytes} bytes here");
        return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message));
    }
    let allowed = [
        ("callLogId", ID_MAX_BYTES),
        ("recordingId", ID_MAX_BYTES),
        ("audio", max_bytes),
        ("meta", META_MAX_BYTES),
    ];
    let mut form = Form::new(request, &allowed, context.config.limits.body_idle_timeout)?;
    let mut upload = None;
    match receive(&recordings, &mut form, &mut upload).await {
        Ok((call, meta, kept)) => {
            recordings.note(&row(&call, &meta, &kept.receipt)).await?;
            let Receipt { recording_id, length, sha256 } = kept.receipt;
            let file_url = format!("{}/storage/recordings/{call}/mixed.wav", base_url(&context, &headers));
            if !kept.repeated {
                tracing::info!(%call, recording = recording_id, length, "recording stored");
                let event = StoredEvent { call_log_id: call.as_str(), recording_id: &recording_id, length };
                context.events.publish_in("recording.stored", call.as_str(), &event);
            }
            Ok(axum::Json(RecordingStored { file_url, length, sha256 }))
        }
        Err(error) => {
            if let Some(upload) = upload {
                upload.abandon().await;
            }
            multipart::discard(form).await;
            Err(error)
        }
    }
}

/// Plays a recording: all of it, or the range asked for.
#[utoipa::path(get, path = "/storage/recordings/{call_log_id}/mixed.wav", tag = "outbox",
    params(("call_log_id" = String, Path)),
    responses((status = 200, content_type = "audio/wav"), (status = 206), (status = 304), (status = 404), (status = 416)))]
pub(crate) async fn play(
    Service(recordings): Service<Arc<Recordings>>,
    Path(call): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let missing = || Error::missing("there is no recording of this call");
    let call = Name::new(call).ok_or_else(missing)?;
    let opened = recordings.open(&call, &headers).await?.ok_or_else(missing)?;
    let mut response = match opened {
        Playback::File(file, receipt) => from_file(file, &receipt, &headers).await?,
        Playback::Bucket(answer) => from_bucket(answer),
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // What is kept is never replaced, but who may hear it may change.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if response.status().is_success() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("audio/wav"));
    }
    Ok(response)
}

/// Reads the form to its end and keeps what was in it.
async fn receive(
    recordings: &Recordings,
    form: &mut Form,
    upload: &mut Option<Upload>,
) -> Result<(Name, Bytes, recording::Kept), Error> {
    let (mut call, mut recording, mut meta) = (None, None, None);
    while let Some(mut part) = form.part().await? {
        match part.name.as_str() {
            "callLogId" => call = Some(name("callLogId", part.text().await?)?),
            "recordingId" => recording = Some(name("recordingId", part.text().await?)?),
            "meta" => meta = Some(checked_meta(part.whole().await?)?),
            _ => {
                let begun = upload.insert(recordings.begin().await?);
                while let Some(piece) = part.piece().await? {
                    begun.write(piece).await?;
                }
            }
        }
    }
    let incomplete = || {
        let message = "a recording is sent as the parts callLogId, recordingId, audio and meta";
        Error::invalid("invalid-form", message)
    };
    let (Some(call), Some(recording), Some(meta)) = (call, recording, meta) else { return Err(incomplete()) };
    let kept = upload.take().ok_or_else(incomplete)?.finish(&call, &recording, meta.clone()).await?;
    Ok((call, meta, kept))
}

/// What is written down of a recording that is kept.
fn row(call: &Name, meta: &Bytes, receipt: &Receipt) -> Recording {
    Recording {
        call_log_id: call.as_str().to_owned(),
        recording_id: receipt.recording_id.clone(),
        bytes: receipt.length,
        sha256: receipt.sha256.clone(),
        location: format!("/storage/recordings/{call}/mixed.wav"),
        meta: String::from_utf8_lossy(meta).into_owned(),
        received_at: Moment::from_us(
            i64::try_from(clock::wall().as_ms()).unwrap_or(i64::MAX).saturating_mul(1_000),
        ),
    }
}

fn name(part: &str, text: String) -> Result<Name, Error> {
    Name::new(text).ok_or_else(|| {
        let most = recording::NAME_MAX_BYTES;
        let message = format!("{part} must be 1 to {most} of a-z, A-Z, 0-9, - and _, as a UUID is");
        Error::invalid("invalid-id", message)
    })
}

fn checked_meta(meta: Bytes) -> Result<Bytes, Error> {
    match recording::check_meta(&meta) {
        Ok(()) => Ok(meta),
        Err(reason) => Err(Error::invalid("invalid-meta", format!("meta {reason}"))),
    }
}

async fn from_file(
    mut file: std::fs::File,
    receipt: &Receipt,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let etag = HeaderValue::from_str(&format!("\"{}\"", receipt.sha256)).map_err(Error::internal)?;
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| names(known, &etag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    let whole = receipt.length;
    let (status, range) = match wanted(headers, whole, &etag) {
        Wanted::Whole => (StatusCode::OK, 0..whole),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Beyond => {
            let message = format!("the recording has {whole} bytes, and none of them is in this range");
            let error = Error::new(StatusCode::RANGE_NOT_SATISFIABLE, "invalid-range", message);
            return Ok(([(header::CONTENT_RANGE, format!("bytes */{whole}"))], error).into_response());
        }
    };
    file.seek(SeekFrom::Start(range.start)).map_err(Error::internal)?;
    let length = range.end - range.start;
    let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file).take(length), PIECE_BYTES);
    let mut response = (status, Body::from_stream(pieces)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::ETAG, etag);
    if status == StatusCode::PARTIAL_CONTENT {
        let shown = format!("bytes {}-{}/{whole}", range.start, range.end - 1);
        headers.insert(header::CONTENT_RANGE, HeaderValue::from_str(&shown).map_err(Error::internal)?);
    }
    Ok(response)
}

/// The bucket was asked the same question and has answered it.
fn from_bucket(answer: reqwest::Response) -> Response {
    let status = answer.status();
    let told: Vec<_> =
        PLAYED.into_iter().filter_map(|name| Some((answer.headers().get(&name)?.clone(), name))).collect();
    let mut response = if status.is_success() {
        (status, Body::from_stream(answer.bytes_stream())).into_response()
    } else if status == StatusCode::RANGE_NOT_SATISFIABLE {
        Error::new(status, "invalid-range", "none of the recording's bytes is in this range").into_response()
    } else {
        status.into_response()
    };
    for (value, name) in told {
        if status.is_success() || name != header::CONTENT_LENGTH {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// What addresses of this node begin with, as its callers know it.
fn base_url(context: &Context, headers: &HeaderMap) -> String {
    match &context.config.public_base_url {
        Some(url) => url.as_str().trim_end_matches('/').to_owned(),
        None => {
            // The door has checked that it is one of ours.
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            format!("http://{}", host.unwrap_or("localhost"))
        }
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl From<recording::Error> for Error {
    fn from(error: recording::Error) -> Error {
        use recording::Error as Recording;

        match &error {
            Recording::Differs { .. } => {
                Error::new(StatusCode::UNPROCESSABLE_ENTITY, "recording-differs", error.to_string())
            }
            Recording::Busy => {
                let busy = Error::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-uploads", error.to_string());
                busy.retry_after_sec(5)
            }
            Recording::Full => {
                let full = Error::new(StatusCode::INSUFFICIENT_STORAGE, "storage-full", error.to_string());
                full.retry_after_sec(60)
            }
            Recording::Disk(_) | Recording::Bucket(_) => {
                let message = "the recording's storage did not answer as it should";
                let failed = Error::new(StatusCode::INTERNAL_SERVER_ERROR, "storage", message);
                failed.because(&error).retry_after_sec(5)
            }
        }
    }
}
