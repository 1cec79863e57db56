//! What a caller was given: grants without places for claims, and sets of them.
//!
//! A set has one grant for each name of a system, with all its verbs. So the size of what two sets have in common is bounded
//! by the sum of theirs.

use std::fmt;
use std::str::FromStr;

use super::{GrantTemplate, InvalidGrant, Need};

/// One grant, with every claim filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub(super) system: String,
    /// Without the `*`.
    pub(super) name: String,
    pub(super) is_prefix: bool,
    /// Each once.
    pub(super) verbs: Vec<String>,
}

impl Grant {
    /// The system, as in `state`.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The name, or what the names begin with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it covers every name that begins with its own.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// What may be done.
    pub fn verbs(&self) -> impl Iterator<Item = &str> {
        self.verbs.iter().map(String::as_str)
    }

    fn allows(&self, need: Need<'_>) -> bool {
        let name = match need.name {
            None => true,
            Some(name) => self.covers(name),
        };
        name && self.system == need.system && self.verbs.iter().any(|verb| verb == need.verb)
    }

    fn covers(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }

    /// What both allow.
    fn common(&self, other: &Grant) -> Option<Grant> {
        // Of two names that overlap one is within the other, and is what they have in common.
        let (inner, outer) = if other.is_prefix && (!self.is_prefix || self.name.len() >= other.name.len()) {
            (self, other)
        } else {
            (other, self)
        };
        let verbs: Vec<String> =
            self.verbs.iter().filter(|verb| other.verbs.contains(verb)).cloned().collect();
        let overlap = self.system == other.system && outer.covers(&inner.name) && !verbs.is_empty();
        overlap.then(|| Grant { verbs, ..inner.clone() })
    }

    /// Whether it covers every name that `other` covers.
    fn covers_names_of(&self, other: &Grant) -> bool {
        if self.is_prefix {
            other.name.starts_with(&self.name)
        } else {
            !other.is_prefix && self.name == other.name
        }
    }

    fn is_of(&self, other: &Grant) -> bool {
        self.system == other.system && self.name == other.name && self.is_prefix == other.is_prefix
    }
}

impl FromStr for Grant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Grant, InvalidGrant> {
        text.parse::<GrantTemplate>()?.into_grant()
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_prefix { "*" } else { "" };
        write!(f, "{}:{}{star}:{}", self.system, self.name, self.verbs.join(","))
    }
}

/// A set of grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Whether one of them allows it.
    #[must_use]
    pub fn allow(&self, need: Need<'_>) -> bool {
        self.0.iter().any(|grant| grant.allows(need))
    }

    /// Whether everything that `grant` allows is allowed: what a caller may pass on. Grants that only together cover a
    /// prefix do not.
    #[must_use]
    pub fn cover(&self, grant: &Grant) -> bool {
        grant.verbs.iter().all(|verb| {
            let mut able = self.0.iter().filter(|own| own.system == grant.system && own.verbs.contains(verb));
            able.any(|own| own.covers_names_of(grant))
        })
    }

    /// What both this set and `asked` allow: never more than either.
    #[must_use]
    pub fn narrow(&self, asked: &Grants) -> Grants {
        self.0.iter().flat_map(|grant| asked.0.iter().filter_map(|other| grant.common(other))).collect()
    }

    /// Each grant.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// Whether nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Extend<Grant> for Grants {
    fn extend<T: IntoIterator<Item = Grant>>(&mut self, grants: T) {
        for grant in grants {
            match self.0.iter_mut().find(|known| known.is_of(&grant)) {
                None => self.0.push(grant),
                Some(known) => {
                    let more = grant.verbs.into_iter().filter(|verb| !known.verbs.contains(verb));
                    let more: Vec<String> = more.collect();
                    known.verbs.extend(more);
                }
            }
        }
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<T: IntoIterator<Item = Grant>>(grants: T) -> Grants {
        let mut set = Grants::default();
        set.extend(grants);
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn need<'a>(system: &'a str, name: Option<&'a str>, verb: &'a str) -> Need<'a> {
        Need { system, verb, name }
    }

    fn grants(list: &[&str]) -> Grants {
        list.iter().map(|text| text.parse::<Grant>().unwrap()).collect()
    }

    #[test]
    fn ac_02_a_name_is_exact_or_ends_in_a_star() {
        let held = grants(&["state:cart-7:read,write", "lock:doc:*:hold,see", "queue:*:read"]);
        for (system, name, verb, allowed) in [
            ("state", "cart-7", "read", true),
            ("state", "cart-7", "write", true),
            ("state", "cart-7", "reset", false),
            ("state", "cart-77", "read", false),
            ("state", "cart-", "read", false),
            ("lock", "cart-7", "read", false),
            ("lock", "doc:", "hold", true),
            ("lock", "doc:a:b", "see", true),
            ("lock", "doc", "see", false),
            ("lock", "doc:*", "see", true),
            ("queue", "anything", "read", true),
            ("queue", "", "read", true),
            ("queue", "anything", "add", false),
        ] {
            assert_eq!(held.allow(need(system, Some(name), verb)), allowed, "{system}:{name}:{verb}");
        }
        assert!(held.allow(need("lock", None, "see")));
        assert!(!held.allow(need("lock", None, "force")));
        assert!(!Grants::default().allow(need("state", None, "read")));
    }

    #[test]
    fn ac_02_what_is_missing_is_said_as_the_grant_that_would_allow_it() {
        assert_eq!(need("lock", Some("doc:7"), "hold").to_string(), "lock:doc:7:hold");
        assert_eq!(need("job", None, "read").to_string(), "job:*:read");
    }

    #[test]
    fn ac_02_narrowing_leaves_what_both_allow() {
        let ceiling = grants(&["state:cart-7:read,write", "lock:doc:*:hold,see", "queue:covers:add,read"]);
        for (asked, left) in [
            ("state:cart-7:read", "state:cart-7:read"),
            ("state:*:read,reset", "state:cart-7:read"),
            ("lock:doc:7:see", "lock:doc:7:see"),
            ("lock:doc:a*:see,force", "lock:doc:a*:see"),
            ("lock:*:hold", "lock:doc:*:hold"),
        ] {
            let narrowed = ceiling.narrow(&grants(&[asked]));
            assert_eq!(narrowed.iter().map(Grant::to_string).collect::<Vec<_>>(), [left], "{asked}");
        }
        for asked in
            ["state:cart-8:read", "state:cart-7:reset", "kv:*:read", "lock:do:see", "queue:cover:read"]
        {
            assert!(ceiling.narrow(&grants(&[asked])).is_empty(), "{asked}");
        }
    }

    #[test]
    fn ac_02_a_set_has_each_name_once_and_stays_bounded_when_it_is_narrowed() {
        assert_eq!(grants(&["kv:a:read", "kv:a:write,read"]), grants(&["kv:a:read,write"]));
        let nested: Grants =
            (0..100).map(|n| format!("kv:{}*:read", "a".repeat(n)).parse::<Grant>().unwrap()).collect();
        let exact: Grants =
            (0..100).map(|n| format!("kv:{}{n}:read", "a".repeat(100)).parse::<Grant>().unwrap()).collect();
        assert_eq!(nested.narrow(&exact).iter().count(), 100);
        assert!(nested.narrow(&nested).iter().count() <= 200);
    }

    fn some_grant() -> impl Strategy<Value = Grant> {
        let name = prop_oneof!["[ab.:]{1,4}", "[ab.:]{0,3}\\*"];
        let verbs = prop::sample::subsequence(vec!["read", "write", "see"], 1..=3);
        (prop::sample::select(vec!["kv", "lock"]), name, verbs)
            .prop_map(|(system, name, verbs)| format!("{system}:{name}:{}", verbs.join(",")).parse().unwrap())
    }

    fn some_grants() -> impl Strategy<Value = Vec<Grant>> {
        prop::collection::vec(some_grant(), 0..5)
    }

    fn some_need() -> impl Strategy<Value = (String, Option<String>, String)> {
        let word = |words: &[&'static str]| prop::sample::select(words.to_vec()).prop_map(str::to_owned);
        (word(&["kv", "lock"]), prop::option::weighted(0.9, "[ab.:]{0,5}"), word(&["read", "write", "see"]))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn ac_02_more_grants_never_refuse_more(
            fewer in some_grants(), more in some_grants(), asked in some_need(),
        ) {
            let asked = need(&asked.0, asked.1.as_deref(), &asked.2);
            let alone = fewer.iter().any(|grant| grant.allows(asked));
            let mut held: Grants = fewer.into_iter().collect();
            prop_assert_eq!(held.allow(asked), alone, "a set allows what one of its grants does");
            let others: Grants = more.iter().cloned().collect();
            held.extend(more);
            prop_assert_eq!(held.allow(asked), alone || others.allow(asked));
        }

        #[test]
        fn ac_02_narrowing_never_widens(
            ceiling in some_grants(), wanted in some_grants(), asked in some_need(),
        ) {
            let (ceiling, wanted): (Grants, Grants) =
                (ceiling.into_iter().collect(), wanted.into_iter().collect());
            let narrowed = ceiling.narrow(&wanted);
            if let (system, Some(name), verb) = &asked {
                let asked = need(system, Some(name), verb);
                prop_assert_eq!(narrowed.allow(asked), ceiling.allow(asked) && wanted.allow(asked));
            }
            let asked = need(&asked.0, asked.1.as_deref(), &asked.2);
            prop_assert!(!narrowed.allow(asked) || (ceiling.allow(asked) && wanted.allow(asked)));
        }

        #[test]
        fn ac_04_what_may_be_passed_on_is_never_more_than_what_one_has(
            held in some_grants(), passed in some_grant(), asked in some_need(),
        ) {
            let held: Grants = held.into_iter().collect();
            let asked = need(&asked.0, asked.1.as_deref(), &asked.2);
            if held.cover(&passed) {
                prop_assert!(!passed.allows(asked) || held.allow(asked));
            }
            prop_assert!(held.iter().all(|own| held.cover(own)));
        }

        #[test]
        fn ac_02_a_grant_is_read_as_it_is_written(grant in some_grant()) {
            prop_assert_eq!(grant.to_string().parse::<Grant>().unwrap(), grant);
        }
    }
}
