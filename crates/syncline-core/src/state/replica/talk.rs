//! Messages: sent when a write is stored, sent again until acknowledged, and never needed.

use std::collections::BTreeMap;

use super::super::index::Entry;
use super::super::message::{self, Said};
use super::super::names::{ACK_WAIT, DELTA_MAX, INDEX_KEY, RESENDS_MAX};
use super::super::port::{Effect, Report};
use super::Replica;
use super::absorb::Source;
use crate::time::Timestamp;

/// Most messages that are waited for; the oldest is given up.
const UNACKED_MAX: usize = 64;

/// Messages that nobody has acknowledged yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Talk {
    /// By number: the text, when to send it again, how often that may happen.
    unacked: BTreeMap<u64, (String, Timestamp, u32)>,
    sent: u64,
}

impl Talk {
    pub(super) fn forget(&mut self, send: u64) {
        self.unacked.remove(&send);
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.unacked.values().map(|(_, due, _)| *due).min()
    }
}

impl Replica {
    /// Tells the others what is stored now.
    pub(super) fn tell(&mut self, said: &[(String, Said)]) {
        for chunk in said.chunks(DELTA_MAX) {
            self.talk.sent += 1;
            let send = self.talk.sent;
            let text = message::write(send, chunk);
            self.talk.unacked.insert(send, (text.clone(), self.now + ACK_WAIT, RESENDS_MAX));
            if self.talk.unacked.len() > UNACKED_MAX {
                self.talk.unacked.pop_first();
            }
            self.out.push(Effect::Send { send, text });
        }
    }

    pub(super) fn resend(&mut self) {
        let now = self.now;
        let due: Vec<u64> =
            self.talk.unacked.iter().filter(|(_, waits)| waits.1 <= now).map(|(send, _)| *send).collect();
        for send in due {
            let Some((text, due, left)) = self.talk.unacked.get_mut(&send) else { continue };
            if *left == 0 {
                self.talk.forget(send);
                self.report(Report::Unacknowledged);
                continue;
            }
            (*due, *left) = (now + ACK_WAIT, *left - 1);
            let text = text.clone();
            self.out.push(Effect::Send { send, text });
        }
    }

    pub(super) fn on_message(&mut self, text: &str) {
        for (id, said) in message::read(text).unwrap_or_default() {
            let listed = self.index.lists(&id);
            match said {
                Said::Removed(Some(stamp)) => {
                    let stamp = self.clock.meet(stamp, self.wall);
                    if self.index.join(&id, Entry { stamp, live: false }) {
                        self.touch(&id);
                    }
                }
                // The sender knows nothing of stamps: what it saw is removed, in the index as well.
                Said::Removed(None) => {
                    if let Some(entry) = self.index.entry(&id).filter(|entry| entry.live) {
                        self.index.join(&id, Entry { stamp: entry.stamp.after(self.wall), live: false });
                        self.mark(&id);
                        self.touch(&id);
                        self.dirty.insert(self.index.layout().index_key(&id));
                    }
                }
                // Perhaps it is listed by now; storage knows.
                Said::Set(_) if !listed => {
                    self.dirty.insert(self.index.layout().index_key(&id));
                    self.dirty.insert(INDEX_KEY.to_owned());
                }
                Said::Set(stored) => {
                    if stored.stamp.is_none() || self.absorb_value(&id, Some(Ok(stored)), Source::Event) {
                        self.dirty.insert(self.index.layout().value_key(&id));
                    }
                }
            }
        }
    }
}
