//! Recordings of calls: received piece by piece, kept under the call's name, opened again to be played.
//!
//! [`Recordings`] is what the HTTP side sees. An `Upload` is written to the folder on this machine and hashed on the way;
//! finished, it is moved into its place there or sent to a bucket. It holds a few megabytes of memory, whatever its size.
//!
//! - `recording/disk.rs`: complete and synced, or not there
//! - `recording/bucket.rs`: the same in storage that speaks S3
//! - `recording/upload.rs`: pieces in, a receipt out
//! - [`table`]: which ones have arrived
//!
//! Guarantees that a receipt is given for what is durably kept and for nothing else, and that what is kept is never replaced:
//! the same upload again gets the same receipt, another one for the same call is refused.

mod bucket;
mod byte_range;
pub(crate) mod config;
mod disk;
pub(crate) mod http;
mod listing;
mod multipart;
pub mod table;
mod upload;

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use ::http::HeaderMap;
use metrics::{Counter, Gauge};
use serde::{Deserialize, Serialize};
use tokio::sync::{OnceCell, Semaphore};

use bucket::Bucket;
pub use config::{RecordingSettings, S3};
use disk::Disk;
use syncline_node::inbox::{DEPTH_MAX, is_deep};
use syncline_node::metrics::Registry;
use table::{Recording, RecordingTable};
pub(crate) use upload::{Kept, Upload};

/// The files of a call.
pub(crate) const AUDIO: &str = "mixed.wav";
pub(crate) const META: &str = "meta.json";

/// Largest description of a recording, sent or received.
pub(crate) const META_MAX_BYTES: usize = 64 * 1024;

/// Longest name of a call or a recording.
pub const NAME_MAX_BYTES: usize = 64;

/// Uploads under way at a time. Each holds a few megabytes and a thread now and then.
const UPLOADS_MAX: usize = 32;

/// The name of a call or a recording: fit for a folder and for an address, and nothing but a name in either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Checks a name: from 1 to 64 of `a-z A-Z 0-9 - _`, which every UUID is.
    pub fn new(text: impl Into<String>) -> Option<Name> {
        let text = text.into();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let fits = (1..=NAME_MAX_BYTES).contains(&text.len()) && text.bytes().all(fits);
        fits.then_some(Name(text))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is kept of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Which one it is; empty where nobody said.
    pub recording_id: String,
    /// Its bytes.
    pub length: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Receipt {
    /// Whether this is the receipt of `other`.
    fn is_of(&self, other: &Receipt) -> bool {
        let named = self.recording_id.is_empty() || self.recording_id == other.recording_id;
        named && self.length == other.length && self.sha256 == other.sha256
    }
}

/// Why a recording is not kept, or cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another one has its place.
    #[error(
        "the call {call} already has the recording {:?} with {} bytes and SHA-256 {}, which is not replaced",
        kept.recording_id, kept.length, kept.sha256
    )]
    Differs {
        /// The call.
        call: Name,
        /// What is kept.
        kept: Receipt,
    },
    /// Too many at a time.
    #[error("{UPLOADS_MAX} recordings are being received, which is the most at a time")]
    Busy,
    /// The disk is full.
    #[error("there is no room left for recordings")]
    Full,
    /// The system's.
    #[error("the recordings folder failed: {0}")]
    Disk(io::Error),
    /// The bucket's.
    #[error("the bucket failed: {0}")]
    Bucket(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            // The last is a limit on the size of files, which leaves no room either.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::Full
            }
            _ => Error::Disk(error),
        }
    }
}

/// A recording to be played.
pub(crate) enum Playback {
    /// From this machine.
    File(File, Receipt),
    /// What the bucket answered to the same question, byte ranges and conditions included.
    Bucket(reqwest::Response),
}

/// The recordings of a node.
pub struct Recordings {
    config: RecordingSettings,
    table: RecordingTable,
    disk: OnceCell<Disk>,
    bucket: Option<Bucket>,
    places: Arc<Semaphore>,
    meters: Meters,
}

impl Recordings {
    /// Recordings as configured. The folder is made when it is first needed, or by [`Recordings::prepare`].
    pub(crate) fn new(config: &RecordingSettings, table: RecordingTable, registry: &Registry) -> Recordings {
        Recordings {
            config: config.clone(),
            table,
            disk: OnceCell::new(),
            bucket: config.s3.as_ref().map(Bucket::new),
            places: Arc::new(Semaphore::new(UPLOADS_MAX)),
            meters: Meters::new(registry),
        }
    }

    /// Opens the folder and removes what a process that died left in it.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        self.disk().await.map(|_| ())
    }

    /// The most bytes a recording may have.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.config.max_bytes
    }

    /// Begins to receive a recording.
    pub(crate) async fn begin(&self) -> Result<Upload, Error> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Error::Busy)?;
        Ok(Upload::begin(self.disk().await?.clone(), self.bucket.clone(), self.meters.clone(), place))
    }

    /// Opens the recording of a call; `None` if there is none. `question` has the conditions and the range asked for.
    pub(crate) async fn open(&self, call: &Name, question: &HeaderMap) -> Result<Option<Playback>, Error> {
        if let Some(bucket) = &self.bucket {
            return Ok(bucket.open(call, question).await?.map(Playback::Bucket));
        }
        let (disk, call) = (self.disk().await?.clone(), call.clone());
        let opened = blocking(move || disk.audio(&call)).await?;
        Ok(opened.map(|(file, receipt)| Playback::File(file, receipt)))
    }

    /// Notes a recording that is safe here. The same one again changes nothing.
    pub(crate) async fn note(&self, recording: &Recording) -> Result<(), syncline_store::Error> {
        self.table.put(recording).await
    }

    /// The recordings that are here, the last received first.
    pub(crate) async fn received(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Recording>, syncline_store::Error> {
        self.table.list(after, limit).await
    }

    async fn disk(&self) -> Result<&Disk, Error> {
        let path = self.config.dir.clone();
        self.disk.get_or_try_init(|| blocking(move || Ok(Disk::open(&path)?))).await
    }
}

/// Whether a recording's description can be kept: a JSON object in UTF-8, within bounds; if not, why. Sender and receiver ask
/// the same, so that nothing is sent that is not taken.
pub(crate) fn check_meta(meta: &[u8]) -> Result<(), String> {
    if meta.len() > META_MAX_BYTES {
        return Err(format!("has more than {META_MAX_BYTES} bytes"));
    }
    let text = std::str::from_utf8(meta).map_err(|_| "is not UTF-8".to_owned())?;
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return Err(format!("is no JSON: {error}"));
    }
    if !text.trim_ascii_start().starts_with('{') {
        return Err("must be a JSON object".to_owned());
    }
    if is_deep(text) {
        return Err(format!("is nested more than {DEPTH_MAX} deep"));
    }
    Ok(())
}

/// Runs what waits for the disk where nothing else has to wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error).into()),
    }
}

/// What is counted.
#[derive(Clone)]
struct Meters {
    receiving: Gauge,
    stored: Counter,
    repeated: Counter,
    bytes: Counter,
}

impl Meters {
    fn new(registry: &Registry) -> Meters {
        let uploads = |result| {
            let help = "Recordings received completely, by what became of them.";
            registry.counter("syncline_recording_received_total", help, &[("result", result)])
        };
        Meters {
            receiving: registry.gauge("syncline_recording_receiving", "Recordings being received.", &[]),
            stored: uploads("stored"),
            repeated: uploads("repeated"),
            bytes: registry.counter(
                "syncline_recording_received_bytes_total",
                "Bytes of recordings received, finished or not.",
                &[],
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_27_a_description_is_a_json_object_in_utf_8_within_bounds() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        for good in ["{}", " {\"name\":\"\u{547c}\"}", nested(DEPTH_MAX - 1).as_str()] {
            check_meta(good.as_bytes()).unwrap();
        }
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(META_MAX_BYTES));
        for bad in
            ["", "[]", "\"{}\"", "{", "null", nested(DEPTH_MAX).as_str(), nested(20_000).as_str(), &long]
        {
            assert!(check_meta(bad.as_bytes()).is_err(), "{bad:.40}");
        }
        // As Shift-JIS has it.
        assert_eq!(check_meta(b"{\"name\":\"\x8c\xc4\"}").unwrap_err(), "is not UTF-8");
    }

    #[test]
    fn ss_27_a_name_is_a_name_and_never_a_way() {
        for name in ["550e8400-e29b-41d4-a716-446655440000", "a", "A_b-9", &"x".repeat(64)] {
            assert_eq!(Name::new(name).unwrap().as_str(), name);
        }
        let long = "x".repeat(65);
        for name in [
            "",
            ".",
            "..",
            "../a",
            "a/b",
            "/etc",
            "a\\b",
            "a\0",
            "a b",
            "é",
            "%2e%2e",
            ".incoming",
            "~",
            &long,
        ] {
            assert_eq!(Name::new(name), None, "{name:?}");
        }
    }
}
