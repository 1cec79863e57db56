//! Listings by name, cut to what the caller may see.
//!
//! A caller's grants name prefixes and exact names. None of the ranges that are left after those within others are dropped
//! overlaps another, so a page is read range by range, in order, and neither the page nor its `next` tells of anything
//! between them.

use syncline_core::access::Grants;

use crate::access::Principal;

/// The names of a system that a caller may see, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visible(Vec<Range>);

/// Names that begin with a text, or one name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    name: String,
    is_prefix: bool,
}

/// What a listing is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page<'a> {
    /// Names that begin with this.
    pub(crate) prefix: &'a str,
    /// Names behind this.
    pub(crate) after: Option<&'a str>,
    /// At most this many.
    pub(crate) limit: usize,
}

impl Principal {
    /// What it may see of a system by this verb.
    pub(crate) fn visible(&self, system: &str, verb: &str) -> Visible {
        if self.is_owner() {
            return Visible(vec![Range { name: String::new(), is_prefix: true }]);
        }
        Visible::by(&self.grants, system, verb)
    }
}

impl Visible {
    /// What grants let somebody see.
    pub(crate) fn by(grants: &Grants, system: &str, verb: &str) -> Visible {
        let granted = grants.iter().filter(|grant| grant.system() == system);
        let granted = granted.filter(|grant| grant.verbs().any(|one| one == verb));
        Visible::of(granted.map(|grant| (grant.name().to_owned(), grant.is_prefix())))
    }

    fn of(ranges: impl Iterator<Item = (String, bool)>) -> Visible {
        let mut ranges: Vec<Range> = ranges.map(|(name, is_prefix)| Range { name, is_prefix }).collect();
        // A prefix comes before everything within it, and before the one name that is the same.
        ranges.sort_by(|one, other| (&one.name, !one.is_prefix).cmp(&(&other.name, !other.is_prefix)));
        let mut kept: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let within = |outer: &Range| {
                if outer.is_prefix { range.name.starts_with(&outer.name) } else { *outer == range }
            };
            if !kept.last().is_some_and(within) {
                kept.push(range);
            }
        }
        Visible(kept)
    }

    /// Begins a page of what may be seen.
    pub(crate) fn page<'a, T>(&'a self, page: Page<'a>) -> Cut<'a, T> {
        Cut { ranges: &self.0, asked: page, reading: None, found: Vec::new(), more: false }
    }
}

/// A page that is being read, a range at a time: while there is a [`Cut::next`], it is read and put in.
pub(crate) struct Cut<'a, T> {
    ranges: &'a [Range],
    asked: Page<'a>,
    /// The range whose items are awaited.
    reading: Option<&'a Range>,
    found: Vec<T>,
    more: bool,
}

impl<'a, T> Cut<'a, T> {
    /// What to read next from the store.
    pub(crate) fn next(&mut self) -> Option<Page<'a>> {
        while let Some((range, rest)) = self.ranges.split_first().filter(|_| !self.more) {
            self.ranges = rest;
            if let Some(part) = range.within(self.asked, self.asked.limit - self.found.len()) {
                self.reading = Some(range);
                return Some(part);
            }
        }
        None
    }

    /// Puts in what was read, and whether there is more of it.
    pub(crate) fn put(&mut self, mut items: Vec<T>, more: bool, name_of: impl Fn(&T) -> &str) {
        let Some(range) = self.reading.take() else { return };
        if !range.is_prefix {
            items.retain(|item| name_of(item) == range.name);
        }
        self.found.append(&mut items);
        self.more = (more && range.is_prefix) || self.found.len() >= self.asked.limit;
    }

    /// The page, and whether there may be more.
    pub(crate) fn end(self) -> (Vec<T>, bool) {
        (self.found, self.more)
    }
}

impl Range {
    /// What of a page is in this range.
    fn within<'a>(&'a self, page: Page<'a>, left: usize) -> Option<Page<'a>> {
        let name = self.name.as_str();
        if !self.is_prefix {
            let wanted = name.starts_with(page.prefix) && page.after.is_none_or(|after| after < name);
            // Of the names that begin with it the name itself is the first.
            return wanted.then_some(Page { prefix: name, after: None, limit: 1 });
        }
        let prefix = if name.starts_with(page.prefix) {
            name
        } else if page.prefix.starts_with(name) {
            page.prefix
        } else {
            return None;
        };
        let after = page.after.filter(|after| *after >= prefix);
        // Behind a name that is past the range there is nothing of it.
        let over = after.is_some_and(|after| !after.starts_with(prefix));
        (!over).then_some(Page { prefix, after, limit: left })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn visible(ranges: &[(String, bool)]) -> Visible {
        Visible::of(ranges.iter().cloned())
    }

    proptest! {
        #[test]
        fn ac_07_pages_together_are_what_may_be_seen_and_nothing_else(
            names in proptest::collection::btree_set("[ab.]{1,4}", 0..30),
            ranges in proptest::collection::vec(("[ab.]{0,3}", any::<bool>()), 0..6),
            prefix in "[ab.]{0,2}",
            limit in 1_usize..5,
        ) {
            let sees = |name: &str| ranges.iter().any(|(range, is_prefix)| {
                if *is_prefix { name.starts_with(range.as_str()) } else { name == range }
            });
            let expected: Vec<&String> =
                names.iter().filter(|name| name.starts_with(&prefix) && sees(name)).collect();
            let visible = visible(&ranges);
            let mut found: Vec<String> = Vec::new();
            loop {
                let after = found.last().cloned();
                let page = Page { prefix: &prefix, after: after.as_deref(), limit };
                let mut cut = visible.page(page);
                while let Some(part) = cut.next() {
                    let (items, more) = store(&names, part);
                    cut.put(items, more, |name: &String| name);
                }
                let (items, more) = cut.end();
                prop_assert!(items.len() <= limit);
                let ended = items.is_empty() || !more;
                found.extend(items);
                if ended {
                    break;
                }
            }
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    }

    fn store(names: &BTreeSet<String>, page: Page<'_>) -> (Vec<String>, bool) {
        let wanted = names.iter().filter(|name| name.starts_with(page.prefix));
        let mut wanted = wanted.filter(|name| page.after.is_none_or(|after| name.as_str() > after));
        let items: Vec<String> = wanted.by_ref().take(page.limit).cloned().collect();
        (items, wanted.next().is_some())
    }
}
