//! Which page comes next, and when to stop.
//!
//! The library says where the next page begins until there is none. A counter that does not grow, or a search
//! that never ends, would keep the queue busy for ever, so both end the paging as well; what was found until
//! then stands.

use serde::{Deserialize, Serialize};

/// How far a search is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// Most pages.
    pub pages: u32,
    /// Most records.
    pub records: u32,
}

impl Default for Cap {
    fn default() -> Self {
        Self { pages: 50, records: 10_000 }
    }
}

/// The way through the pages of one search. It can be stored and taken up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paging {
    cap: Cap,
    /// Where the page begins that is being asked for.
    start_record: u32,
    pages: u32,
    records: u32,
}

/// What to do after a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Ask for the page that begins here.
    Next {
        /// Its first record.
        start_record: u32,
    },
    /// The search is over.
    Done(End),
}

/// Why a search is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// There is no next page: everything was found.
    Complete,
    /// As many pages or records as the cap allows.
    Cap,
    /// The library named a next page that is not after this one.
    NotAdvancing {
        /// Where this page began.
        start_record: u32,
        /// Where the next one was said to begin.
        next: u32,
    },
}

impl Paging {
    /// Begins at record 1.
    #[must_use]
    pub const fn new(cap: Cap) -> Self {
        Self { cap, start_record: 1, pages: 0, records: 0 }
    }

    /// Where the page begins that is to be asked for.
    #[must_use]
    pub const fn start_record(&self) -> u32 {
        self.start_record
    }

    /// After a page with `records` records that named `next` as the start of the one that follows.
    pub fn after(&mut self, next: Option<u32>, records: u32) -> Step {
        self.pages = self.pages.saturating_add(1);
        self.records = self.records.saturating_add(records);
        let Some(next) = next else { return Step::Done(End::Complete) };
        if next <= self.start_record {
            return Step::Done(End::NotAdvancing { start_record: self.start_record, next });
        }
        if self.pages >= self.cap.pages || self.records >= self.cap.records {
            return Step::Done(End::Cap);
        }
        self.start_record = next;
        Step::Next { start_record: next }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bk_02_pages_are_followed_from_record_1_until_there_is_no_next() {
        let mut paging = Paging::new(Cap::default());
        assert_eq!(paging.start_record(), 1);
        assert_eq!(paging.after(Some(201), 200), Step::Next { start_record: 201 });
        assert_eq!(paging.after(Some(401), 200), Step::Next { start_record: 401 });
        assert_eq!(paging.after(None, 17), Step::Done(End::Complete));
    }

    #[test]
    fn qu_26_a_position_that_does_not_advance_ends_the_search() {
        for next in [0, 1, 200, 201] {
            let mut paging = Paging::new(Cap::default());
            paging.after(Some(201), 200);
            let end = End::NotAdvancing { start_record: 201, next };
            assert_eq!(paging.after(Some(next), 200), Step::Done(end));
        }
    }

    #[test]
    fn qu_26_the_cap_on_pages_and_on_records_ends_the_search() {
        let mut paging = Paging::new(Cap { pages: 2, records: 1_000 });
        assert_eq!(paging.after(Some(2), 1), Step::Next { start_record: 2 });
        assert_eq!(paging.after(Some(3), 1), Step::Done(End::Cap));
        let mut paging = Paging::new(Cap { pages: 9, records: 400 });
        assert_eq!(paging.after(Some(201), 200), Step::Next { start_record: 201 });
        assert_eq!(paging.after(Some(401), 200), Step::Done(End::Cap));
    }

    proptest! {
        #[test]
        fn qu_26_whatever_the_library_says_a_search_ends_and_its_pages_only_go_forward(
            answers in prop::collection::vec((prop::option::of(0..5_000_u32), 0..600_u32), 60),
        ) {
            let mut paging = Paging::new(Cap::default());
            let mut asked = vec![paging.start_record()];
            for (next, records) in answers {
                match paging.after(next, records) {
                    Step::Next { start_record } => asked.push(start_record),
                    Step::Done(_) => break,
                }
            }
            prop_assert!(asked.len() <= 50 && asked.is_sorted_by(|one, next| one < next), "{:?}", asked);
        }
    }
}
