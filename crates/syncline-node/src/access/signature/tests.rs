//! The examples of RFC 7515 and RFC 8037, key by key and signature by signature.

use super::super::token::Signed;
use super::*;

/// The payload of the first three: it lacks claims that a node requires, so the signatures are checked alone.
const PAYLOAD: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

const RSA_JWK: &str = r#"{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#;
const RSA_SIGNATURE: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";

const EC_JWK: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
const EC_SIGNATURE: &str =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

const ED_JWK: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
const ED_SIGNATURE: &str =
    "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

fn bytes(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// The signature counts, and with any bit of it or of the message changed it does not.
fn checks(key: &VerifyingKey, message: &str, signature: &str) {
    let signature = bytes(signature);
    assert!(key.verifies(message.as_bytes(), &signature), "{key:?}");
    for at in [0, signature.len() / 2, signature.len() - 1] {
        let mut changed = signature.clone();
        changed[at] ^= 1;
        assert!(!key.verifies(message.as_bytes(), &changed), "{key:?}, byte {at}");
    }
    assert!(!key.verifies(message.replace('J', "K").as_bytes(), &signature));
    assert!(!key.verifies(message.as_bytes(), &[]));
    assert!(!key.verifies(message.as_bytes(), &signature[1..]));
    let longer: Vec<u8> = signature.iter().copied().chain([0]).collect();
    assert!(!key.verifies(message.as_bytes(), &longer));
}

#[test]
fn ac_05_rfc_7515_a_1_hmac() {
    let secret =
        bytes("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow");
    let message = format!("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{PAYLOAD}");
    checks(&VerifyingKey::secret(&secret).unwrap(), &message, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
}

#[test]
fn ac_05_rfc_7515_a_2_rsa() {
    let key = VerifyingKey::public(Algorithm::Rs256, RSA_JWK).unwrap();
    checks(&key, &format!("eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}"), RSA_SIGNATURE);
}

#[test]
fn ac_05_rfc_7515_a_3_ecdsa() {
    let key = VerifyingKey::public(Algorithm::Es256, EC_JWK).unwrap();
    checks(&key, &format!("eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}"), EC_SIGNATURE);
    // What CVE-2022-21449 let through: a signature of zeros.
    assert!(!key.verifies(PAYLOAD.as_bytes(), &[0; 64]));
}

#[test]
fn ac_05_rfc_8037_a_4_ed25519() {
    let key = VerifyingKey::public(Algorithm::EdDsa, ED_JWK).unwrap();
    checks(&key, "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc", ED_SIGNATURE);
}

#[test]
fn ac_05_a_key_serves_one_algorithm() {
    for (jwk, own) in [(RSA_JWK, Algorithm::Rs256), (EC_JWK, Algorithm::Es256), (ED_JWK, Algorithm::EdDsa)] {
        for algorithm in Algorithm::ALL {
            let read = VerifyingKey::public(algorithm, jwk);
            assert_eq!(read.is_ok(), algorithm == own, "{algorithm:?} {read:?}");
        }
    }
}

#[test]
fn ac_05_what_is_no_public_key_or_no_secret_is_refused_without_being_shown() {
    let small =
        RSA_JWK.replace(r#""n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddx"#, r#""n":""#);
    for (algorithm, text, said) in [
        (Algorithm::Rs256, small.as_str(), "2,048 bits"),
        (Algorithm::Es256, r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#, "P-256"),
        (Algorithm::Es256, r#"{"kty":"oct","k":"canary"}"#, "a secret part"),
        (
            Algorithm::EdDsa,
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"canary"}"#,
            "a secret part",
        ),
        (Algorithm::EdDsa, "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----", "a private key"),
        (Algorithm::EdDsa, "canary", "expected a public key in PEM"),
        (Algorithm::EdDsa, "{canary}", "no JWK"),
    ] {
        let refused = VerifyingKey::public(algorithm, text).unwrap_err();
        assert!(refused.contains(said) && !refused.contains("canary"), "{text}: {refused}");
    }
    let short = VerifyingKey::secret(b"canary").unwrap_err();
    assert!(short.contains("at least 32 bytes, found 6") && !short.contains("canary"), "{short}");
    let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";
    assert!(VerifyingKey::secret(pem.as_bytes()).unwrap_err().contains("everybody may know a public key"));
    let (pem, jwk) = [pem, ED_JWK].map(|text| VerifyingKey::public(Algorithm::EdDsa, text).unwrap()).into();
    assert!(pem.is(&jwk), "the same key in both forms");
}

/// A key pair of each kind, made for these tests alone.
#[test]
fn ac_05_what_a_private_key_signs_its_public_key_in_pem_verifies() {
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
        let signer =
            Signer::private(algorithm, private).unwrap_or_else(|error| panic!("{algorithm:?}: {error}"));
        let key = VerifyingKey::public(algorithm, public).unwrap();
        let signature = signer.sign(b"a message").unwrap();
        checks(&key, "a JWS", &URL_SAFE_NO_PAD.encode(signer.sign(b"a JWS").unwrap()));
        assert!(key.verifies(b"a message", &signature));
        for other in Algorithm::ALL.into_iter().filter(|other| *other != algorithm) {
            assert!(Signer::private(other, private).is_err(), "{algorithm:?} as {other:?}");
        }
        assert!(Signer::private(algorithm, public).is_err());
    }
}

/// Vectors that Wycheproof calls otherwise than RFC 7515 does. Two have a `?` within base64url and are called valid; two are
/// called invalid for a padding that the published file does not have.
const DISPUTED: [u64; 4] = [372, 373, 367, 370];

#[derive(Deserialize)]
struct Vectors {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    alg: String,
    key: serde_json::Value,
    tests: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    id: u64,
    valid: bool,
    jws: String,
}

#[test]
fn ac_05_wycheproof_finds_nothing() {
    let vectors: Vectors =
        serde_json::from_str(include_str!("../../../tests/vectors/wycheproof-jws.json")).unwrap();
    let mut checked = 0;
    for group in vectors.groups {
        let algorithm = Algorithm::ALL.into_iter().find(|known| known.as_str() == group.alg).unwrap();
        let key = match group.key["k"].as_str() {
            Some(secret) => VerifyingKey::secret(&bytes(secret)),
            None => VerifyingKey::public(algorithm, &group.key.to_string()),
        };
        let key = key.unwrap();
        for vector in group.tests.iter().filter(|vector| !DISPUTED.contains(&vector.id)) {
            let accepted = Signed::read(&vector.jws).is_ok_and(|signed| signed.is_by(&key));
            assert_eq!(accepted, vector.valid, "{} {}", vector.id, vector.jws);
            checked += 1;
        }
    }
    assert!(checked > 300, "only {checked} vectors were found");
}
