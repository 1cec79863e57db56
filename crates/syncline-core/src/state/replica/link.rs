//! The way to a node: ask for what is new, take it over, send what is unsent, and begin again when something happens.
//!
//! It asks before it sends, so that a device that was away for longer than removals are remembered first hears what is gone.
//! The number reached is stored after the changes it stands for; a context that dies in between asks for them again. All of
//! this runs in one context at a time ([`Input::Link`](crate::state::Input::Link)); the others see what it stores.

use std::time::Duration;

use super::super::bridge::{Change, Kept};
use super::super::index::Entry;
use super::super::json::{Json, write_text};
use super::super::names::{AHEAD_MAX, CURSOR_KEY, ORPHAN_GRACE, POLL_EVERY};
use super::super::port::{Effect, Error, LinkStatus};
use super::super::sorted::Set;
use super::super::stamp::Stamp;
use super::ops::{Caller, Request};
use super::{Phase, Replica};
use crate::retry;
use crate::time::Timestamp;

/// The first pause after a failure; each is twice the one before, up to the longest, for as long as it takes.
const PAUSE_INITIAL: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A moment up to which everything was exchanged is stored again when it is this old.
const SINCE_AGE_MAX: Duration = Duration::from_secs(3_600);
/// The refusal of a node whose removals this device has not all heard of.
const RELOAD: &str = "reload";

/// How far the node's changes have been taken over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Which log.
    epoch: String,
    number: u64,
    /// Everything added up to here has been sent.
    since: Stamp,
    /// Under whose name things are exchanged; empty: nobody has been named yet.
    subject: String,
}

/// Where things stand.
#[derive(Debug, Clone)]
pub(super) struct Link {
    up: bool,
    doing: Doing,
    cursor: Cursor,
    /// The cursor as it may be stored: everything up to it has been taken over.
    kept: Cursor,
    /// It is to be stored.
    cursor_due: bool,
    /// The node has, or may have, something new.
    pull_due: bool,
    /// The node knows nothing of this device: everything behind this id is still to be sent.
    fill: Option<String>,
    /// While everything is asked for: in pages, and what was in them so far.
    paging: bool,
    present: Option<Set>,
    /// The changes of the last page of everything, until it is known which of ours the node cannot have.
    last_page: Vec<Change>,
    failures: u32,
    not_before: Timestamp,
    poll_at: Timestamp,
    told: LinkStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Doing {
    Nothing,
    Pulling(u64),
    /// Storage is searched for marks; what the page leads to.
    Listing {
        number: u64,
    },
    /// A page is being stored; what it leads to.
    Taking {
        number: u64,
        more: bool,
    },
    Pushing(u64, Option<String>),
}

impl Default for Link {
    fn default() -> Self {
        Self {
            up: false,
            doing: Doing::Nothing,
            cursor: Cursor::default(),
            kept: Cursor::default(),
            cursor_due: false,
            pull_due: false,
            fill: None,
            paging: false,
            present: None,
            last_page: Vec::new(),
            failures: 0,
            not_before: Timestamp::ZERO,
            poll_at: Timestamp::ZERO,
            told: LinkStatus::Down,
        }
    }
}

impl Cursor {
    pub(super) fn text(&self) -> String {
        let mut out = String::from("{\"epoch\":");
        write_text(&self.epoch, &mut out);
        out.push_str(",\"number\":");
        out.push_str(&self.number.to_string());
        out.push_str(",\"since\":\"");
        out.push_str(&self.since.text());
        out.push('"');
        if !self.subject.is_empty() {
            out.push_str(",\"subject\":");
            write_text(&self.subject, &mut out);
        }
        out.push('}');
        out
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let json = Json::read(text).ok()?;
        Some(Self {
            // Empty: nothing has been exchanged yet.
            epoch: json
                .member("epoch")?
                .as_text()
                .filter(|epoch| epoch.is_empty() || is_epoch(epoch))?
                .to_owned(),
            number: json.member("number")?.as_whole()?,
            since: json.member("since")?.as_text().and_then(Stamp::read)?,
            subject: json.member("subject").and_then(Json::as_text).unwrap_or_default().to_owned(),
        })
    }
}

/// It becomes part of a query.
fn is_epoch(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Link {
    fn due(&self) -> Option<Timestamp> {
        (self.up && self.doing == Doing::Nothing).then(|| self.poll_at.max(self.not_before))
    }

    /// Answers on the way are not waited for, and what was begun is begun anew.
    fn restart(&mut self) {
        if self.paging || self.fill.is_some() {
            self.cursor = self.kept.clone();
        }
        self.doing = Doing::Nothing;
        (self.pull_due, self.paging, self.present, self.fill) = (true, false, None, None);
    }
}

impl Replica {
    pub(super) fn on_link(&mut self, up: bool) {
        self.link.up = up;
        (self.link.failures, self.link.not_before) = (0, Timestamp::ZERO);
        if self.link.doing == Doing::Nothing || !up {
            self.link.restart();
        }
        // An answer on its way may be older than this.
        self.link.pull_due = true;
        self.tell_link(if up { LinkStatus::Behind } else { LinkStatus::Down });
    }

    /// When to look again for something to say.
    pub(super) fn link_due(&self) -> Option<Timestamp> {
        let link = self.link.due().filter(|_| self.phase == Phase::Ready)?;
        let marks = self.marks.due().filter(|due| *due > self.time.now);
        Some(marks.map_or(link, |due| due.min(link)))
    }

    pub(super) fn on_told(&mut self, number: u64) {
        self.link.pull_due |= number != self.link.cursor.number;
    }

    /// Says the next thing there is to say to the node.
    pub(super) fn pump_link(&mut self) {
        let rests = self.time.now < self.link.not_before;
        if !self.link.up || self.phase != Phase::Ready || self.link.doing != Doing::Nothing || rests {
            return;
        }
        self.link.pull_due |= self.time.now >= self.link.poll_at;
        if self.link.pull_due {
            return self.pull();
        }
        if let Some(after) = &self.link.fill {
            let changes = self.all_after(after);
            if let Some(last) = changes.last() {
                let reached = last.id().to_owned();
                return self.push(&changes, Some(reached));
            }
            self.link.fill = None;
            self.keep_cursor();
        }
        let changes = self.take_unsent();
        if !changes.is_empty() {
            return self.push(&changes, None);
        }
        if self.ops.under_way.is_empty() && self.marks.is_empty() {
            // What other contexts did just now may not have been heard of.
            let latest = self.time.clock.latest();
            self.link.cursor.since = latest.at(self.time.wall.saturating_before(ORPHAN_GRACE));
            // It matters in weeks, so that it is seldom stored for its own sake.
            let age = self.link.cursor.since.wall().saturating_since(self.link.kept.since.wall());
            if self.link.cursor_due || age > SINCE_AGE_MAX {
                self.keep_cursor();
            }
        }
        self.tell_link(LinkStatus::InStep);
    }

    fn pull(&mut self) {
        let (ask, link) = (self.requests.number(), &mut self.link);
        let mut query = String::from("after=");
        query.push_str(&link.cursor.number.to_string());
        if !link.cursor.epoch.is_empty() {
            query.push_str("&epoch=");
            query.push_str(&link.cursor.epoch);
        }
        if link.paging {
            query.push_str("&paging=true");
        }
        link.doing = Doing::Pulling(ask);
        link.pull_due = false;
        link.poll_at = self.time.now + POLL_EVERY;
        self.out.push(Effect::Pull { ask, query });
    }

    fn push(&mut self, changes: &[Change], reached: Option<String>) {
        let ask = self.requests.number();
        let mut body = String::from("{\"after\":");
        body.push_str(&self.link.cursor.number.to_string());
        body.push_str(",\"epoch\":\"");
        body.push_str(&self.link.cursor.epoch);
        body.push_str("\",\"changes\":");
        Change::write_all(changes, &mut body);
        body.push('}');
        self.link.doing = Doing::Pushing(ask, reached);
        self.tell_link(LinkStatus::Behind);
        self.out.push(Effect::Push { ask, body });
    }

    pub(super) fn on_answered(&mut self, ask: u64, text: &str) {
        let json = Json::read(text).unwrap_or(Json::Null);
        let now = json.member("now").and_then(Json::as_whole);
        let (pulling, reached) = match &self.link.doing {
            Doing::Pulling(asked) if *asked == ask => (true, None),
            Doing::Pushing(asked, reached) if *asked == ask => (false, reached.clone()),
            _ => return,
        };
        self.link.doing = Doing::Nothing;
        match now {
            None => return self.link_failed(LinkStatus::Unreachable, 0),
            Some(now) if self.is_off(Timestamp::from_ms(now)) => {
                self.time.clock.unsettle();
                return self.link_failed(LinkStatus::ClockOff, 0);
            }
            Some(now) => self.time.clock.confirm(Timestamp::from_ms(now), self.time.wall),
        }
        self.link.failures = 0;
        let understood = if pulling { self.on_page(&json) } else { self.on_pushed(&json, reached) };
        if understood.is_none() {
            self.link_failed(LinkStatus::Unreachable, 0);
        }
    }

    /// Whether this machine's clock and the node's are too far apart: what is ahead here would win over all others.
    fn is_off(&self, node: Timestamp) -> bool {
        self.time.wall > node + AHEAD_MAX || node > self.time.wall + AHEAD_MAX
    }

    fn on_page(&mut self, json: &Json) -> Option<()> {
        let says = |name| json.member(name) == Some(&Json::Bool(true));
        let epoch = json.member("epoch")?.as_text().filter(|epoch| is_epoch(epoch))?;
        let (number, more) = (json.member("cursor")?.as_whole()?, says("more"));
        let changes = Change::read_all(json.member("changes")?).ok()?;
        if says("unknown") {
            self.link.fill = Some(String::new());
        }
        if says("whole") {
            self.link.present = Some(Set::new());
        }
        self.link.paging |= says("unknown") || says("whole");
        epoch.clone_into(&mut self.link.cursor.epoch);
        if let Some(present) = &mut self.link.present {
            present.extend(changes.iter().map(|change| change.id().to_owned()));
        }
        self.link.paging &= more;
        if !more && self.link.present.is_some() {
            // Another context may have listed something whose mark has not been heard of.
            self.marks.unread = true;
            self.link.last_page = changes;
            self.link.doing = Doing::Listing { number };
        } else {
            self.take_page(changes, number, more);
        }
        Some(())
    }

    /// All marks in storage are known now: what has none and is not in the last page is gone.
    pub(super) fn on_marks_read(&mut self) {
        let Doing::Listing { number } = self.link.doing else { return };
        let mut changes = std::mem::take(&mut self.link.last_page);
        if let Some(present) = self.link.present.take() {
            let gone = self.missing_from(&present);
            gone.iter().for_each(|change| self.unmark(change.id()));
            changes.extend(gone);
        }
        self.take_page(changes, number, false);
    }

    fn take_page(&mut self, changes: Vec<Change>, number: u64, more: bool) {
        self.link.doing = Doing::Taking { number, more };
        if changes.is_empty() {
            self.on_taken(None);
        } else {
            self.ops.push(Caller::Node, Request::Remote(changes));
        }
    }

    /// Removals of everything that the node had when last asked and has not any more.
    fn missing_from(&self, present: &Set) -> Vec<Change> {
        let since = self.link.cursor.since;
        let missing = self.index.ids().filter(|id| !present.contains(id));
        let removal = |id: &str| {
            // What the node was never told of cannot have been removed there.
            let entry = self.index.entry(id)?;
            // Nor what another context added, who had not heard of the latest era.
            let is_new = entry.stamp > since || entry.stamp.wall() > since.wall();
            if is_new && (self.marks.holds(id) || self.requests.writes_mark(id)) {
                return None;
            }
            let entry = Entry { stamp: entry.stamp.next(), live: false };
            Some(Change::Entity { id: id.to_owned(), kept: Kept { entry, stored: None } })
        };
        missing.filter_map(removal).collect()
    }

    /// The changes of a page are stored, or not.
    pub(super) fn on_taken(&mut self, error: Option<&Error>) {
        let Doing::Taking { number, more } = self.link.doing else { return };
        self.link.doing = Doing::Nothing;
        if error.is_some() {
            return self.link_failed(LinkStatus::Behind, 0);
        }
        self.link.cursor.number = number;
        // What was heard of meanwhile is still to be asked for.
        self.link.pull_due |= more;
        self.keep_cursor();
    }

    fn on_pushed(&mut self, json: &Json, reached: Option<String>) -> Option<()> {
        let epoch = json.member("epoch")?.as_text()?;
        let (from, number) = (json.member("from")?.as_whole()?, json.member("cursor")?.as_whole()?);
        if epoch != self.link.cursor.epoch {
            self.link.pull_due = true;
            return Some(());
        }
        if reached.is_some() {
            self.link.fill = reached;
        } else {
            self.on_sent();
        }
        if json.member("lost") == Some(&Json::Bool(true)) {
            // What this device had was replaced by something older, as by a clock that was wrong for a while.
            self.link.cursor.number = 0;
            self.link.pull_due = true;
        } else if from == self.link.cursor.number {
            // What lies between is what was just sent.
            self.link.cursor.number = number;
        } else {
            self.link.pull_due = true;
        }
        self.keep_cursor();
        Some(())
    }

    /// Lets the cursor be stored, unless what it stands for is not complete.
    fn keep_cursor(&mut self) {
        if !self.link.paging && self.link.fill.is_none() && self.link.kept != self.link.cursor {
            self.link.kept = self.link.cursor.clone();
            self.link.cursor_due = true;
            self.work.read(CURSOR_KEY.to_owned());
        }
    }

    pub(super) fn cursor_text(&self) -> String {
        self.link.kept.text()
    }

    pub(super) fn on_cursor_stored(&mut self) {
        self.link.cursor_due = false;
    }

    /// Whether what is stored here may be exchanged under the name `subject`: a storage belongs to the first one that it was
    /// exchanged for, so that nobody's changes go out under another name. `None`: not before everything is loaded.
    pub fn admits(&mut self, subject: &str) -> Option<bool> {
        if self.phase != Phase::Ready || !self.is_bridged() {
            return None;
        }
        if self.link.kept.subject.is_empty() && !subject.is_empty() {
            subject.clone_into(&mut self.link.kept.subject);
            subject.clone_into(&mut self.link.cursor.subject);
            self.link.cursor_due = true;
            self.work.read(CURSOR_KEY.to_owned());
        }
        Some(self.link.kept.subject == subject)
    }

    /// Takes over how far the context before this one came; whether the key is to be written.
    pub(super) fn absorb_cursor(&mut self, text: Option<&str>) -> bool {
        if self.link.cursor_due {
            return text != Some(self.link.kept.text().as_str());
        }
        if text.is_none() && self.phase == Phase::Loading && self.link.kept == Cursor::default() {
            // A cursor that leads nowhere: contexts without a bridge see by it that there is one.
            self.link.cursor_due = true;
            return true;
        }
        if let Some(cursor) = text.and_then(Cursor::read)
            && (!self.link.up || self.phase == Phase::Loading)
        {
            // Whatever is added from now on is later.
            self.time.clock.meet(cursor.since);
            self.link.kept = cursor.clone();
            self.link.cursor = cursor;
        }
        false
    }

    pub(super) fn on_unanswered(&mut self, ask: u64, refusal: Option<String>, random: u32) {
        match &self.link.doing {
            Doing::Pulling(asked) | Doing::Pushing(asked, _) if *asked == ask => {}
            _ => return,
        }
        match refusal {
            Some(word) if word == RELOAD && self.link.failures == 0 => {
                self.link.restart();
                self.link.failures = 1;
            }
            Some(word) => self.link_failed(LinkStatus::Refused(word), random),
            None => self.link_failed(LinkStatus::Unreachable, random),
        }
    }

    /// Waits, and then begins anew.
    fn link_failed(&mut self, status: LinkStatus, random: u32) {
        self.link.restart();
        self.link.failures = self.link.failures.saturating_add(1);
        let pause = retry::doubled(PAUSE_INITIAL, PAUSE_MAX, self.link.failures, random);
        self.link.not_before = self.time.now + pause;
        self.tell_link(status);
    }

    /// After everything was forgotten: storage says how far it came, if it is still there. What is remembered would hide that it
    /// was cleared.
    pub(super) fn relink(&mut self) {
        self.link.restart();
        (self.link.cursor, self.link.kept) = (Cursor::default(), Cursor::default());
        self.link.cursor_due = false;
    }

    fn tell_link(&mut self, status: LinkStatus) {
        if self.link.told != status {
            self.link.told = status.clone();
            self.out.push(Effect::Link(status));
        }
    }
}
