//! The pictures that the built-in job makes, kept for a day.
//!
//! They live in the gallery's own space of the kv that all nodes share, so that every node shows what any node made and nothing has
//! to be cleaned up. A picture is two keys: its file, and a note about it under a name that sorts the newest first. The file is
//! written before the note, so that a note never points nowhere.

mod http;
mod part;
mod picture;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use syncline_core::kv::Key;
use syncline_core::schedule::Bucket;
use syncline_store::Error;
use syncline_store::kv::{Entry, Kv};

pub use part::GalleryPart;
pub use picture::{Scene, paint};

/// How long a picture is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// How long the last snapshot is remembered as such.
const LAST_SNAPSHOT_KEPT: Duration = Duration::from_secs(3600);

/// The key of the last snapshot.
pub(crate) const LAST_SNAPSHOT: &str = "last_snapshot";

/// What the keys of notes and files begin with.
pub(crate) const NOTES: &str = "picture:";
pub(crate) const FILES: &str = "picture-file:";

/// Later than any second a bucket can name; subtracting from it turns newest-first into key order.
const END_OF_TIME_SEC: u64 = 999_999_999_999;

/// What is known about one picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Picture {
    /// Its name, also in addresses.
    pub object_key: String,
    /// When its minute began, ISO 8601.
    pub ts: String,
    /// How many were watching.
    pub viewers: u64,
    /// What it was painted from, hashed.
    pub hash: String,
}

/// The last generation's result, as other programs read it from the kv.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastSnapshot<'a> {
    object_key: &'a str,
    ts: &'a str,
}

/// The pictures of all nodes.
#[derive(Clone)]
pub struct Gallery {
    kv: Arc<dyn Kv>,
}

impl Gallery {
    /// The gallery in `kv`.
    pub fn new(kv: Arc<dyn Kv>) -> Gallery {
        Gallery { kv }
    }

    /// Paints `scene` and keeps it as the picture of `bucket`. Doing it twice gives one picture.
    pub async fn add(&self, scene: Scene, bucket: Bucket) -> Result<Picture, Error> {
        let picture = Picture {
            object_key: format!("{}.svg", bucket.to_string().replace(':', "-")),
            ts: moment(bucket),
            viewers: scene.viewers,
            hash: scene.hash(),
        };
        let newest_first = END_OF_TIME_SEC - bucket.starts_at().as_ms() / 1_000;
        let file = format!("{FILES}{}", picture.object_key);
        self.kv.put(&key(&file), &paint(scene), Some(KEPT)).await?;
        self.kv.put(&key(&format!("{NOTES}{newest_first:012}")), &json(&picture), Some(KEPT)).await?;
        let last = LastSnapshot { object_key: &picture.object_key, ts: &picture.ts };
        self.kv.put(&key(LAST_SNAPSHOT), &json(&last), Some(LAST_SNAPSHOT_KEPT)).await?;
        Ok(picture)
    }

    /// The newest pictures, newest first.
    pub async fn recent(&self, limit: usize) -> Result<Vec<Picture>, Error> {
        let notes = self.kv.list(NOTES, limit).await?;
        // A note that cannot be read was written by something else; the others are still worth showing.
        Ok(notes.iter().filter_map(|note| serde_json::from_str(&note.value).ok()).collect())
    }

    /// The last snapshot as it is remembered.
    pub async fn last_snapshot(&self) -> Result<Option<Entry>, Error> {
        self.kv.get(&key(LAST_SNAPSHOT)).await
    }

    /// The SVG called `object_key`, if it is still kept.
    pub async fn file(&self, object_key: &str) -> Result<Option<String>, Error> {
        let Ok(key) = Key::new(format!("{FILES}{object_key}")) else { return Ok(None) };
        Ok(self.kv.get(&key).await?.map(|entry| entry.value))
    }
}

impl Scene {
    /// The scene of a firing.
    pub fn of(bucket: Bucket, viewers: u64) -> Scene {
        Scene { minute: bucket.starts_at().as_ms() / 60_000, viewers }
    }

    /// Equal for equal scenes, different for different ones.
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(format!("lake/1 {} {}", self.minute, self.viewers));
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// `2025-11-11T12:00` as a full ISO 8601 moment.
fn moment(bucket: Bucket) -> String {
    match bucket.to_string() {
        minute if minute.len() == 16 => format!("{minute}:00Z"),
        second => format!("{second}Z"),
    }
}

fn key(text: &str) -> Key {
    Key::new(text).expect("made of constants, digits and a bucket")
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain structs serialise")
}
