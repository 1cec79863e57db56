//! Keys that an issuer publishes (JWKS), fetched in the background.
//!
//! No request waits for it. A list is fetched when the node starts and every ten minutes; a token with an unknown key asks for
//! another look, at most once in 30 seconds. The address is the file's alone. A list that cannot be fetched or read changes
//! nothing: the last good one outlives an outage.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::issuers::{Issuer, IssuerKey, Written};
use super::signature::{Algorithm, Jwk};
use super::verified::Verified;
use crate::outbound;

/// How often a list is fetched.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    every: Duration,
    /// Soonest another look after the last one, whoever asks for it.
    soonest: Duration,
}

impl Pace {
    pub(super) const USUAL: Pace = Pace { every: Duration::from_secs(600), soonest: Duration::from_secs(30) };
}

/// How long an answer may take, and how large it may be.
const TIMEOUT: Duration = Duration::from_secs(2);
const LIST_MAX_BYTES: usize = 1024 * 1024;

/// Most keys that are taken from one list.
const PUBLISHED_MAX: usize = 100;

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

/// Keeps the keys of one issuer fresh until `halt`.
pub(super) async fn keep_fresh(
    issuer: Arc<Issuer>,
    address: Url,
    verified: Arc<Verified>,
    pace: Pace,
    halt: CancellationToken,
) {
    let client = outbound::client();
    let work = async {
        loop {
            let begun = Instant::now();
            let fetched = fetch(&client, &address, issuer.settings.algorithm).await;
            let pause = if fetched.is_ok() { pace.every } else { pace.soonest };
            take(&issuer, &verified, fetched);
            tokio::select! {
                () = sleep(pause) => {}
                () = issuer.unknown_key.notified() => sleep_until(begun + pace.soonest).await,
            }
        }
    };
    let ended = issuer.ended.clone();
    halt.run_until_cancelled(ended.run_until_cancelled(work)).await;
}

/// Fetches the keys of one issuer now.
pub(super) async fn fetch_once(issuer: &Issuer, address: &Url) -> Result<(), String> {
    let keys = fetch(&outbound::client(), address, issuer.settings.algorithm).await?;
    issuer.replace_keys(keys);
    Ok(())
}

fn take(issuer: &Issuer, verified: &Verified, fetched: Result<Vec<IssuerKey>, String>) {
    let name = issuer.settings.name.as_str();
    match fetched {
        Ok(keys) => {
            let count = keys.len();
            if issuer.replace_keys(keys) {
                verified.clear();
                tracing::info!(issuer = name, count, "took over the keys that the issuer publishes");
            }
        }
        Err(why) => tracing::warn!(issuer = name, why, "could not fetch the issuer's keys; those known stay"),
    }
}

async fn fetch(
    client: &reqwest::Client,
    address: &Url,
    algorithm: Algorithm,
) -> Result<Vec<IssuerKey>, String> {
    let request = client.get(address.clone()).timeout(TIMEOUT);
    let reply = outbound::exchange(request, LIST_MAX_BYTES).await.map_err(|failure| failure.to_string())?;
    if reply.status != 200 {
        return Err(format!("the answer has status {}", reply.status));
    }
    read(&reply.body, algorithm)
}

/// The keys of a list that are for `algorithm`. Others are the issuer's business; a list without any is a mistake.
fn read(body: &[u8], algorithm: Algorithm) -> Result<Vec<IssuerKey>, String> {
    let set: KeySet =
        serde_json::from_slice(body).map_err(|error| format!("the answer is no key set: {error}"))?;
    let usable = set.keys.into_iter().filter_map(|value| {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let for_signing = jwk.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && jwk.alg.as_deref().is_none_or(|alg| alg == algorithm.as_str());
        let key = jwk.key().filter(|key| for_signing && key.algorithm() == algorithm)?;
        Some(IssuerKey { kid: jwk.kid, key, until: None, written: Written::Published })
    });
    let keys: Vec<IssuerKey> = usable.take(PUBLISHED_MAX).collect();
    if keys.is_empty() {
        return Err(format!("the answer has no key for {}", algorithm.as_str()));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
