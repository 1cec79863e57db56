//! The words of grants: which systems there are, and what may be done in each.
//!
//! Taken from the routes of all parts, those that are off too, and from what handlers ask for beside. A grant with another word
//! would grant nothing and look as if it did.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::closest;
use crate::http::frame_rules;
use crate::part::{Access, Part, Rules};

/// Systems, each with its verbs.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary(BTreeMap<&'static str, BTreeSet<&'static str>>);

impl Vocabulary {
    /// The words of these parts, and of the frame.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a dyn Part>) -> Vocabulary {
        let mut words = Vocabulary::default();
        frame_rules().iter().for_each(|rules| words.learn(rules));
        for part in parts {
            part.routes().rules.iter().for_each(|(_, _, rules)| words.learn(rules));
            for (system, verbs) in part.verbs() {
                words.0.entry(system).or_default().extend(verbs.iter().copied());
            }
        }
        words
    }

    fn learn(&mut self, rules: &Rules) {
        if let Access::Granted(grant) | Access::Open(Some(grant)) = rules.access {
            self.0.entry(grant.system).or_default().insert(grant.verb);
        }
    }

    /// Refuses a word that there is not, with the one that may have been meant.
    pub fn check<'a>(&self, system: &str, mut verbs: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let Some(known) = self.0.get(system) else {
            return Err(wrong("there is no system", system, self.0.keys().copied(), "systems are"));
        };
        match verbs.find(|verb| !known.contains(verb)) {
            Some(verb) => Err(wrong(&format!("{system} has no verb"), verb, known.iter().copied(), "it has")),
            None => Ok(()),
        }
    }
}

fn wrong(what: &str, word: &str, known: impl Iterator<Item = &'static str> + Clone, all: &str) -> String {
    match closest(word, known.clone()) {
        Some(meant) => format!("{what} {word:?}: did you mean {meant:?}?"),
        None => format!("{what} {word:?}: {all} {}", known.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ac_14_a_word_that_there_is_not_is_refused_with_the_nearest() {
        let systems = crate::systems();
        let words = Vocabulary::of(systems.iter().map(|part| &**part));
        for (system, verbs, said) in [
            ("state", &["read", "write", "reset"][..], None),
            ("lock", &["see", "hold", "force"], None),
            ("queue", &["read", "add", "urge", "manage", "work"], None),
            ("viewer", &["beat", "count"], None),
            ("job", &["read", "run"], None),
            ("ingest", &["send"], None),
            ("entity", &["read", "write"], None),
            ("outbox", &["read", "manage"], None),
            ("kv", &["read", "write"], None),
            ("audit", &["read"], None),
            ("key", &["read", "manage"], None),
            ("token", &["revoke"], None),
            ("issuer", &["read"], None),
            ("node", &["metrics"], None),
            ("sate", &["read"], Some("there is no system \"sate\": did you mean \"state\"?")),
            ("state", &["raed"], Some("state has no verb \"raed\": did you mean \"read\"?")),
            ("lock", &["see", "write"], Some("lock has no verb \"write\": it has force, hold, see")),
        ] {
            assert_eq!(words.check(system, verbs.iter().copied()).err().as_deref(), said, "{system}");
        }
        assert!(words.check("zzz", [].into_iter()).unwrap_err().contains("systems are audit, "));
    }
}
