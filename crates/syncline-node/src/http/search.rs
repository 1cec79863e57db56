//! Looking for a text in a listing, on the node and within bounds.
//!
//! A listing goes by an index, and no index finds a text in the middle of a name. So a search reads the listing on, page by page, and keeps
//! what fits, until it has found enough or looked at [`SEARCHED_MAX`] rows. Then it says where to go on: a page with few findings, or none,
//! and a `next` is not the end.

use super::Error;

/// Most rows that one question looks at.
pub(crate) const SEARCHED_MAX: usize = 10_000;

/// Rows that are read at a time.
const STEP: usize = 1_000;

/// Longest text that is looked for.
const TEXT_MAX_BYTES: usize = 200;

/// A search that is under way: while there is a [`Search::next`], it is read and put in.
pub(crate) struct Search<C, T> {
    /// In lower case; empty where everything fits.
    text: String,
    filters: bool,
    limit: usize,
    after: Option<C>,
    left: usize,
    ended: bool,
    found: Vec<T>,
}

/// What to read next.
pub(crate) struct Step<C> {
    /// Behind this.
    pub(crate) after: Option<C>,
    /// At most so many.
    pub(crate) limit: usize,
}

impl<C: Clone, T> Search<C, T> {
    /// Looks for `text`, whatever its case, behind `after`, until `limit` are found. Without a text everything fits.
    pub(crate) fn new(text: Option<&str>, after: Option<C>, limit: usize) -> Result<Search<C, T>, Error> {
        let text = text.map_or("", str::trim);
        if text.len() > TEXT_MAX_BYTES {
            return Err(Error::invalid("invalid-query", format!("q has at most {TEXT_MAX_BYTES} bytes")));
        }
        let (text, filters) = (text.to_lowercase(), !text.is_empty());
        Ok(Search { text, filters, limit, after, left: SEARCHED_MAX, ended: false, found: Vec::new() })
    }

    /// Not everything fits, whatever the text.
    #[must_use]
    pub(crate) fn filtering(self, filters: bool) -> Search<C, T> {
        Search { filters: self.filters || filters, ..self }
    }

    /// What to read next; `None`: the search is over.
    pub(crate) fn next(&self) -> Option<Step<C>> {
        let over = self.ended || self.left == 0 || self.found.len() >= self.limit;
        let limit = if self.filters { STEP.min(self.left) } else { self.limit - self.found.len() };
        (!over).then(|| Step { after: self.after.clone(), limit })
    }

    /// Puts in what was read. `next` is where the listing goes on, `None` at its end; `fits` decides by the text, which is in
    /// lower case and may be empty.
    pub(crate) fn put(
        &mut self,
        items: Vec<T>,
        next: Option<C>,
        fits: impl Fn(&T, &str) -> bool,
        cursor_of: impl Fn(&T) -> C,
    ) {
        // A reading that is short because its values are long costs as much as many rows: so few are made of those.
        self.left = self.left.saturating_sub(items.len().max(STEP / 2));
        let mut items = items.into_iter();
        while let Some(item) = items.next() {
            if !self.filters || fits(&item, &self.text) {
                let cursor = cursor_of(&item);
                self.found.push(item);
                if self.found.len() >= self.limit {
                    let more = items.len() > 0 || next.is_some();
                    (self.after, self.ended) = (Some(cursor), !more);
                    return;
                }
            }
        }
        self.ended = next.is_none();
        // At the end nobody asks where it was.
        self.after = next.or_else(|| self.after.take());
        // Without a filter a page is one reading: it is short where its values are long.
        if !self.filters {
            self.left = 0;
        }
    }

    /// What was found, and where to go on.
    pub(crate) fn end(self) -> (Vec<T>, Option<C>) {
        let next = self.after.filter(|_| !self.ended);
        (self.found, next)
    }
}

/// Whether a text has another one in it, which is in lower case.
pub(crate) fn contains(text: &str, wanted: &str) -> bool {
    text.to_lowercase().contains(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names in order, read like a store's listing.
    fn listed(names: &[String], q: Option<&str>, limit: usize) -> (Vec<String>, usize) {
        let (mut found, mut questions, mut after) = (Vec::new(), 0, None::<String>);
        loop {
            questions += 1;
            let mut search = Search::new(q, after.clone(), limit).unwrap();
            while let Some(step) = search.next() {
                let behind =
                    names.iter().filter(|name| step.after.as_ref().is_none_or(|after| *name > after));
                let mut behind = behind.cloned();
                let items: Vec<String> = behind.by_ref().take(step.limit).collect();
                let next = if behind.next().is_some() { items.last().cloned() } else { None };
                search.put(items, next, |name, text| contains(name, text), Clone::clone);
            }
            let (mut some, next) = search.end();
            assert!(some.len() <= limit);
            found.append(&mut some);
            after = next;
            if after.is_none() {
                return (found, questions);
            }
        }
    }

    #[test]
    fn cn_01_a_search_finds_everything_that_fits_whatever_the_pages_and_looks_at_a_bounded_part_at_a_time() {
        let names: Vec<String> = (0..25_000).map(|n| format!("Key-{n:05}")).collect();
        for limit in [1, 7, 100, 1_000] {
            let (found, _) = listed(&names, Some("KEY-0099"), limit);
            let expected: Vec<&String> = names.iter().filter(|name| name.contains("-0099")).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{limit}");
        }
        let (found, questions) = listed(&names, Some("24999"), 50);
        assert_eq!((found.len(), questions), (1, 3), "three times ten thousand");
        let (found, _) = listed(&names, None, 1_000);
        assert_eq!(found, names);
        assert_eq!(listed(&[], Some("x"), 5), (vec![], 1));
        assert!(Search::<String, String>::new(Some(&"x".repeat(201)), None, 1).is_err());
    }
}
