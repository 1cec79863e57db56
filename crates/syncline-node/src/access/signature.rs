//! The four algorithms of signed tokens, and the keys that check and make their signatures.
//!
//! A key belongs to one algorithm by its type. So what a token's header says can never make a public key serve as an HMAC
//! secret, and there is no way to say `none`. The cryptography is ring's.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents, UnparsedPublicKey,
};
use ring::{digest, hmac};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::Deserialize;

use super::der::{self, PublicKey};

/// Shortest HMAC secret: as long as the hash, which RFC 7518 demands.
const SECRET_MIN_BYTES: usize = 32;

/// Shortest RSA modulus that is accepted: 2,048 bits.
const MODULUS_MIN_BYTES: usize = 256;
const MODULUS_MAX_BYTES: usize = 1_024;

/// What two secrets sign to find out whether they are one. It is no token: those have dots.
const SAME_KEY: &[u8] = b"the same secret";

/// How the tokens of an issuer are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256: one secret on both sides.
    Hs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// RSA (PKCS #1 v1.5) with SHA-256.
    Rs256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 4] = [Algorithm::Hs256, Algorithm::Es256, Algorithm::Rs256, Algorithm::EdDsa];

    /// Its name in the header of a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Hs256 => "HS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Rs256 => "RS256",
            Algorithm::EdDsa => "EdDSA",
        }
    }
}

/// A key that checks signatures.
#[derive(Clone)]
pub struct VerifyingKey(Material);

#[derive(Clone)]
enum Material {
    Hmac(hmac::Key),
    /// An uncompressed point.
    P256([u8; 65]),
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    Ed25519([u8; 32]),
}

impl VerifyingKey {
    /// A secret that both sides have. What is wrong with it is said without it.
    pub fn secret(secret: &[u8]) -> Result<VerifyingKey, String> {
        if secret.len() < SECRET_MIN_BYTES {
            return Err(format!(
                "a secret for HS256 has at least {SECRET_MIN_BYTES} bytes, found {}: make one with `openssl rand -hex 32`",
                secret.len()
            ));
        }
        if secret.windows(10).any(|window| window == b"-----BEGIN") {
            return Err("this is a key in PEM, not a secret: everybody may know a public key; \
                        write it as public_key, with alg = ES256, RS256 or EdDSA"
                .to_owned());
        }
        Ok(VerifyingKey(Material::Hmac(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    /// A public key for `algorithm`, in PEM or as a JWK.
    pub fn public(algorithm: Algorithm, text: &str) -> Result<VerifyingKey, String> {
        let text = text.trim();
        if text.contains("PRIVATE KEY-----") {
            return Err("this is a private key: it stays with the issuer; write the public one".to_owned());
        }
        let key = if text.starts_with('{') {
            let jwk: Jwk = serde_json::from_str(text).map_err(|error| format!("this is no JWK: {error}"))?;
            if jwk.d.is_some() || jwk.k.is_some() {
                return Err("this JWK holds a secret part: write the public key alone".to_owned());
            }
            jwk.key()
        } else {
            let info = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes());
            let info = info.map_err(|_| {
                "expected a public key in PEM, which begins with -----BEGIN PUBLIC KEY-----, or a JWK"
                    .to_owned()
            })?;
            der::public_key(&info).and_then(VerifyingKey::of)
        };
        let what = match algorithm {
            Algorithm::Hs256 => return Err("HS256 has a secret and no public key".to_owned()),
            Algorithm::Es256 => "a key on the curve P-256",
            Algorithm::Rs256 => "an RSA key of 2,048 bits or more",
            Algorithm::EdDsa => "an Ed25519 key",
        };
        let fits = key.filter(|key| key.algorithm() == algorithm);
        fits.ok_or_else(|| format!("{} needs {what}, and this is another one", algorithm.as_str()))
    }

    fn of(key: PublicKey<'_>) -> Option<VerifyingKey> {
        let material = match key {
            PublicKey::Rsa { n, e } => {
                let n = &n[n.iter().take_while(|byte| **byte == 0).count()..];
                let fits = (MODULUS_MIN_BYTES..=MODULUS_MAX_BYTES).contains(&n.len()) && !e.is_empty();
                Material::Rsa(fits.then(|| RsaPublicKeyComponents { n: n.to_vec(), e: e.to_vec() })?)
            }
            PublicKey::P256(point) => {
                Material::P256(point.try_into().ok().filter(|point: &[u8; 65]| point[0] == 4)?)
            }
            PublicKey::Ed25519(point) => Material::Ed25519(point.try_into().ok()?),
        };
        Some(VerifyingKey(material))
    }

    /// What it is for.
    pub fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Material::Hmac(_) => Algorithm::Hs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Rsa(_) => Algorithm::Rs256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether `signature` is this key's under `message`.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match &self.0 {
            Material::Hmac(key) => hmac::verify(key, message, signature),
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Material::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Material::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
        };
        checked.is_ok()
    }

    /// The signer with the same secret; only HMAC has one.
    pub(super) fn signer(&self) -> Option<Signer> {
        match &self.0 {
            Material::Hmac(key) => Some(Signer(Private::Hmac(key.clone()))),
            _ => None,
        }
    }

    /// Whether both are the same key. A secret cannot be read back, so it is compared by what it signs.
    pub(super) fn is(&self, other: &VerifyingKey) -> bool {
        match (&self.0, &other.0) {
            (Material::Hmac(a), Material::Hmac(b)) => {
                let tag = hmac::sign(a, SAME_KEY);
                hmac::verify(b, SAME_KEY, tag.as_ref()).is_ok()
            }
            (Material::P256(a), Material::P256(b)) => a == b,
            (Material::Rsa(a), Material::Rsa(b)) => a.n == b.n && a.e == b.e,
            (Material::Ed25519(a), Material::Ed25519(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key for {}", self.algorithm().as_str())
    }
}

/// A key as identity providers publish it (RFC 7517). What is not ours to read is left out.
#[derive(Deserialize)]
pub(super) struct Jwk {
    kty: String,
    pub(super) kid: Option<String>,
    pub(super) alg: Option<String>,
    #[serde(rename = "use")]
    pub(super) purpose: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    /// The private half of a pair, and the secret of a symmetric key: a published list has neither.
    d: Option<serde::de::IgnoredAny>,
    k: Option<serde::de::IgnoredAny>,
}

impl Jwk {
    /// The public key, if it is one of ours.
    pub(super) fn key(&self) -> Option<VerifyingKey> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => VerifyingKey::of(PublicKey::Rsa { n: &bytes(&self.n)?, e: &bytes(&self.e)? }),
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&self.x)?, bytes(&self.y)?);
                (x.len() == 32)
                    .then(|| [&[4], &x[..], &y[..]].concat())
                    .and_then(|point| VerifyingKey::of(PublicKey::P256(&point)))
            }
            ("OKP", Some("Ed25519")) => VerifyingKey::of(PublicKey::Ed25519(&bytes(&self.x)?)),
            _ => None,
        }
    }
}

/// A key that makes signatures, for `syncline token mint` and tests.
pub struct Signer(Private);

enum Private {
    Hmac(hmac::Key),
    P256(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    /// A private key in PEM (PKCS #8).
    pub fn private(algorithm: Algorithm, pem: &str) -> Result<Signer, String> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            "expected a private key in PEM, which begins with -----BEGIN PRIVATE KEY-----; \
             `openssl pkcs8 -topk8 -nocrypt` makes one of an older form"
                .to_owned()
        })?;
        let der = der.secret_pkcs8_der();
        let pair = match algorithm {
            Algorithm::Hs256 => None,
            Algorithm::Es256 => {
                let pair =
                    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new());
                pair.ok().map(Private::P256)
            }
            Algorithm::Rs256 => RsaKeyPair::from_pkcs8(der).ok().map(|pair| Private::Rsa(Box::new(pair))),
            Algorithm::EdDsa => Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Private::Ed25519),
        };
        pair.map(Signer).ok_or_else(|| format!("this private key is none for {}", algorithm.as_str()))
    }

    /// The signature under `message`.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ring::error::Unspecified> {
        match &self.0 {
            Private::Hmac(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            Private::P256(pair) => Ok(pair.sign(&SystemRandom::new(), message)?.as_ref().to_vec()),
            Private::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Private::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)?;
                Ok(signature)
            }
        }
    }
}

/// SHA-256, for the places of grants that want a claim's hash.
pub(super) fn sha256(value: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, value).as_ref());
    hash
}

#[cfg(test)]
mod tests;
