//! Messages to the other contexts: sent when a write is stored, sent again until acknowledged, and never needed.

use std::collections::VecDeque;

use super::super::index::Entry;
use super::super::message::{self, EntityChange};
use super::super::names::{ACK_WAIT, DELTA_MAX, INDEX_KEY, RESENDS_MAX};
use super::super::port::{Effect, Report};
use super::Replica;
use super::absorb::Source;
use crate::time::Timestamp;

/// Most messages that are waited for; the oldest is given up.
const UNACKED_MAX: usize = 64;

/// Messages that nobody has acknowledged yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Unacked {
    /// The number, the text, when to send it again, how often that may happen.
    messages: VecDeque<(u64, String, Timestamp, u32)>,
    sent: u64,
}

impl Unacked {
    pub(super) fn forget(&mut self, send: u64) {
        self.messages.retain(|(number, ..)| *number != send);
    }

    /// Nothing is sent again: the stamps in it may be those of a clock that was wrong.
    pub(super) fn forget_all(&mut self) {
        self.messages.clear();
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.messages.iter().map(|(_, _, due, _)| *due).min()
    }
}

impl Replica {
    /// Tells the others what is stored now.
    pub(super) fn announce(&mut self, changes: &[(String, EntityChange)]) {
        for chunk in changes.chunks(DELTA_MAX) {
            self.unacked.sent += 1;
            let send = self.unacked.sent;
            let text = message::write(send, chunk);
            self.unacked.messages.push_back((send, text.clone(), self.time.now + ACK_WAIT, RESENDS_MAX));
            if self.unacked.messages.len() > UNACKED_MAX {
                self.unacked.messages.pop_front();
            }
            self.out.push(Effect::Send { send, text });
        }
    }

    pub(super) fn resend(&mut self) {
        let now = self.time.now;
        let mut given_up = Vec::new();
        for (send, text, due, left) in &mut self.unacked.messages {
            if *due > now {
                continue;
            }
            if *left == 0 {
                given_up.push(*send);
                continue;
            }
            (*due, *left) = (now + ACK_WAIT, *left - 1);
            self.out.push(Effect::Send { send: *send, text: text.clone() });
        }
        for send in given_up {
            self.unacked.forget(send);
            self.report(Report::Unacknowledged);
        }
    }

    pub(super) fn on_message(&mut self, text: &str) {
        for (id, change) in message::read(text).unwrap_or_default() {
            let listed = self.index.lists(&id);
            match change {
                EntityChange::Removed(Some(stamp)) => {
                    self.time.clock.meet(stamp);
                    if self.index.join(&id, Entry { stamp, live: false }) {
                        self.recent.note(&id);
                        self.touch(&id);
                    }
                }
                // The sender knows nothing of stamps: what it saw is removed, in the index as well.
                EntityChange::Removed(None) => {
                    if let Some(entry) = self.index.entry(&id).filter(|entry| entry.live) {
                        self.index.join(&id, Entry { stamp: entry.stamp.after(self.time.wall), live: false });
                        self.mark(&id);
                        self.touch(&id);
                        self.work.read(self.index.layout().index_key(&id));
                    }
                }
                // Perhaps it is listed by now; storage knows.
                EntityChange::Set(_) if !listed => {
                    self.work.read(self.index.layout().index_key(&id));
                    self.work.read(INDEX_KEY.to_owned());
                }
                EntityChange::Set(stored) => {
                    let key = self.index.layout().value_key(&id);
                    if stored.stamp.is_none() || self.absorb_value(&id, Some(Ok(stored)), Source::Event) {
                        self.work.read(key);
                    } else {
                        // Somebody may have written over it meanwhile, and the one who stored it may be dead by now.
                        self.work.verify(std::iter::once(key.into()), self.time.now);
                    }
                }
            }
        }
    }
}
