//! Operations: what was asked for, from the moment it is asked until it is stored or refused.
//!
//! They begin in the order in which they were asked for. After storage refused several that were written together, each is
//! written alone, so that only the one to blame is refused. While a layout is being changed nothing else begins.

use std::collections::VecDeque;

use super::super::bridge::Change;
use super::super::index::Entry;
use super::super::layout::Layout;
use super::super::names::{BATCH_MAX, OPS_MAX};
use super::super::port::Input;
use super::super::sorted::Set;
use super::super::stamp::Stamp;
use super::super::value::Value;
use super::Held;

/// Who asked for an operation, and is told how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The replica itself: nobody is told.
    Replica,
    /// The node whose changes are taken over.
    Node,
    /// The application, by a number of its own.
    Application(u64),
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) enum Request {
    Put(String, Value),
    Remove(Vec<String>),
    Reset,
    Settings(Value),
    Layout(Layout),
    Remote(Vec<Change>),
}

/// What an application asks for, with its number.
pub(super) fn request(input: Input) -> Option<(u64, Request)> {
    Some(match input {
        Input::Put { op, id, value } => (op, Request::Put(id, value)),
        Input::Remove { op, ids } => (op, Request::Remove(ids)),
        Input::Reset { op } => (op, Request::Reset),
        Input::SetSettings { op, value } => (op, Request::Settings(value)),
        Input::SetLayout { op, layout } => (op, Request::Layout(layout)),
        _ => return None,
    })
}

/// An operation under way.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) caller: Caller,
    pub(super) request: Request,
    /// Counts operations; what was written before this one was begun does not hold it.
    pub(super) number: u64,
    /// Keys that must be stored before it is done.
    pub(super) keys: Set,
    /// Whether everything has yet to be written where a new layout keeps it.
    pub(super) moving: bool,
    pub(super) undo: Undo,
}

/// How to take an operation back.
#[derive(Debug, Clone)]
pub(super) enum Undo {
    Nothing,
    Entities(Vec<Before>),
    Floor(Stamp, Vec<(String, Entry)>),
    Settings(Option<Value>),
    Layout(Layout, Stamp),
}

/// What an entity was before, and what the operation made of it.
#[derive(Debug, Clone)]
pub(super) struct Before {
    pub(super) id: String,
    pub(super) entry: Option<Entry>,
    pub(super) made: Option<Entry>,
    pub(super) held: Option<Held>,
    /// The stamp of the value that the operation wrote.
    pub(super) wrote: Option<Stamp>,
}

impl Op {
    pub(super) fn is_done(&self) -> bool {
        self.keys.is_empty() && !self.moving
    }

    fn waits_for(&self, keys: &Set) -> bool {
        self.keys.iter().any(|key| keys.contains(key))
    }
}

/// All operations that are not over.
#[derive(Debug, Clone, Default)]
pub(super) struct Operations {
    /// Not begun yet.
    waiting: VecDeque<(Caller, Request)>,
    /// Under way, in order.
    pub(super) under_way: VecDeque<Op>,
    /// How many of the waiting ones must be stored one by one, because together they were refused.
    one_by_one: usize,
    /// Numbers operations as they are begun.
    begun: u64,
    /// The last one that listed an entity.
    added: u64,
    /// Chunks to be written before the layout changes, last one first.
    moving: Vec<Vec<(String, String)>>,
}

impl Operations {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() + self.under_way.len() >= OPS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, caller: Caller, request: Request) {
        self.waiting.push_back((caller, request));
    }

    /// The next one that may begin now.
    pub(super) fn take_next(&mut self) -> Option<(Caller, Request)> {
        if self.is_moving() || (self.one_by_one > 0 && !self.under_way.is_empty()) {
            return None;
        }
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.one_by_one = 0;
        }
        next
    }

    /// The one that storage refused alone; it waits since it was taken back.
    pub(super) fn take_refused(&mut self) -> Option<Caller> {
        self.waiting.pop_front().map(|(caller, _)| caller)
    }

    /// All that have not begun.
    pub(super) fn take_waiting(&mut self) -> VecDeque<(Caller, Request)> {
        std::mem::take(&mut self.waiting)
    }

    /// The last one under way, to be taken back.
    pub(super) fn take_last(&mut self) -> Option<Op> {
        self.under_way.pop_back()
    }

    /// It was taken back, and is the first to begin again.
    pub(super) fn wait_again(&mut self, caller: Caller, request: Request) {
        self.waiting.push_front((caller, request));
    }

    /// The next `count` are stored one by one.
    pub(super) fn separate(&mut self, count: usize) {
        self.one_by_one = self.one_by_one.max(count);
    }

    pub(super) fn stop_separating(&mut self) {
        self.one_by_one = 0;
    }

    /// One of them is over.
    pub(super) fn count_end(&mut self) {
        self.one_by_one = self.one_by_one.saturating_sub(1);
    }

    /// One begins.
    pub(super) fn count_begin(&mut self) {
        self.begun += 1;
    }

    /// The number of the operation that was begun last.
    pub(super) const fn latest(&self) -> u64 {
        self.begun
    }

    /// The one that was begun last lists an entity.
    pub(super) fn count_addition(&mut self) {
        self.added = self.begun;
    }

    /// Whether one under way may have listed what is put now: then that is not stored before the index is.
    pub(super) fn may_list(&self) -> bool {
        self.under_way.front().is_some_and(|op| op.number <= self.added)
    }

    /// Whether an operation waits until one of `keys` is stored.
    pub(super) fn wait_for_any(&self, keys: &Set) -> bool {
        self.under_way.iter().any(|op| op.waits_for(keys))
    }

    /// Whether an operation waits until `key` is stored.
    pub(super) fn wait_for(&self, key: &str) -> bool {
        self.under_way.iter().any(|op| op.keys.contains(key))
    }

    pub(super) fn is_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// `entries` are to be written before the layout changes.
    pub(super) fn start_move(&mut self, entries: &[(String, String)]) {
        self.moving = entries.chunks(BATCH_MAX).map(<[_]>::to_vec).rev().collect();
        // An empty chunk last: the moment when all is written.
        self.moving.insert(0, Vec::new());
    }

    /// What is to be written next; an empty chunk when all is.
    pub(super) fn next_chunk(&mut self) -> Option<Vec<(String, String)>> {
        self.moving.pop()
    }

    pub(super) fn stop_move(&mut self) {
        self.moving.clear();
    }

    /// All is written: the layout that is to be used from now on. The operation now waits for `index_key`.
    pub(super) fn end_move(&mut self, index_key: &str) -> Option<Layout> {
        self.under_way.iter_mut().find_map(|op| match op.request {
            Request::Layout(layout) if std::mem::take(&mut op.moving) => {
                op.keys.insert(index_key.to_owned());
                Some(layout)
            }
            _ => None,
        })
    }
}
