//! Who may do what: grants that only add.
//!
//! A grant is written `system:name:verbs`, as in `state:cart-{sub}:read,write` or `lock:doc:*:hold,see`. It is cut at its first
//! and its last colon, so a name may have colons. A name is exact or ends in `*`. There are no regular expressions, no rules
//! that deny, and no order: a principal may do what at least one of its grants allows.

use std::fmt;

/// What one request needs: a verb of a system, on a thing with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need<'a> {
    /// The system, as in `state`.
    pub system: &'a str,
    /// What is to be done, as in `read`.
    pub verb: &'a str,
    /// The thing it is done to. `None` asks whether there may be any: the answer is then cut to what may be seen.
    pub name: Option<&'a str>,
}

impl fmt::Display for Need<'_> {
    /// The grant that would allow it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.system, self.name.unwrap_or("*"), self.verb)
    }
}

/// A set of grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Whether one of them allows it.
    pub fn allow(&self, need: Need<'_>) -> bool {
        self.0.iter().any(|grant| grant.allows(need))
    }
}

/// One grant, with every claim filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    system: String,
    /// Without the `*`.
    name: String,
    is_prefix: bool,
    verbs: Vec<String>,
}

impl Grant {
    fn allows(&self, need: Need<'_>) -> bool {
        let name = match need.name {
            None => true,
            Some(name) if self.is_prefix => name.starts_with(&self.name),
            Some(name) => name == self.name,
        };
        name && self.system == need.system && self.verbs.iter().any(|verb| verb == need.verb)
    }
}
