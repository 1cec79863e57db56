//! What an issuer may give: grants with places that the claims of a token fill.
//!
//! `state:cart-{sub}:read` becomes `state:cart-7:read` for the subject `7`. A value is taken only if it cannot be mistaken for
//! anything but one value in its place: it is made of characters that every name may have, and the character behind its place
//! is not among them. `{sub#}` stands for the value's SHA-256 in 26 letters, for subjects such as `auth0|7`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{GRANT_MAX_BYTES, Grant, Grants, InvalidGrant};

/// Letters of a hashed value: 130 bits, in which nobody finds two values that meet.
const HASH_LETTERS: usize = 26;
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A grant with places for claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantTemplate {
    system: String,
    name: Vec<Piece>,
    is_prefix: bool,
    verbs: Vec<String>,
}

/// A piece of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Claim(String),
    Hash(String),
}

impl GrantTemplate {
    /// The system, as in `state`.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.system
    }

    /// What may be done.
    pub fn verbs(&self) -> impl Iterator<Item = &str> {
        self.verbs.iter().map(String::as_str)
    }

    /// The grant for one token, or `None` if the token lacks a claim or a value does not fit. `claim` answers with a claim's
    /// text, `sha256` with the hash of a value.
    pub fn fill<'c>(
        &self,
        claim: impl Fn(&str) -> Option<&'c str>,
        sha256: impl Fn(&[u8]) -> [u8; 32],
    ) -> Option<Grant> {
        let mut name = String::new();
        for (at, piece) in self.name.iter().enumerate() {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Claim(of) => {
                    let value = claim(of).filter(|value| fits(value))?;
                    if self.follower(at).is_some_and(|next| value.contains(next)) {
                        return None;
                    }
                    name.push_str(value);
                }
                Piece::Hash(of) => {
                    let value = claim(of).filter(|value| !value.is_empty())?;
                    name.push_str(&base32(&sha256(value.as_bytes())));
                }
            }
        }
        let grant =
            Grant { system: self.system.clone(), name, is_prefix: self.is_prefix, verbs: self.verbs.clone() };
        (grant.to_string().len() <= GRANT_MAX_BYTES).then_some(grant)
    }

    /// The grant itself, if it has no place for a claim.
    pub(super) fn into_grant(self) -> Result<Grant, InvalidGrant> {
        let mut name = String::new();
        for piece in &self.name {
            match piece {
                Piece::Text(text) => name.push_str(text),
                place => return Err(InvalidGrant::Unfilled { place: place.to_string() }),
            }
        }
        Ok(Grant { system: self.system, name, is_prefix: self.is_prefix, verbs: self.verbs })
    }

    /// The character behind the piece at `at`: texts are never empty, and a claim is followed by a text or by nothing.
    fn follower(&self, at: usize) -> Option<char> {
        match self.name.get(at + 1) {
            Some(Piece::Text(text)) => text.chars().next(),
            _ => None,
        }
    }

    /// Each claim with the character behind it.
    fn followers(&self) -> impl Iterator<Item = (&str, char)> {
        self.name.iter().enumerate().filter_map(|(at, piece)| match piece {
            Piece::Claim(of) => Some((of.as_str(), self.follower(at)?)),
            Piece::Text(_) | Piece::Hash(_) => None,
        })
    }
}

impl FromStr for GrantTemplate {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<GrantTemplate, InvalidGrant> {
        if text.len() > GRANT_MAX_BYTES {
            return Err(InvalidGrant::TooLong { bytes: text.len() });
        }
        let parts = text.split_once(':').and_then(|(system, rest)| Some((system, rest.rsplit_once(':')?)));
        let Some((system, (name, verbs))) = parts else {
            return Err(InvalidGrant::NotThreeParts(text.to_owned()));
        };
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !system.starts_with(|c: char| c.is_ascii_lowercase()) || !system.chars().all(word) {
            return Err(InvalidGrant::System(system.to_owned()));
        }
        let mut known: Vec<String> = Vec::new();
        for verb in verbs.split(',') {
            if verb.is_empty() || !verb.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
                return Err(InvalidGrant::Verb(verbs.to_owned()));
            }
            if !known.iter().any(|seen| seen == verb) {
                known.push(verb.to_owned());
            }
        }
        let (name, is_prefix) = read_name(name)?;
        Ok(GrantTemplate { system: system.to_owned(), name, is_prefix, verbs: known })
    }
}

/// The pieces of a name, and whether a star ends it.
fn read_name(text: &str) -> Result<(Vec<Piece>, bool), InvalidGrant> {
    if text.is_empty() {
        return Err(InvalidGrant::NoName);
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidGrant::Control(text.to_owned()));
    }
    let (stem, is_prefix) = text.strip_suffix('*').map_or((text, false), |stem| (stem, true));
    if stem.contains('*') {
        return Err(InvalidGrant::Star(text.to_owned()));
    }
    let wrong = || InvalidGrant::Place(text.to_owned());
    let (mut pieces, mut rest) = (Vec::new(), stem);
    while !rest.is_empty() {
        if let Some(opened) = rest.strip_prefix('{') {
            let (place, behind) = opened.split_once('}').ok_or_else(wrong)?;
            let (claim, is_hash) = place.strip_suffix('#').map_or((place, false), |claim| (claim, true));
            let letter = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
            if claim.is_empty() || !claim.chars().all(letter) {
                return Err(wrong());
            }
            pieces.push(if is_hash { Piece::Hash(claim.to_owned()) } else { Piece::Claim(claim.to_owned()) });
            rest = behind;
        } else {
            let end = rest.find(['{', '}']).unwrap_or(rest.len());
            let (literal, behind) = rest.split_at(end);
            if literal.is_empty() {
                return Err(wrong());
            }
            pieces.push(Piece::Text(literal.to_owned()));
            rest = behind;
        }
    }
    // A hash has one length, so it ends by itself. A value ends with the name, or where a character stands that it has not.
    for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| matches!(piece, Piece::Claim(_))) {
        let ends = match pieces.get(at + 1) {
            None => !is_prefix,
            Some(next) => matches!(next, Piece::Text(_)),
        };
        if !ends {
            return Err(InvalidGrant::Open { place: piece.to_string() });
        }
    }
    Ok((pieces, is_prefix))
}

/// Whether a value may stand in a name: every system's names may have these characters and nothing else is among them.
fn fits(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte))
}

/// The first 130 bits as letters and digits that names may have, whatever their case means.
fn base32(hash: &[u8; 32]) -> String {
    let letter = |at: usize| {
        let (byte, shift) = (at * 5 / 8, at * 5 % 8);
        let pair = u16::from_be_bytes([hash[byte], hash[byte + 1]]);
        char::from(BASE32[usize::from(pair >> (11 - shift) & 31)])
    };
    (0..HASH_LETTERS).map(letter).collect()
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Piece::Text(text) => f.write_str(text),
            Piece::Claim(claim) => write!(f, "{{{claim}}}"),
            Piece::Hash(claim) => write!(f, "{{{claim}#}}"),
        }
    }
}

impl fmt::Display for GrantTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.system)?;
        self.name.iter().try_for_each(|piece| write!(f, "{piece}"))?;
        let star = if self.is_prefix { "*" } else { "" };
        write!(f, "{star}:{}", self.verbs.join(","))
    }
}

/// The most that tokens of one issuer may get.
///
/// The templates share their separators: where one has `{sub}.*`, a subject with a dot fills none of the others either.
/// Otherwise `cart-{sub}` would give the subject `a.b` a name that `cart-{sub}.*` gives to the subject `a`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceiling {
    templates: Vec<GrantTemplate>,
    /// For each claim the characters that end its value.
    separators: BTreeMap<String, Vec<char>>,
}

impl Ceiling {
    /// The grants for one token. `claim` answers with a claim's text, `sha256` with the hash of a value.
    pub fn fill<'c>(
        &self,
        claim: impl Fn(&str) -> Option<&'c str>,
        sha256: impl Fn(&[u8]) -> [u8; 32],
    ) -> Grants {
        let filled = self.templates.iter().filter_map(|template| {
            let mut claims = template.name.iter().filter_map(|piece| match piece {
                Piece::Claim(of) => Some(of),
                Piece::Text(_) | Piece::Hash(_) => None,
            });
            let mixed_up = claims.any(|of| match (claim(of), self.separators.get(of)) {
                (Some(value), Some(separators)) => value.contains(separators.as_slice()),
                _ => false,
            });
            if mixed_up { None } else { template.fill(&claim, &sha256) }
        });
        filled.collect()
    }

    /// The templates that have a place for this claim. They keep the separators of all.
    #[must_use]
    pub fn with_place_for(&self, claim: &str) -> Ceiling {
        let has_place = |template: &&GrantTemplate| {
            template.name.iter().any(|piece| match piece {
                Piece::Claim(of) | Piece::Hash(of) => of == claim,
                Piece::Text(_) => false,
            })
        };
        let templates = self.templates.iter().filter(has_place).cloned().collect();
        Ceiling { templates, separators: self.separators.clone() }
    }

    /// Each template.
    pub fn iter(&self) -> impl Iterator<Item = &GrantTemplate> {
        self.templates.iter()
    }
}

impl FromIterator<GrantTemplate> for Ceiling {
    fn from_iter<T: IntoIterator<Item = GrantTemplate>>(templates: T) -> Ceiling {
        let templates: Vec<GrantTemplate> = templates.into_iter().collect();
        let mut separators: BTreeMap<String, Vec<char>> = BTreeMap::new();
        for (claim, next) in templates.iter().flat_map(GrantTemplate::followers) {
            separators.entry(claim.to_owned()).or_default().push(next);
        }
        Ceiling { templates, separators }
    }
}

#[cfg(test)]
mod tests;
