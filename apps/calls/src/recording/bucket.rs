//! Recordings in storage that speaks S3: `{prefix}{call}/mixed.wav` and `{prefix}{call}/meta.json`.
//!
//! An object is there completely or not at all; that is the storage's own promise, and it checks the SHA-256 that is sent along.
//! Objects carry what a receipt needs as their metadata, so that an upload that comes again is recognised, and are only ever
//! created, never replaced. Requests are signed for a few minutes; the bucket needs to be open to nobody.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, StatusCode, header};
use reqwest::{Body, RequestBuilder, Response};
use rusty_s3::{Credentials, S3Action, UrlStyle};
use syncline_core::text::excerpt;
use tokio_util::io::ReaderStream;

use super::S3;
use super::disk::Staged;
use super::{AUDIO, Error, META, Name, Receipt};
use syncline_node::outbound;

/// How long a signed address is good for: long enough for clocks that differ by minutes.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);

/// Bytes read from the disk at a time while sending.
const PIECE_BYTES: usize = 64 * 1024;

/// Most of a refusal that is read.
const REFUSAL_MAX_BYTES: usize = 4 * 1024;

const RECORDING_ID: &str = "x-amz-meta-recording-id";
const SHA256: &str = "x-amz-meta-sha256";
const CHECKSUM: &str = "x-amz-checksum-sha256";

/// What a player may ask for beside the whole.
const PASSED_ON: [HeaderName; 4] = [header::RANGE, header::IF_RANGE, header::IF_MATCH, header::IF_NONE_MATCH];

/// A bucket with recordings. Clones share its connections.
#[derive(Clone)]
pub(super) struct Bucket {
    bucket: Arc<rusty_s3::Bucket>,
    credentials: Arc<Credentials>,
    prefix: Arc<str>,
    client: reqwest::Client,
}

impl Bucket {
    pub(super) fn new(config: &S3) -> Bucket {
        let style = if config.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = rusty_s3::Bucket::new(
            config.endpoint.clone(),
            style,
            config.bucket.clone(),
            config.region.clone(),
        )
        .expect("the configuration checked that the endpoint has a host");
        let credentials = Credentials::new(config.access_key_id.expose(), config.secret_access_key.expose());
        Bucket {
            bucket: Arc::new(bucket),
            credentials: Arc::new(credentials),
            prefix: config.prefix.as_str().into(),
            client: outbound::client(),
        }
    }

    /// Sends an upload to its place; `true` if this very recording was there before. Another one that is there stays, and
    /// this is an error.
    pub(super) async fn keep(
        &self,
        staged: Arc<Staged>,
        call: &Name,
        receipt: &Receipt,
    ) -> Result<bool, Error> {
        let repeated = match self.receipt(call).await? {
            Some(kept) => check(call, kept, receipt)?,
            None => self.create(&staged, call, receipt).await?,
        };
        // A call whose description is missing is one whose upload broke off here; it comes again.
        let key = self.key(call, META);
        let (_, meta) = staged.files()?;
        let put = self.bucket.put_object(Some(&self.credentials), &key);
        let length = meta.metadata()?.len();
        let request = self.client.put(put.sign(SIGNED_FOR)).header(header::CONTENT_TYPE, "application/json");
        sent(with_file(request, meta, length), &[StatusCode::OK]).await?;
        Ok(repeated)
    }

    /// What a player gets for the same question; `None` if there is no such recording.
    pub(super) async fn open(&self, call: &Name, question: &HeaderMap) -> Result<Option<Response>, Error> {
        let key = self.key(call, AUDIO);
        let get = self.bucket.get_object(Some(&self.credentials), &key);
        let mut request = self.client.get(get.sign(SIGNED_FOR));
        for name in PASSED_ON {
            if let Some(value) = question.get(&name) {
                request = request.header(name, value);
            }
        }
        let answers = [
            StatusCode::OK,
            StatusCode::PARTIAL_CONTENT,
            StatusCode::NOT_MODIFIED,
            StatusCode::PRECONDITION_FAILED,
            StatusCode::RANGE_NOT_SATISFIABLE,
            StatusCode::NOT_FOUND,
        ];
        let response = sent(request, &answers).await?;
        Ok((response.status() != StatusCode::NOT_FOUND).then_some(response))
    }

    /// Creates the object, unless somebody was faster.
    async fn create(&self, staged: &Staged, call: &Name, receipt: &Receipt) -> Result<bool, Error> {
        let key = self.key(call, AUDIO);
        let checksum = BASE64_STANDARD.encode(staged.hash());
        let signed = [
            (RECORDING_ID, receipt.recording_id.as_str()),
            (SHA256, receipt.sha256.as_str()),
            (CHECKSUM, checksum.as_str()),
        ];
        let mut put = self.bucket.put_object(Some(&self.credentials), &key);
        signed.iter().for_each(|(name, value)| put.headers_mut().insert(*name, *value));
        let mut request = self.client.put(put.sign(SIGNED_FOR));
        for (name, value) in signed {
            request = request.header(name, value);
        }
        let request = request.header(header::CONTENT_TYPE, "audio/wav").header(header::IF_NONE_MATCH, "*");
        let (audio, _) = staged.files()?;
        let answers = [StatusCode::OK, StatusCode::PRECONDITION_FAILED];
        let answer = sent(with_file(request, audio, receipt.length), &answers).await?;
        if answer.status() == StatusCode::OK {
            return Ok(false);
        }
        match self.receipt(call).await? {
            Some(kept) => check(call, kept, receipt),
            None => Err(Error::Bucket("an object is there and is not".to_owned())),
        }
    }

    async fn receipt(&self, call: &Name) -> Result<Option<Receipt>, Error> {
        let key = self.key(call, AUDIO);
        let head = self.bucket.head_object(Some(&self.credentials), &key);
        let request = self.client.head(head.sign(SIGNED_FOR));
        let answer = sent(request, &[StatusCode::OK, StatusCode::NOT_FOUND]).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let text = |name: &str| {
            answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let length = text(header::CONTENT_LENGTH.as_str()).parse().unwrap_or_default();
        Ok(Some(Receipt { recording_id: text(RECORDING_ID), length, sha256: text(SHA256) }))
    }

    fn key(&self, call: &Name, file: &str) -> String {
        format!("{}{call}/{file}", self.prefix)
    }
}

fn check(call: &Name, kept: Receipt, receipt: &Receipt) -> Result<bool, Error> {
    if kept.is_of(receipt) { Ok(true) } else { Err(Error::Differs { call: call.clone(), kept }) }
}

/// The length is stated, because storage takes no body without one.
fn with_file(request: RequestBuilder, file: std::fs::File, length: u64) -> RequestBuilder {
    let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), PIECE_BYTES);
    request.header(header::CONTENT_LENGTH, length).body(Body::wrap_stream(pieces))
}

/// Sends a request; an answer of another status than expected is an error.
async fn sent(request: RequestBuilder, expected: &[StatusCode]) -> Result<Response, Error> {
    let response = request.send().await.map_err(|error| Error::Bucket(outbound::plain(&error)))?;
    let status = response.status();
    if expected.contains(&status) {
        return Ok(response);
    }
    let said = outbound::opening(response, REFUSAL_MAX_BYTES).await;
    Err(Error::Bucket(format!("it answered {status}: {}", excerpt(&said))))
}
