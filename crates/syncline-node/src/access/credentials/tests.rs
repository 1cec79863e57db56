//! Keys, good tokens, and every forged one that is known to have worked somewhere.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use syncline_core::access::Need;

use super::super::PrincipalKind;
use super::super::issuers::{IssuerKey, Written};
use super::super::{Algorithm, Signer, VerifyingKey, mint, new_key};
use super::*;

/// The time of day of these tests, in seconds.
const NOW: u64 = 1_800_000_000;

const SECRET: &str = "correct-horse-battery-staple-correct";
const OTHER_SECRET: &str = "another-secret-of-another-issuer-of-ours";

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_ms(seconds * 1_000)
}

fn listed(kid: Option<&str>, key: VerifyingKey) -> IssuerKey {
    IssuerKey { kid: kid.map(str::to_owned), key, until: None, written: Written::Published }
}

fn hmac(secret: &str) -> VerifyingKey {
    VerifyingKey::secret(secret.as_bytes()).unwrap()
}

fn signer(secret: &str) -> Signer {
    hmac(secret).signer().unwrap()
}

fn issuer(name: &str, algorithm: Algorithm, keys: Vec<IssuerKey>, may: &[&str]) -> IssuerSettings {
    IssuerSettings {
        name: name.to_owned(),
        issuer: format!("https://{name}.example"),
        audience: "https://node.example".to_owned(),
        algorithm,
        keys: KeySource::Listed(keys),
        origins: vec![format!("https://{name}.example")],
        max_age: Duration::from_secs(3_600),
        may: may.iter().map(|text| text.parse().unwrap()).collect(),
        tenant: None,
        quota: IssuerSettings::USUAL_QUOTA,
    }
}

/// A shop with a secret, and a bank with a key pair; both call their key `1`.
fn credentials() -> Credentials {
    let shop = issuer(
        "shop",
        Algorithm::Hs256,
        vec![listed(Some("1"), hmac(SECRET))],
        &["state:cart-{sub}:read,write", "state:{tenant}.*:read", "lock:{sub#}:hold", "viewer:shop:beat"],
    );
    let bank_key =
        VerifyingKey::public(Algorithm::EdDsa, include_str!("../../../tests/keys/eddsa.public.pem")).unwrap();
    let bank = issuer("bank", Algorithm::EdDsa, vec![listed(Some("1"), bank_key)], &["state:*:read"]);
    Credentials::new(&CredentialSettings { keys: Vec::new(), issuers: vec![shop, bank] })
}

fn bank_signer() -> Signer {
    Signer::private(Algorithm::EdDsa, include_str!("../../../tests/keys/eddsa.private.pem")).unwrap()
}

/// Claims that are right, with these changed; `null` removes one.
fn claims(changes: &Value) -> Map<String, Value> {
    let mut claims = json!({
        "iss": "https://shop.example", "aud": "https://node.example", "sub": "7", "iat": NOW, "exp": NOW + 600,
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name.as_str()] = value.clone(),
        }
    }
    claims.as_object().unwrap().clone()
}

fn shop_token(changes: &Value) -> String {
    mint(Algorithm::Hs256, &signer(SECRET), Some("1"), &claims(changes)).unwrap()
}

/// A token with any header, signed with the shop's secret.
fn with_header(header: &Value) -> String {
    let claims = Value::Object(claims(&json!({}))).to_string();
    let [header, claims] = [header.to_string(), claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    let message = format!("{header}.{claims}");
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signer(SECRET).sign(message.as_bytes()).unwrap()))
}

fn shown(token: &str) -> Result<Arc<Principal>, Refusal> {
    credentials().principal(token.as_bytes(), at(NOW))
}

fn reason(token: &str) -> &'static str {
    match shown(token) {
        Err(Refusal::Invalid(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn may(principal: &Principal, grant: &str) -> bool {
    let (system, rest) = grant.split_once(':').unwrap();
    let (name, verb) = rest.rsplit_once(':').unwrap();
    principal.may(Need { system, verb, name: Some(name) })
}

#[test]
fn ac_04_a_key_is_known_by_its_hash_and_by_its_shape() {
    let (secret, hash) = new_key(false);
    let (public, public_hash) = new_key(true);
    let key = |name: &str, hash, public| KeySettings {
        name: name.to_owned(),
        hash,
        may: ["state:menu:read".parse().unwrap()].into_iter().collect(),
        public,
        origins: vec!["https://site.example".to_owned()],
        quota: KeySettings::usual_quota(public),
        sender: None,
    };
    let (odd, odd_hash) = new_key(false);
    let plain_hash = KeyHash::of(b"a-password-that-somebody-hashed");
    let credentials = Credentials::new(&CredentialSettings {
        keys: vec![
            key("box", hash, false),
            key("page", public_hash, true),
            key("odd", odd_hash, true),
            key("plain", plain_hash, false),
        ],
        issuers: Vec::new(),
    });
    let shown = |bearer: &str| credentials.principal(bearer.as_bytes(), at(NOW));
    let found = shown(secret.expose()).unwrap();
    assert_eq!((found.kind, &*found.name, found.subject()), (PrincipalKind::Key, "box", Some("box")));
    assert!(may(&found, "state:menu:read") && !may(&found, "state:menu:write"));
    assert_eq!(found.ends_at, None);
    assert_eq!(&*shown(public.expose()).unwrap().name, "page");
    assert_eq!(shown(odd.expose()), Err(Refusal::Unknown), "a secret key must not be called publishable");
    for wrong in
        ["", "slk_", "a-password-that-somebody-hashed", new_key(false).0.expose(), &secret.expose()[..46]]
    {
        assert_eq!(shown(wrong), Err(Refusal::Unknown), "{wrong}");
    }
    let listed = |origin: &'static str| credentials.lists_origin(&HeaderValue::from_static(origin));
    assert!(listed("https://site.example") && !listed("https://other.example"));
    assert!(!credentials.is_empty() && Credentials::default().is_empty());
}

#[test]
fn ac_01_a_token_makes_a_principal_from_itself_alone() {
    let person = shown(&shop_token(&json!({ "tenant": "north" }))).unwrap();
    assert_eq!((person.kind, &*person.name, person.subject()), (PrincipalKind::Person, "shop", Some("7")));
    assert_eq!(person.ends_at, Some(at(NOW + 660)), "with a minute for clocks that differ");
    assert_eq!(&*person.origins, ["https://shop.example"]);
    for (grant, allowed) in [
        ("state:cart-7:write", true),
        ("state:cart-8:read", false),
        ("state:north.list:read", true),
        ("state:north:read", false),
        ("viewer:shop:beat", true),
        ("queue:covers:add", false),
    ] {
        assert_eq!(may(&person, grant), allowed, "{grant}");
    }
    let nobody = shown(&shop_token(&json!({ "sub": null }))).unwrap();
    assert_eq!(nobody.subject(), Some("shop"), "never a name of its own choice");
    assert!(may(&nobody, "viewer:shop:beat") && !may(&nobody, "state:cart-:read"));
}

#[test]
fn ac_02_a_subject_with_odd_characters_is_reached_by_its_hash() {
    let person = shown(&shop_token(&json!({ "sub": "auth0|7" }))).unwrap();
    // The first 130 bits of the SHA-256 of `auth0|7`, in base32.
    assert!(may(&person, "lock:bid2jrrmfoavzp3wuk6riz5uml:hold"), "{:?}", person.grants);
    assert!(!may(&person, "state:cart-auth0|7:read"));
}

#[test]
fn ac_05_a_token_narrows_its_issuers_ceiling_and_never_widens_it() {
    let narrow = |list: Value| shown(&shop_token(&json!({ "may": list })));
    let reader = narrow(json!(["state:*:read", "job:*:run"])).unwrap();
    assert!(may(&reader, "state:cart-7:read"));
    for beyond in ["state:cart-7:write", "state:cart-8:read", "job:nightly:run", "viewer:shop:beat"] {
        assert!(!may(&reader, beyond), "{beyond}");
    }
    assert!(narrow(json!([])).unwrap().grants.is_empty());
    for wrong in [json!(["state"]), json!(["state:cart-{sub}:read"]), json!(vec!["kv:a:read"; 101])] {
        assert!(matches!(narrow(wrong.clone()), Err(Refusal::Invalid(_))), "{wrong}");
    }
    assert!(matches!(narrow(json!("state:*:read")), Err(Refusal::Invalid(_))), "a text is no list");
}

#[test]
fn ac_05_each_algorithm_is_accepted_from_its_own_issuer() {
    for (algorithm, private, public) in [
        (
            Algorithm::Es256,
            include_str!("../../../tests/keys/es256.private.pem"),
            include_str!("../../../tests/keys/es256.public.pem"),
        ),
        (
            Algorithm::Rs256,
            include_str!("../../../tests/keys/rs256.private.pem"),
            include_str!("../../../tests/keys/rs256.public.pem"),
        ),
        (
            Algorithm::EdDsa,
            include_str!("../../../tests/keys/eddsa.private.pem"),
            include_str!("../../../tests/keys/eddsa.public.pem"),
        ),
    ] {
        let key = VerifyingKey::public(algorithm, public).unwrap();
        let signer = Signer::private(algorithm, private).unwrap();
        let shop = issuer("shop", algorithm, vec![listed(None, key)], &["state:cart-{sub}:read"]);
        let credentials = Credentials::new(&CredentialSettings { keys: Vec::new(), issuers: vec![shop] });
        let token = mint(algorithm, &signer, None, &claims(&json!({}))).unwrap();
        assert!(credentials.principal(token.as_bytes(), at(NOW)).is_ok(), "{algorithm:?}");
        // The public key is known to everybody: as a secret it must open nothing.
        let forged = mint(Algorithm::Hs256, &signer_of_any(public), None, &claims(&json!({}))).unwrap();
        let refused = credentials.principal(forged.as_bytes(), at(NOW));
        assert_eq!(refused, Err(Refusal::Invalid("its `alg` is not the one of its issuer")), "{algorithm:?}");
        let (header, rest) = forged.split_once('.').unwrap();
        assert!(header.len() > 10);
        let named = URL_SAFE_NO_PAD.encode(json!({ "alg": algorithm.as_str() }).to_string());
        let renamed = format!("{named}.{rest}");
        assert!(credentials.principal(renamed.as_bytes(), at(NOW)).is_err(), "{algorithm:?}");
    }
}

/// A signer with a public key as its secret, which the configuration refuses.
fn signer_of_any(public: &str) -> Signer {
    let secret = public.replace("-----BEGIN", "-----begin");
    VerifyingKey::secret(secret.as_bytes()).unwrap().signer().unwrap()
}

#[test]
fn ac_05_headers_that_choose_their_own_proof_are_refused() {
    assert!(shown(&with_header(&json!({ "alg": "HS256", "kid": "1" }))).is_ok());
    assert!(shown(&with_header(&json!({ "alg": "HS256" }))).is_ok(), "without an id each key is tried");
    for alg in ["none", "None", "NONE", "nOnE", "", "hs256", "HS384", "HS512", "EdDSA", "RS256"] {
        let said = reason(&with_header(&json!({ "alg": alg })));
        assert_eq!(said, "its `alg` is not the one of its issuer", "{alg}");
    }
    let unsigned = with_header(&json!({ "alg": "none" }));
    let unsigned = &unsigned[..=unsigned.rfind('.').unwrap()];
    assert_eq!(reason(unsigned), "its `alg` is not the one of its issuer");
    for name in ["crit", "jku", "x5u", "jwk"] {
        for value in
            [json!("https://evil.example/keys"), json!(["exp"]), json!({ "kty": "oct", "k": "AA" }), json!(1)]
        {
            let mut header = json!({ "alg": "HS256", "kid": "1" });
            header[name] = value;
            assert!(reason(&with_header(&header)).contains("none of which is accepted"), "{header}");
        }
    }
    for kid in ["2", "", "../../dev/null", "1' OR '1'='1", "/dev/null", "1\0"] {
        let said = reason(&with_header(&json!({ "alg": "HS256", "kid": kid })));
        assert_eq!(said, "its issuer has no key with its `kid`", "{kid:?}");
    }
    for odd in [
        json!({ "alg": "HS256", "kid": 1 }),
        json!({ "alg": ["HS256"] }),
        json!({}),
        json!([]),
        json!("HS256"),
    ] {
        assert_eq!(reason(&with_header(&odd)), "its header is no JSON with an `alg`", "{odd}");
    }
}

#[test]
fn ac_05_two_issuers_with_one_key_id_stay_apart() {
    let of_bank = claims(&json!({ "iss": "https://bank.example" }));
    let real = mint(Algorithm::EdDsa, &bank_signer(), Some("1"), &of_bank).unwrap();
    assert_eq!(&*shown(&real).unwrap().name, "bank");
    // The shop signs as the bank, and the bank as the shop.
    let shop_as_bank = mint(Algorithm::Hs256, &signer(SECRET), Some("1"), &of_bank).unwrap();
    assert_eq!(reason(&shop_as_bank), "its `alg` is not the one of its issuer");
    let bank_as_shop = mint(Algorithm::EdDsa, &bank_signer(), Some("1"), &claims(&json!({}))).unwrap();
    assert_eq!(reason(&bank_as_shop), "its `alg` is not the one of its issuer");
    // Two with the same algorithm, too.
    let shop = issuer("shop", Algorithm::Hs256, vec![listed(Some("1"), hmac(SECRET))], &[]);
    let mall = issuer("mall", Algorithm::Hs256, vec![listed(Some("1"), hmac(OTHER_SECRET))], &[]);
    let both = Credentials::new(&CredentialSettings { keys: Vec::new(), issuers: vec![shop, mall] });
    let forged = mint(Algorithm::Hs256, &signer(OTHER_SECRET), Some("1"), &claims(&json!({}))).unwrap();
    let refused = both.principal(forged.as_bytes(), at(NOW));
    assert_eq!(refused, Err(Refusal::Invalid("its signature is wrong")));
}

#[test]
fn ac_05_claims_are_required_and_strictly_typed() {
    let strict = "its claims are not JSON with `iss`, `aud`, and whole numbers as `exp` and `iat`";
    for missing in ["iss", "aud", "exp", "iat"] {
        assert_eq!(reason(&shop_token(&json!({ missing: null }))), strict, "{missing}");
    }
    // A time of the wrong type was once read as no time at all, and such a token never ended (CVE-2026-25537).
    for wrong in [
        json!("1800000600"),
        json!(1_800_000_600.5),
        json!(-1),
        json!([NOW + 600]),
        json!({}),
        json!(true),
        json!(1e300),
    ] {
        for name in ["exp", "iat", "nbf"] {
            assert_eq!(reason(&shop_token(&json!({ name: wrong }))), strict, "{name}: {wrong}");
        }
    }
    for (name, wrong) in
        [("sub", json!(7)), ("jti", json!(7)), ("iss", json!(["https://shop.example"])), ("aud", json!({}))]
    {
        assert_eq!(reason(&shop_token(&json!({ name: wrong }))), strict, "{name}");
    }
    for sub in ["", "a\nb", &"a".repeat(256)] {
        assert!(reason(&shop_token(&json!({ "sub": sub }))).starts_with("its `sub` is empty"), "{sub}");
    }
    let twice = r#"{"iss":"https://shop.example","aud":"https://node.example","iat":1800000000,"exp":1,"exp":1900000000}"#;
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(twice));
    let signature = URL_SAFE_NO_PAD.encode(signer(SECRET).sign(message.as_bytes()).unwrap());
    assert_eq!(reason(&format!("{message}.{signature}")), strict, "a claim that stands twice");
}

#[test]
fn ac_05_issuer_audience_and_times_must_fit() {
    assert!(shown(&shop_token(&json!({ "aud": ["https://other.example", "https://node.example"] }))).is_ok());
    for aud in [json!("https://other.example"), json!([]), json!("https://node.example/"), json!("")] {
        assert_eq!(
            reason(&shop_token(&json!({ "aud": aud }))),
            "its `aud` names another audience than this node"
        );
    }
    for iss in ["https://evil.example", "shop", "https://shop.example/", ""] {
        assert_eq!(
            reason(&shop_token(&json!({ "iss": iss }))),
            "no issuer of this node has its `iss`",
            "{iss}"
        );
    }
    for (changes, expected) in [
        (json!({ "iat": NOW - 600, "exp": NOW - 59 }), Ok(())),
        (json!({ "iat": NOW - 600, "exp": NOW - 60 }), Err(Refusal::Expired)),
        (json!({ "iat": NOW - 600, "exp": 0 }), Err(Refusal::Expired)),
        (json!({ "iat": NOW + 60 }), Ok(())),
        (json!({ "iat": NOW + 61 }), Err(Refusal::Invalid("its `iat` is in the future: compare the clocks"))),
        (json!({ "nbf": NOW + 60 }), Ok(())),
        (
            json!({ "nbf": NOW + 61 }),
            Err(Refusal::Invalid("it is not valid yet: its `nbf` is in the future")),
        ),
        // However late its end: an hour after it was issued it is over.
        (json!({ "iat": NOW - 3_659, "exp": u64::MAX }), Ok(())),
        (json!({ "iat": NOW - 3_660, "exp": u64::MAX }), Err(Refusal::Expired)),
    ] {
        assert_eq!(shown(&shop_token(&changes)).map(drop), expected, "{changes}");
    }
}

#[test]
fn ac_05_a_changed_token_is_refused_wherever_it_is_changed() {
    let token = shop_token(&json!({}));
    assert!(shown(&token).is_ok());
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let refused = credentials().principal(&changed, super::tests::at(NOW));
        assert!(refused.is_err(), "byte {at}");
    }
    for end in 0..token.len() {
        assert!(shown(&token[..end]).is_err(), "{end} bytes");
    }
    for odd in [
        format!("{token}="),
        format!("{token}."),
        format!(".{token}"),
        token.replace('.', ".."),
        "..".to_owned(),
    ] {
        assert!(shown(&odd).is_err(), "{odd}");
    }
    for none in ["", "a.b", "Basic", "a.b.c.d", "\u{e9}"] {
        assert_eq!(shown(none), Err(Refusal::Unknown), "{none}");
    }
    let long = shop_token(&json!({ "note": "x".repeat(8_192) }));
    assert_eq!(reason(&long), "it is longer than 8 KiB");
}

#[test]
fn ac_05_a_key_that_has_ended_ends_its_tokens_and_the_next_one_goes_on() {
    let mut old = listed(Some("2026-04"), hmac(OTHER_SECRET));
    old.until = Some(at(NOW + 30));
    let keys = vec![listed(Some("2026-10"), hmac(SECRET)), old];
    let shop = issuer("shop", Algorithm::Hs256, keys, &["state:*:read"]);
    let credentials = Credentials::new(&CredentialSettings { keys: Vec::new(), issuers: vec![shop.clone()] });
    let token =
        |secret, kid| mint(Algorithm::Hs256, &signer(secret), Some(kid), &claims(&json!({}))).unwrap();
    let (new, old) = (token(SECRET, "2026-10"), token(OTHER_SECRET, "2026-04"));
    for time in [NOW, NOW + 29] {
        assert!(credentials.principal(new.as_bytes(), at(time)).is_ok());
        assert_eq!(credentials.principal(old.as_bytes(), at(time)).unwrap().ends_at, Some(at(NOW + 30)));
    }
    assert!(credentials.principal(new.as_bytes(), at(NOW + 30)).is_ok());
    let refused = credentials.principal(old.as_bytes(), at(NOW + 30));
    assert_eq!(refused, Err(Refusal::Invalid("its issuer has no key with its `kid`")));
    assert_eq!(shop.signer(at(NOW)).unwrap().1, Some("2026-10"), "new tokens get the first key");
}

#[test]
fn ac_01_a_token_is_checked_once_and_ends_when_it_says() {
    let credentials = credentials();
    let token = shop_token(&json!({}));
    let first = credentials.principal(token.as_bytes(), at(NOW)).unwrap();
    let second = credentials.principal(token.as_bytes(), at(NOW + 659)).unwrap();
    assert!(Arc::ptr_eq(&first, &second), "the second time it was remembered");
    assert_eq!(credentials.principal(token.as_bytes(), at(NOW + 660)), Err(Refusal::Expired));
    assert_eq!(
        [Refusal::Unknown, Refusal::Expired, Refusal::Invalid(""), Refusal::Revoked].map(Refusal::code),
        ["token-invalid", "token-expired", "token-invalid", "token-revoked",]
    );
}

/// Whoever was let in by what stays the same must not notice that something else was changed.
#[test]
fn ac_11_another_configuration_ends_what_it_changes_and_leaves_the_rest() {
    let (kept, kept_hash) = new_key(false);
    let (gone, gone_hash) = new_key(false);
    let key = |name: &str, hash, may: &str| KeySettings {
        name: name.to_owned(),
        hash,
        may: [may.parse().unwrap()].into_iter().collect(),
        public: false,
        origins: Vec::new(),
        quota: KeySettings::usual_quota(false),
        sender: None,
    };
    let shop =
        |secret| issuer("shop", Algorithm::Hs256, vec![listed(Some("1"), hmac(secret))], &["state:*:read"]);
    let bank = issuer("bank", Algorithm::Hs256, vec![listed(Some("1"), hmac(SECRET))], &["state:*:read"]);
    let before = CredentialSettings {
        keys: vec![key("kept", kept_hash, "state:a:read"), key("gone", gone_hash, "state:a:read")],
        issuers: vec![shop(SECRET), bank.clone()],
    };
    let credentials = Credentials::new(&before);
    let shown = |bearer: &str| credentials.principal(bearer.as_bytes(), at(NOW));
    let of = |iss: &str| {
        let claims = claims(&json!({ "iss": format!("https://{iss}.example") }));
        mint(Algorithm::Hs256, &signer(SECRET), Some("1"), &claims).unwrap()
    };
    let (from_shop, from_bank) = (of("shop"), of("bank"));
    let held = [kept.expose(), gone.expose(), &from_shop, &from_bank].map(|bearer| shown(bearer).unwrap());
    assert!(held.iter().all(|principal| credentials.stands(principal)));
    assert_eq!(credentials.configure(before.clone()), [""; 0]);
    assert!(held.iter().all(|principal| credentials.stands(principal)), "the same file changes nothing");
    let changed = credentials.configure(CredentialSettings {
        keys: vec![key("kept", kept_hash, "state:a:read"), key("new", new_key(false).1, "state:b:read")],
        issuers: vec![bank, shop("another-secret-of-the-shop-of-32-bytes")],
    });
    assert_eq!(changed, ["key new added", "key gone removed", "issuer shop changed"]);
    assert_eq!(held.each_ref().map(|principal| credentials.stands(principal)), [true, false, false, true]);
    assert_eq!(shown(gone.expose()), Err(Refusal::Unknown));
    assert_eq!(shown(&from_shop), Err(Refusal::Invalid("its signature is wrong")));
    assert!(shown(&from_bank).is_ok() && shown(kept.expose()).is_ok());
}
