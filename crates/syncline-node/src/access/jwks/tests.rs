//! Lists of keys as issuers publish them: good, odd, gone, changed.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use syncline_core::time::Timestamp;
use syncline_sim::until;
use syncline_testing::{Reply, StubApi};
use tokio_util::task::TaskTracker;

use super::super::credentials::Refusal;
use super::super::issuers::{IssuerSettings, KeySource};
use super::super::{CredentialSettings, Credentials, Signer, mint};
use super::*;

const QUICK: Pace = Pace { every: Duration::from_secs(3_600), soonest: Duration::from_millis(50) };
const NOW: u64 = 1_800_000_000;

/// The public half of `eddsa.private.pem` as a JWK with this id.
fn jwk(kid: &str) -> serde_json::Value {
    let pem = include_str!("../../../tests/keys/eddsa.public.pem");
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
    let x = URL_SAFE_NO_PAD.encode(&der[der.len() - 32..]);
    json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "alg": "EdDSA", "x": x })
}

fn token(kid: &str) -> String {
    let pem = include_str!("../../../tests/keys/eddsa.private.pem");
    let signer = Signer::private(Algorithm::EdDsa, pem).unwrap();
    let claims = json!({ "iss": "id", "aud": "node", "sub": "7", "iat": NOW, "exp": NOW + 600 });
    mint(Algorithm::EdDsa, &signer, Some(kid), claims.as_object().unwrap()).unwrap()
}

fn credentials(url: &str) -> Credentials {
    let issuer = IssuerSettings {
        name: "id".to_owned(),
        issuer: "id".to_owned(),
        audience: "node".to_owned(),
        algorithm: Algorithm::EdDsa,
        keys: KeySource::Published(url.parse().unwrap()),
        origins: Vec::new(),
        max_age: Duration::from_secs(3_600),
        may: ["state:cart-{sub}:read".parse().unwrap()].into_iter().collect(),
        tenant: None,
        quota: IssuerSettings::USUAL_QUOTA,
    };
    Credentials::new(&CredentialSettings { keys: Vec::new(), issuers: vec![issuer] })
}

fn shown(credentials: &Credentials, kid: &str) -> Result<(), Refusal> {
    credentials.principal(token(kid).as_bytes(), Timestamp::from_ms(NOW * 1_000)).map(drop)
}

#[test]
fn ac_05_of_a_published_list_the_keys_of_the_issuers_algorithm_are_taken() {
    let mut odd = vec![jwk("a"), jwk("b")];
    odd.push(json!({ "kty": "oct", "kid": "c", "k": "AA" }));
    odd.push(json!({ "kty": "EC", "crv": "P-384", "kid": "d", "x": "AA", "y": "AA" }));
    odd.push(json!({ "kid": "e" }));
    odd.push(json!(7));
    for (name, value) in
        [("use", "enc"), ("alg", "ES256"), ("x", "AA"), ("x", "not base64"), ("crv", "X25519")]
    {
        let mut changed = jwk("f");
        changed[name] = value.into();
        odd.push(changed);
    }
    let taken = read(json!({ "keys": odd }).to_string().as_bytes(), Algorithm::EdDsa).unwrap();
    assert_eq!(taken.iter().map(|key| key.kid.as_deref().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    let many: Vec<_> = (0..200).map(|number| jwk(&number.to_string())).collect();
    assert_eq!(
        read(json!({ "keys": many }).to_string().as_bytes(), Algorithm::EdDsa).unwrap().len(),
        PUBLISHED_MAX
    );
    for (body, said) in [
        ("", "no key set"),
        ("[]", "no key set"),
        (r#"{"keys":7}"#, "no key set"),
        (r#"{"keys":[]}"#, "no key for EdDSA"),
    ] {
        let refused = read(body.as_bytes(), Algorithm::EdDsa).unwrap_err();
        assert!(refused.contains(said), "{body}: {refused}");
    }
}

#[tokio::test]
async fn ac_05_an_unknown_key_is_fetched_behind_the_request_and_known_at_the_next() {
    let first = json!({ "keys": [jwk("1")] }).to_string();
    let second = json!({ "keys": [jwk("1"), jwk("2")] }).to_string();
    let api =
        StubApi::start(move |_, before| Reply::new(200, if before == 0 { &first } else { &second })).await;
    let credentials = credentials(&api.url("/keys"));
    let unknown = Err(Refusal::Invalid("its issuer has no key with its `kid`"));
    assert_eq!(shown(&credentials, "1"), unknown, "nothing was fetched yet, and nothing waits for it");
    let (halt, workers) = (CancellationToken::new(), TaskTracker::new());
    credentials.start_at(QUICK, &halt, &workers);
    until("the first list is there", async || shown(&credentials, "1").is_ok()).await;
    assert_eq!(shown(&credentials, "2"), unknown);
    until("the second list is there", async || shown(&credentials, "2").is_ok()).await;
    assert!(api.smallest_gap() >= QUICK.soonest / 2, "{:?}", api.smallest_gap());
    halt.cancel();
    workers.close();
    workers.wait().await;
}

#[tokio::test]
async fn ac_05_the_last_good_list_outlives_an_outage_and_a_removed_key_does_not() {
    let good = json!({ "keys": [jwk("1")] }).to_string();
    let other = json!({ "keys": [jwk("2")] }).to_string();
    let turn = Arc::new(AtomicUsize::new(0));
    let api = {
        let turn = Arc::clone(&turn);
        StubApi::start(move |_, _| match turn.load(Ordering::SeqCst) {
            0 => Reply::new(200, &good),
            1 => Reply::new(503, "down"),
            2 => Reply::new(302, "").with("location", "/elsewhere"),
            3 => Reply::new(200, &" ".repeat(LIST_MAX_BYTES + 1)),
            4 => Reply::new(200, "{}"),
            _ => Reply::new(200, &other),
        })
        .await
    };
    let credentials = credentials(&api.url("/keys"));
    let (halt, workers) = (CancellationToken::new(), TaskTracker::new());
    credentials.start_at(QUICK, &halt, &workers);
    until("the list is there", async || shown(&credentials, "1").is_ok()).await;
    for outage in 1..=4 {
        turn.store(outage, Ordering::SeqCst);
        let before = api.calls().len();
        until("it is asked again", async || {
            assert!(shown(&credentials, "9").is_err());
            api.calls().len() > before + 1
        })
        .await;
        assert_eq!(shown(&credentials, "1"), Ok(()), "outage {outage}");
    }
    assert!(api.calls().iter().all(|call| call.path == "/keys"), "no redirect is followed");
    turn.store(5, Ordering::SeqCst);
    until("the new list is there", async || shown(&credentials, "2").is_ok()).await;
    assert!(shown(&credentials, "1").is_err(), "a token that was remembered, of a key that is gone");
    halt.cancel();
    workers.close();
    workers.wait().await;
}
