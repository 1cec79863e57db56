//! What was taken back before its end: a token by its id, or a subject's tokens by the time they were issued.
//!
//! Guarantees: more revocations never let more in; a revocation of one issuer never touches tokens of another; a token that
//! was issued after its subject was revoked is not refused by that.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Timestamp;

/// What a token says of itself, as far as it can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuedToken<'a> {
    /// Who issued it.
    pub issuer: &'a str,
    /// For whom.
    pub subject: &'a str,
    /// Its id, if it has one.
    pub id: Option<&'a str>,
    /// When, which tokens say in whole seconds.
    pub issued_at: Timestamp,
}

/// One revocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revocation {
    /// The token with this id.
    Token {
        /// Of this issuer.
        issuer: String,
        /// The token's id.
        id: String,
    },
    /// All tokens of a subject that were issued up to a moment.
    Subject {
        /// Of this issuer.
        issuer: String,
        /// The subject.
        subject: String,
        /// The last moment that counts. A token says the second in which it was issued, so one that was issued later in the
        /// same second is refused as well: that errs on the safe side.
        until: Timestamp,
    },
}

/// All that counts now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revocations {
    tokens: BTreeMap<String, BTreeSet<String>>,
    subjects: BTreeMap<String, BTreeMap<String, Timestamp>>,
}

impl Revocations {
    /// Whether a token was taken back.
    #[must_use]
    pub fn cover(&self, token: IssuedToken<'_>) -> bool {
        let by_id = || {
            let ids = self.tokens.get(token.issuer)?;
            Some(ids.contains(token.id?))
        };
        let by_subject = || {
            let until = self.subjects.get(token.issuer)?.get(token.subject)?;
            Some(token.issued_at <= *until)
        };
        !self.is_empty() && (by_id() == Some(true) || by_subject() == Some(true))
    }

    /// Whether nothing was taken back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.subjects.is_empty()
    }
}

impl Extend<Revocation> for Revocations {
    fn extend<T: IntoIterator<Item = Revocation>>(&mut self, revocations: T) {
        for revocation in revocations {
            match revocation {
                Revocation::Token { issuer, id } => drop(self.tokens.entry(issuer).or_default().insert(id)),
                Revocation::Subject { issuer, subject, until } => {
                    let known = self.subjects.entry(issuer).or_default().entry(subject).or_default();
                    *known = until.max(*known);
                }
            }
        }
    }
}

impl FromIterator<Revocation> for Revocations {
    fn from_iter<T: IntoIterator<Item = Revocation>>(revocations: T) -> Revocations {
        let mut all = Revocations::default();
        all.extend(revocations);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(count: u64) -> Timestamp {
        Timestamp::from_ms(count * 1_000)
    }

    fn token<'a>(issuer: &'a str, subject: &'a str, id: Option<&'a str>, at_sec: u64) -> IssuedToken<'a> {
        IssuedToken { issuer, subject, id, issued_at: seconds(at_sec) }
    }

    #[test]
    fn ac_11_a_token_is_taken_back_by_its_id_or_by_its_subject_and_time() {
        let by_id = Revocation::Token { issuer: "shop".into(), id: "t-1".into() };
        let until = Timestamp::from_ms(5_400);
        let by_time = Revocation::Subject { issuer: "shop".into(), subject: "7".into(), until };
        let revoked: Revocations = [by_id, by_time].into_iter().collect();
        for (shown, covered) in [
            (token("shop", "8", Some("t-1"), 9), true),
            (token("shop", "8", Some("t-2"), 1), false),
            (token("shop", "8", None, 1), false),
            (token("other", "8", Some("t-1"), 1), false),
            (token("shop", "7", None, 4), true),
            (token("shop", "7", None, 5), true),
            (token("shop", "7", None, 6), false),
            (token("other", "7", None, 4), false),
        ] {
            assert_eq!(revoked.cover(shown), covered, "{shown:?}");
        }
        assert!(!Revocations::default().cover(token("shop", "7", Some("t-1"), 0)));
    }

    fn some_revocation() -> impl Strategy<Value = Revocation> {
        prop_oneof![
            ("[ab]", "[xyz]").prop_map(|(issuer, id)| Revocation::Token { issuer, id }),
            ("[ab]", "[789]", 0_u64..9).prop_map(|(issuer, subject, until)| Revocation::Subject {
                issuer,
                subject,
                until: seconds(until)
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn ac_11_a_set_refuses_what_one_of_its_revocations_does_and_nothing_else(
            list in prop::collection::vec(some_revocation(), 0..8),
            issuer in "[ab]", subject in "[789]", id in prop::option::of("[xyz]"), at in 0_u64..9,
        ) {
            let shown = token(&issuer, &subject, id.as_deref(), at);
            let one = list.iter().any(|one| [one.clone()].into_iter().collect::<Revocations>().cover(shown));
            let all: Revocations = list.into_iter().collect();
            prop_assert_eq!(all.cover(shown), one);
        }
    }
}
