//! Static keys of boxes, dashboards and servers, and publishable ones for pages without a back end.
//!
//! A key is 256 random bits behind a prefix that scanners of leaked secrets and the browser package recognise. It is shown
//! once; the configuration has its SHA-256. That needs no slow hash: nobody guesses 256 random bits. A publishable key is in
//! every visitor's hands, so it may do harmless things alone, and pages of its listed origins alone may show it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use syncline_core::access::quota::Quota;
use syncline_core::access::{Grant, Grants};
use syncline_core::outbox::SenderId;

use super::QuotaSettings;
use crate::config::{print_quotas, setting};
use crate::secret::Secret;

const SECRET_PREFIX: &str = "slk_";
const PUBLISHABLE_PREFIX: &str = "slp_";

/// Longest name of a key or an issuer.
const NAME_MAX_BYTES: usize = 64;

/// The prefix, and 43 letters for 256 bits.
const KEY_BYTES: usize = 47;

/// What a publishable key may do: look, and add what others can remove.
const HARMLESS: [&str; 5] = ["read", "see", "beat", "add", "count"];
/// Where even looking is no stranger's business.
const NEVER_PUBLIC: [&str; 2] = ["kv", "ingest"];

/// One of `[[keys]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// Its name, under which it acts.
    pub name: String,
    /// The hash of the key.
    pub hash: KeyHash,
    /// What it may do.
    pub may: Grants,
    /// Whether it is publishable.
    pub public: bool,
    /// Origins of other sites whose pages may show it.
    pub origins: Vec<String>,
    /// What it may use.
    pub quota: QuotaSettings,
    /// The sender in whose name its batches come, where that is not its own name.
    pub sender: Option<SenderId>,
}

impl KeySettings {
    /// What a key may use unless somebody says otherwise. Everybody can show a publishable one, so each address has a share.
    pub fn usual_quota(public: bool) -> QuotaSettings {
        let own = if public { Quota::USUAL } else { Quota::NONE };
        QuotaSettings { own, tenant: Quota::NONE }
    }
}

impl fmt::Display for KeySettings {
    /// The table of the configuration that makes it known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[[keys]]")?;
        setting(f, "name", self.name.as_str())?;
        setting(f, "hash", self.hash.to_string())?;
        setting(f, "may", self.may.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        if self.public {
            setting(f, "public", true)?;
        }
        if !self.origins.is_empty() {
            setting(f, "origins", self.origins.clone())?;
        }
        if let Some(sender) = &self.sender {
            setting(f, "sender", sender.as_str())?;
        }
        print_quotas(f, "keys", self.quota, KeySettings::usual_quota(self.public))
    }
}

/// Checks the name of a key or an issuer.
pub fn check_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins || text.len() > NAME_MAX_BYTES || !text.chars().all(fits) {
        return Err(format!(
            "a name has 1 to {NAME_MAX_BYTES} letters, digits, dots, underscores or dashes, \
             the first a letter or digit, found {text:?}"
        ));
    }
    if text == "owner" {
        return Err("\"owner\" is taken: keys and issuers have names of their own".to_owned());
    }
    Ok(text.to_owned())
}

/// The SHA-256 of a key, written `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub(crate) [u8; 32]);

impl KeyHash {
    /// The hash of what was presented.
    pub fn of(presented: &[u8]) -> KeyHash {
        KeyHash(Sha256::digest(presented).into())
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for KeyHash {
    type Err = String;

    /// The text is not repeated: it may be the key itself, put where its hash belongs.
    fn from_str(text: &str) -> Result<KeyHash, String> {
        let expected =
            || "expected sha256: and 64 hexadecimal digits, as `syncline key add` prints them".to_owned();
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii());
        let digits = digits.ok_or_else(expected)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| expected())?;
            // A sign would be read as a number, too.
            let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(pair, 16).ok().filter(|_| is_hex).ok_or_else(expected)?;
        }
        Ok(KeyHash(hash))
    }
}

/// Makes a key that nobody has. It is known from now on by its hash alone.
pub fn new_key(public: bool) -> (Secret, KeyHash) {
    let random = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
    let key = format!("{}{random}", prefix(public));
    let hash = KeyHash::of(key.as_bytes());
    (Secret::new(key), hash)
}

/// Whether `bearer` looks like a key, and then whether like a publishable one.
pub(super) fn shape(bearer: &[u8]) -> Option<bool> {
    let is = |public| bearer.len() == KEY_BYTES && bearer.starts_with(prefix(public).as_bytes());
    [true, false].into_iter().find(|public| is(*public))
}

fn prefix(public: bool) -> &'static str {
    if public { PUBLISHABLE_PREFIX } else { SECRET_PREFIX }
}

/// Refuses a grant that no publishable key may have, and says why.
pub fn check_harmless(grant: &Grant) -> Result<(), String> {
    if NEVER_PUBLIC.contains(&grant.system()) {
        return Err(format!(
            "a publishable key may have nothing of {}: everybody could use it",
            grant.system()
        ));
    }
    match grant.verbs().find(|verb| !HARMLESS.contains(verb)) {
        None => Ok(()),
        Some(verb) => {
            Err(format!("a publishable key may not have the verb {verb}, only {}", HARMLESS.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ac_04_a_key_is_256_random_bits_behind_a_prefix() {
        let (secret, hash) = new_key(false);
        let (public, other) = new_key(true);
        assert!(secret.expose().starts_with("slk_") && secret.expose().len() == KEY_BYTES);
        assert!(public.expose().starts_with("slp_") && public.expose().len() == KEY_BYTES);
        assert_eq!(shape(secret.expose().as_bytes()), Some(false));
        assert_eq!(shape(public.expose().as_bytes()), Some(true));
        assert_eq!(shape(b"slk_short"), None);
        assert_eq!(hash, KeyHash::of(secret.expose().as_bytes()));
        assert_ne!(hash, other);
        let again: Vec<String> = (0..100).map(|_| new_key(false).0.expose().to_owned()).collect();
        let distinct: std::collections::HashSet<&String> = again.iter().collect();
        assert_eq!(distinct.len(), 100);
    }

    #[test]
    fn ac_04_a_hash_is_read_as_it_is_written_and_a_key_in_its_place_is_not_repeated() {
        let hash = KeyHash::of(b"");
        let written = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash.to_string(), written);
        assert_eq!(written.parse(), Ok(hash));
        let (secret, _) = new_key(false);
        for wrong in
            [secret.expose(), "", "sha256:", &written[..70], &written.replace("e3", "+3"), &"日".repeat(30)]
        {
            let said = wrong.parse::<KeyHash>().unwrap_err();
            assert!(said.contains("syncline key add") && !said.contains("slk_"), "{said}");
        }
    }

    #[test]
    fn ac_04_a_publishable_key_may_do_harmless_things_alone() {
        for harmless in ["state:menu:read", "lock:*:see", "viewer:shop:beat,count", "queue:covers:add,read"] {
            assert_eq!(check_harmless(&harmless.parse().unwrap()), Ok(()), "{harmless}");
        }
        for (harmful, said) in [
            ("state:menu:read,write", "the verb write"),
            ("state:menu:reset", "the verb reset"),
            ("lock:doc:hold", "the verb hold"),
            ("job:nightly:run", "the verb run"),
            ("node:*:metrics", "the verb metrics"),
            ("kv:*:read", "nothing of kv"),
            ("ingest:box-7:send", "nothing of ingest"),
        ] {
            let refused = check_harmless(&harmful.parse().unwrap()).unwrap_err();
            assert!(refused.contains(said), "{harmful}: {refused}");
        }
    }
}
