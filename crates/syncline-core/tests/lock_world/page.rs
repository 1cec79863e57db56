//! The page of a tab: an editor that shows a text, and somebody who types into it while it may be typed into.
//!
//! It hears of everything later than it happens, and now and then seconds later: a page can be busy while its worker goes on.

use std::collections::VecDeque;
use std::rc::Rc;

use syncline_core::lock::autosave::Status;
use syncline_sim::Dice;

/// Words, each typed once in the whole world, in the order in which they stand.
pub(crate) type Text = Rc<Vec<u64>>;

/// How an application uses AutoSave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Its editor is bound: it shows each text that comes, and is read-only while it may not be changed.
    Bound,
    /// It never looks at what comes, and changes what it had at first: what it says must be refused then.
    Blind,
}

pub(crate) enum News {
    Document { line: u64, stamp: u64, text: Text },
    Status(Status),
}

/// What the page tells the worker.
pub(crate) struct Change {
    pub(crate) line: u64,
    pub(crate) version: u64,
    pub(crate) text: Text,
}

pub(crate) struct Page {
    style: Style,
    text: Text,
    line: u64,
    version: u64,
    writable: bool,
    /// What it has still to hear, and when it will.
    coming: VecDeque<(u64, News)>,
}

impl Page {
    pub(crate) fn new(style: Style) -> Self {
        Self { style, text: Text::default(), line: 0, version: 0, writable: false, coming: VecDeque::new() }
    }

    /// The worker says something at `now_ms`.
    pub(crate) fn post(&mut self, news: News, now_ms: u64, dice: &mut Dice) {
        let busy = dice.chance(0.05);
        let delay_ms = if busy { dice.pick(500..=60_000) } else { dice.pick(1..=10) };
        let at_ms = self.coming.back().map_or(0, |(at_ms, _)| *at_ms).max(now_ms + delay_ms);
        self.coming.push_back((at_ms, news));
    }

    pub(crate) fn wake_at(&self) -> Option<u64> {
        self.coming.front().map(|(at_ms, _)| *at_ms)
    }

    /// Hears what is due.
    pub(crate) fn hear(&mut self, now_ms: u64) {
        while let Some((_, news)) = self.coming.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            match news {
                News::Document { line, stamp, text } if self.style == Style::Bound || self.line == 0 => {
                    (self.line, self.text) = (line, text);
                    self.version = stamp.max(self.version + 1);
                }
                News::Document { .. } => {}
                News::Status(status) => {
                    self.writable = matches!(status, Status::Saved | Status::Saving | Status::Unsaved);
                }
            }
        }
    }

    /// Types a word, if the editor lets it.
    pub(crate) fn type_word(&mut self, word: u64) -> Option<Change> {
        if !self.writable {
            return None;
        }
        let mut text = self.text.to_vec();
        text.push(word);
        self.text = Rc::new(text);
        self.version += 1;
        Some(Change { line: self.line, version: self.version, text: self.text.clone() })
    }
}
