//! Who else may call: the tables `[[keys]]` and `[[issuers]]`.
//!
//! Files of secrets and public keys are read here, so that a key that cannot be read or used is a problem of the
//! configuration, with its place. No message repeats a secret.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use syncline_core::access::quota::Quota;
use syncline_core::access::{Ceiling, GRANTS_MAX, Grant, GrantTemplate};
use syncline_core::outbox::{Moment, SenderId};
use syncline_core::time::Timestamp;
use url::Host;

use super::print::setting;
use super::read_bounded;
use super::reader::{Found, Section};
use super::settings::{base_url, checked, origin};
use crate::access::{
    Algorithm, CredentialSettings, IssuerKey, IssuerSettings, KEYS_MAX, KeyHash, KeySettings, KeySource,
    QuotaSettings, VerifyingKey, Vocabulary, Written, check_harmless, check_name,
};
use crate::secret::{REDACTED, Secret};

/// Longest `iss`, `aud` and `kid`.
const CLAIM_MAX_BYTES: usize = 255;

/// How long a token counts after it was issued: unless told otherwise, and at most.
const MAX_AGE_DEFAULT_SEC: u64 = 24 * 3_600;
const MAX_AGE_MAX_SEC: u64 = 30 * 24 * 3_600;

/// The greatest quota, and the greatest of bytes.
const QUOTA_MAX: u64 = 1_000_000;
const QUOTA_BYTES_MAX: u64 = 1 << 40;

/// Reads both tables. Names are unique over both: a log line that has one means one.
pub(super) fn read(keys: &[Section<'_>], issuers: &[Section<'_>], words: &Vocabulary) -> CredentialSettings {
    let mut names = Names::default();
    let mut hashes: HashMap<KeyHash, String> = HashMap::new();
    let mut read = CredentialSettings::default();
    for section in keys {
        let Some(key) = read_key(section, &mut names, words) else { continue };
        let sends_as =
            |key: &KeySettings| key.sender.as_ref().map_or(key.name.clone(), |id| id.as_str().to_owned());
        let same_sender = |other: &&KeySettings| sends_as(other) == sends_as(&key);
        if let Some(other) = read.keys.iter().find(same_sender) {
            section.forbid(
                "sender",
                &format!("{:?} sends in this name: each would end the other's changes", other.name),
            );
        }
        if let Some(other) = hashes.insert(key.hash, key.name.clone()) {
            section.forbid(
                "hash",
                &format!("this is the key of {other:?}: make another with `syncline key add`"),
            );
        }
        read.keys.push(key);
    }
    for section in issuers {
        let Some(issuer) = read_issuer(section, &mut names, words) else { continue };
        if let Some(other) = read.issuers.iter().find(|other| other.issuer == issuer.issuer) {
            section.forbid(
                "issuer",
                &format!("{:?} has the same: a token could not tell them apart", other.name),
            );
        }
        read.issuers.push(issuer);
    }
    read
}

fn read_key(section: &Section<'_>, names: &mut Names, words: &Vocabulary) -> Option<KeySettings> {
    let name = names.take(section);
    let hash = required(section, "hash", "the hash that `syncline key add` prints", str::parse);
    let public = section.boolean("public").unwrap_or(false);
    let origins = origins(section);
    let granted = granted(section);
    let may = checked(section, &granted, |text| {
        let grant: Grant = text.parse().map_err(|error| format!("{error}"))?;
        words.check(grant.system(), grant.verbs())?;
        if public {
            check_harmless(&grant)?;
        }
        Ok(grant)
    });
    if public && section.kind("origins").is_none() {
        section.missing("origins", "the origins whose pages may show a publishable key");
    } else if public && origins.is_empty() {
        section
            .forbid("origins", "a publishable key needs at least one origin, such as https://site.example");
    }
    let quota = quotas(section, KeySettings::usual_quota(public));
    let sender = section.text("sender").and_then(|found| {
        checked(section, &[found], |text| SenderId::new(text).map_err(|wrong| wrong.to_string())).pop()
    });
    section.finish();
    let may = may.into_iter().collect();
    Some(KeySettings { name: name?, hash: hash?, may, public, origins, quota, sender })
}

fn read_issuer(section: &Section<'_>, names: &mut Names, words: &Vocabulary) -> Option<IssuerSettings> {
    let name = names.take(section);
    let issuer = required(section, "issuer", "the iss of its tokens, such as https://shop.example", claim);
    let audience =
        required(section, "audience", "the aud of its tokens, such as https://node.example", claim);
    let algorithm = match section.text("alg") {
        None => Some(Algorithm::Hs256),
        Some(found) => {
            let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == found.value);
            if known.is_none() {
                section.unknown_word(&found, &Algorithm::ALL.map(Algorithm::as_str));
            }
            known
        }
    };
    let listed = section.sections("keys");
    let address = section.text("jwks_url");
    let keys = match (listed, address) {
        (Some(_), Some(_)) => {
            section.forbid("jwks_url", "an issuer has keys or a jwks_url, not both");
            None
        }
        (None, None) => {
            section.missing("keys", "keys = [{ kid = …, secret_file = … }], or jwks_url");
            None
        }
        (Some(listed), None) => algorithm.and_then(|algorithm| read_keys(section, &listed, algorithm)),
        (None, Some(found)) => read_address(section, &found, algorithm),
    };
    let max_age = section.integer("max_age_sec", 60..=MAX_AGE_MAX_SEC).unwrap_or(MAX_AGE_DEFAULT_SEC);
    let origins = origins(section);
    let granted = granted(section);
    let may = checked(section, &granted, |text| {
        let template: GrantTemplate = text.parse().map_err(|error| format!("{error}"))?;
        words.check(template.system(), template.verbs())?;
        Ok(template)
    });
    let may: Ceiling = may.into_iter().collect();
    let tenant = section.text("tenant").and_then(|found| checked(section, &[found], claim).pop());
    let quota = quotas(section, IssuerSettings::USUAL_QUOTA);
    section.finish();
    Some(IssuerSettings {
        name: name?,
        issuer: issuer?,
        audience: audience?,
        algorithm: algorithm?,
        keys: keys?,
        origins,
        max_age: Duration::from_secs(max_age),
        may,
        tenant,
        quota,
    })
}

fn read_address(
    section: &Section<'_>,
    found: &Found<&str>,
    algorithm: Option<Algorithm>,
) -> Option<KeySource> {
    let url = base_url(found.value).and_then(|url| {
        let loopback = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        let safe = url.scheme() == "https" || loopback;
        if safe {
            Ok(url)
        } else {
            Err("expected https: whoever changes this answer signs tokens".to_owned())
        }
    });
    if algorithm == Some(Algorithm::Hs256) {
        section.wrong(
            found,
            "a published key is no secret: write alg = \"ES256\", \"RS256\" or \"EdDSA\"".to_owned(),
        );
        return None;
    }
    match url {
        Ok(url) => Some(KeySource::Published(url)),
        Err(what) => {
            section.wrong(found, what);
            None
        }
    }
}

fn read_keys(issuer: &Section<'_>, listed: &[Section<'_>], algorithm: Algorithm) -> Option<KeySource> {
    if listed.is_empty() || listed.len() > KEYS_MAX {
        issuer.forbid("keys", &format!("an issuer has 1 to {KEYS_MAX} keys, found {}", listed.len()));
        return None;
    }
    let mut keys: Vec<IssuerKey> = Vec::new();
    for section in listed {
        let kid = section.text("kid").and_then(|found| checked(section, &[found], claim).pop());
        if kid.is_some() && keys.iter().any(|other| other.kid == kid) {
            section
                .forbid("kid", "another key of this issuer has the same: a token could not tell them apart");
        }
        let until = section.text("until").and_then(|found| checked(section, &[found], moment).pop());
        let key = read_key_material(section, algorithm);
        section.finish();
        if let Some((key, written)) = key {
            keys.push(IssuerKey { kid, key, until, written });
        }
    }
    (keys.len() == listed.len()).then_some(KeySource::Listed(keys))
}

/// The one of four ways in which a key is written.
fn read_key_material(section: &Section<'_>, algorithm: Algorithm) -> Option<(VerifyingKey, Written)> {
    const SECRETS: [&str; 2] = ["secret", "secret_file"];
    const PUBLIC: [&str; 2] = ["public_key", "public_key_file"];
    let (ways, others, what) = match algorithm {
        Algorithm::Hs256 => (SECRETS, PUBLIC, "secret or secret_file, as alg is HS256"),
        _ => (PUBLIC, SECRETS, "public_key or public_key_file: alg is not HS256"),
    };
    let [inline, file] = ways.map(|way| section.text(way));
    for other in others.into_iter().filter(|other| section.kind(other).is_some()) {
        section.forbid(other, &format!("expected {what}"));
    }
    let (found, text, written) = match (inline, file) {
        (Some(_), Some(file)) => {
            section.wrong(&file, format!("expected one of {} and {}, found both", ways[0], ways[1]));
            return None;
        }
        (None, None) => {
            if !others.iter().any(|other| section.kind(other).is_some()) {
                section.missing(ways[0], what);
            }
            return None;
        }
        (Some(found), None) => {
            let text = found.value.to_owned();
            let written = match algorithm {
                Algorithm::Hs256 => Written::Secret(Secret::new(found.value)),
                _ => Written::PublicKey(text.clone()),
            };
            (found, text, written)
        }
        (None, Some(found)) => {
            let path = PathBuf::from(found.value);
            let text = match read_bounded(&path) {
                Ok(text) => text.trim_end_matches(['\r', '\n']).to_owned(),
                Err(error) => {
                    section.wrong(&found, format!("cannot read {}: {error}", path.display()));
                    return None;
                }
            };
            let written = match algorithm {
                Algorithm::Hs256 => Written::SecretFile(path, Secret::new(text.as_str())),
                _ => Written::PublicKeyFile(path),
            };
            (found, text, written)
        }
    };
    let key = match algorithm {
        Algorithm::Hs256 => VerifyingKey::secret(text.as_bytes()),
        _ => VerifyingKey::public(algorithm, &text),
    };
    key.map(|key| (key, written)).map_err(|what| section.wrong(&found, what)).ok()
}

/// Names that were given so far.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    /// The name of a table, if nobody else has it.
    fn take(&mut self, section: &Section<'_>) -> Option<String> {
        let taken = &self.0;
        let name = required(section, "name", "a name, such as box-7", |text| {
            let name = check_name(text)?;
            if taken.contains(&name) {
                return Err(format!("{text:?} is taken: keys and issuers have names of their own"));
            }
            Ok(name)
        })?;
        self.0.push(name.clone());
        Some(name)
    }
}

/// A text that has to be there.
fn required<T>(
    section: &Section<'_>,
    key: &'static str,
    expected: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    match section.text(key) {
        Some(found) => checked(section, &[found], parse).pop(),
        None => {
            section.missing(key, expected);
            None
        }
    }
}

/// The grants as they are written.
fn granted<'a>(section: &Section<'a>) -> Vec<Found<&'a str>> {
    let granted = section.texts("may");
    if granted.is_none() {
        section.missing("may", "a list of grants, such as [\"state:cart-7:read,write\"]");
    }
    let granted = granted.unwrap_or_default();
    if granted.len() > GRANTS_MAX {
        section.forbid("may", &format!("at most {GRANTS_MAX} grants, found {}", granted.len()));
    }
    granted
}

fn origins(section: &Section<'_>) -> Vec<String> {
    checked(section, &section.texts("origins").unwrap_or_default(), origin)
}

fn claim(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > CLAIM_MAX_BYTES || text.chars().any(char::is_control) {
        return Err(format!("expected 1 to {CLAIM_MAX_BYTES} bytes without control characters"));
    }
    Ok(text.to_owned())
}

/// A day, which begins in UTC, or a moment with its time zone.
fn moment(text: &str) -> Result<Timestamp, String> {
    let day = format!("{text}T00:00:00Z");
    let read = text.parse::<Moment>().or_else(|_| day.parse()).ok();
    let ms = read.and_then(|moment| u64::try_from(moment.as_us() / 1_000).ok());
    ms.map(Timestamp::from_ms).ok_or_else(|| {
        format!("expected a day such as 2026-11-01 or a moment such as 2026-11-01T06:00:00Z, found {text:?}")
    })
}

/// What callers may use: `quota` of each, `tenant_quota` of all of a tenant.
fn quotas(section: &Section<'_>, usual: QuotaSettings) -> QuotaSettings {
    let own = quota(&section.section("quota"), usual.own);
    let tenant = quota(&section.section("tenant_quota"), usual.tenant);
    QuotaSettings { own, tenant }
}

/// Each setting of a quota, 0 for no limit.
fn quota(section: &Section<'_>, usual: Quota) -> Quota {
    let most = |key, usual: Option<u32>| match section.integer(key, 0..=QUOTA_MAX) {
        None => usual,
        Some(0) => None,
        Some(most) => u32::try_from(most).ok(),
    };
    let space_bytes = match section.integer("space_bytes", 0..=QUOTA_BYTES_MAX) {
        None => usual.space_bytes,
        Some(0) => None,
        most => most,
    };
    let read = Quota {
        requests_per_sec: most("requests_per_sec", usual.requests_per_sec),
        writes_per_sec: most("writes_per_sec", usual.writes_per_sec),
        adds_per_min: most("adds_per_min", usual.adds_per_min),
        streams: most("streams", usual.streams),
        locks: most("locks", usual.locks),
        spaces: most("spaces", usual.spaces),
        space_bytes,
    };
    section.finish();
    read
}

/// Writes quotas that differ from what is usual, as tables beneath `[[table]]`.
pub(crate) fn print_quotas(
    f: &mut fmt::Formatter<'_>,
    table: &str,
    quotas: QuotaSettings,
    usual: QuotaSettings,
) -> fmt::Result {
    let both = [("quota", quotas.own, usual.own), ("tenant_quota", quotas.tenant, usual.tenant)];
    for (name, quota, _) in both.into_iter().filter(|(_, quota, usual)| quota != usual) {
        writeln!(f, "[{table}.{name}]")?;
        let whole = |most: Option<u32>| i64::from(most.unwrap_or(0));
        setting(f, "requests_per_sec", whole(quota.requests_per_sec))?;
        setting(f, "writes_per_sec", whole(quota.writes_per_sec))?;
        setting(f, "adds_per_min", whole(quota.adds_per_min))?;
        setting(f, "streams", whole(quota.streams))?;
        setting(f, "locks", whole(quota.locks))?;
        setting(f, "spaces", whole(quota.spaces))?;
        let bytes = quota.space_bytes.unwrap_or(0);
        setting(f, "space_bytes", i64::try_from(bytes).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

/// Writes both tables.
pub(super) fn print(f: &mut fmt::Formatter<'_>, credentials: &CredentialSettings) -> fmt::Result {
    for key in &credentials.keys {
        write!(f, "\n{key}")?;
    }
    for issuer in &credentials.issuers {
        writeln!(f, "\n[[issuers]]")?;
        setting(f, "name", issuer.name.as_str())?;
        setting(f, "issuer", issuer.issuer.as_str())?;
        setting(f, "audience", issuer.audience.as_str())?;
        setting(f, "alg", issuer.algorithm.as_str())?;
        match &issuer.keys {
            KeySource::Published(url) => setting(f, "jwks_url", url.as_str())?,
            KeySource::Listed(keys) => {
                setting(f, "keys", keys.iter().map(printed).collect::<Vec<toml::Value>>())?;
            }
        }
        setting(f, "max_age_sec", issuer.max_age.as_secs() as i64)?;
        setting(f, "origins", issuer.origins.clone())?;
        setting(f, "may", issuer.may.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        if let Some(tenant) = &issuer.tenant {
            setting(f, "tenant", tenant.as_str())?;
        }
        print_quotas(f, "issuers", issuer.quota, IssuerSettings::USUAL_QUOTA)?;
    }
    Ok(())
}

fn printed(key: &IssuerKey) -> toml::Value {
    let mut table = toml::Table::new();
    let mut put = |key: &str, value: String| drop(table.insert(key.to_owned(), value.into()));
    if let Some(kid) = &key.kid {
        put("kid", kid.clone());
    }
    match &key.written {
        Written::Secret(_) => put("secret", REDACTED.to_owned()),
        Written::SecretFile(path, _) => put("secret_file", path.display().to_string()),
        Written::PublicKey(text) => put("public_key", text.clone()),
        Written::PublicKeyFile(path) => put("public_key_file", path.display().to_string()),
        Written::Published => {}
    }
    if let Some(until) = key.until {
        let us = i64::try_from(until.as_ms().saturating_mul(1_000)).unwrap_or(i64::MAX);
        put("until", Moment::from_us(us).to_string());
    }
    table.into()
}
