//! Whether a job's input has changed since its last success.
//!
//! A job may name what its result depends on: a file or an address; the work of a part may know it by itself. The hash
//! of the last input that led to success is kept in the kv. Anything unreadable counts as changed.

use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use syncline_core::kv::Key;
use syncline_store::kv::Kv;
use tokio::io::AsyncReadExt as _;

use super::work::Firing;
use super::{Input, Job, JobKinds, Run};

/// What the keys begin with that say which input a job has seen.
pub(crate) const INPUT_PREFIX: &str = "job-input:";

/// Why an input has no hash.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error("the address did not deliver it")]
    Http,
    #[error("it answered {status}")]
    Answered { status: u16 },
}

/// The hash of what the result will depend on; `None` for a job that does not say.
pub(super) async fn hash(
    job: &Job,
    client: &reqwest::Client,
    kinds: &JobKinds,
    firing: &Firing,
) -> Result<Option<String>, Unreadable> {
    match (&job.run, &job.input) {
        (_, Some(input)) => tokio::time::timeout(job.timeout, read(input, client))
            .await
            .map_err(|_| Unreadable::Http)?
            .map(Some),
        (Run::Kind(word), None) => Ok(kinds.find(word).and_then(|work| work.input_hash(firing))),
        (Run::Http(_) | Run::Command { .. }, None) => Ok(None),
    }
}

/// Whether `hash` is that of the last input that led to success.
pub(super) async fn is_remembered(kv: &dyn Kv, job: &str, hash: &str) -> Result<bool, syncline_store::Error> {
    Ok(kv.get(&key(job)).await?.is_some_and(|entry| entry.value == hash))
}

/// Keeps `hash` as that.
pub(super) async fn remember(kv: &dyn Kv, job: &str, hash: &str) -> Result<(), syncline_store::Error> {
    kv.put(&key(job), hash, None).await.map(|_| ())
}

fn key(job: &str) -> Key {
    Key::new(format!("{INPUT_PREFIX}{job}")).expect("a job's name fits into a key")
}

async fn read(input: &Input, client: &reqwest::Client) -> Result<String, Unreadable> {
    let mut digest = Sha256::new();
    match input {
        Input::File(path) => {
            let mut file = tokio::fs::File::open(path).await?;
            let mut chunk = vec![0; 64 * 1024];
            while let read @ 1.. = file.read(&mut chunk).await? {
                digest.update(&chunk[..read]);
            }
        }
        Input::Http(url) => {
            let response = client.get(url.clone()).send().await.map_err(|_| Unreadable::Http)?;
            if !response.status().is_success() {
                return Err(Unreadable::Answered { status: response.status().as_u16() });
            }
            let mut chunks = response.bytes_stream();
            while let Some(chunk) = chunks.next().await {
                digest.update(chunk.map_err(|_| Unreadable::Http)?);
            }
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
