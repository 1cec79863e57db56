//! Forms with files, as senders of recordings make them.

use axum::body::Body;
use http::{Request, header};

/// What stands between two parts.
pub(crate) const BOUNDARY: &str = "----syncline-test-boundary";

/// A form of parts: name, file name if any, bytes.
pub(crate) fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map_or(String::new(), |file| format!("; filename=\"{file}\""));
        let head = format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// The form of a recording.
pub(crate) fn recording(call: &str, recording: &str, audio: &[u8], meta: &str) -> Vec<u8> {
    form(&[
        ("callLogId", None, call.as_bytes()),
        ("recordingId", None, recording.as_bytes()),
        ("audio", Some("mixed.wav"), audio),
        ("meta", Some("meta.json"), meta.as_bytes()),
    ])
}

/// The request that sends a form.
pub(crate) fn upload(body: impl Into<Body>) -> Request<Body> {
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let post = Request::post("/api/ingest/recording-file").header(header::CONTENT_TYPE, kind);
    post.body(body.into()).unwrap()
}
