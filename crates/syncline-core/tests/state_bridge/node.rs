//! A node with one space, in memory: the rules of core and nothing else.

use std::collections::BTreeMap;

use syncline_core::state::json::Json;
use syncline_core::state::names::{DELTA_MAX, PAGE_MAX_BYTES};
use syncline_core::state::{Change, Kept, Stamp, Start, is_forgotten};
use syncline_core::time::Timestamp;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) epoch: String,
    last: u64,
    forgotten: u64,
    floor: (Stamp, u64),
    pub(crate) rows: BTreeMap<String, (Kept, u64)>,
    /// Changes with stamps from too far ahead.
    pub(crate) ahead: u64,
}

impl Node {
    pub(crate) fn new(epoch: &str) -> Self {
        Self {
            epoch: epoch.to_owned(),
            last: 0,
            forgotten: 0,
            floor: (Stamp::ZERO, 0),
            rows: BTreeMap::new(),
            ahead: 0,
        }
    }

    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn live(&self) -> BTreeMap<String, String> {
        let value = |(id, (kept, _)): (&String, &(Kept, u64))| {
            Some((id.clone(), kept.stored.as_ref().filter(|_| kept.entry.live)?.value.text().to_owned()))
        };
        self.rows.iter().filter_map(value).collect()
    }

    /// Answers a query.
    pub(crate) fn pull(&self, query: &str, wall: u64) -> String {
        let part = |name: &str| {
            query
                .split('&')
                .find_map(|part| part.split_once('=').filter(|(key, _)| *key == name))
                .map(|part| part.1)
        };
        let after = part("after").expect("a number").parse().expect("a number");
        let known = part("epoch") == Some(self.epoch.as_str());
        let start = Start::of(after, known, part("paging").is_some(), self.last, self.forgotten);
        let after = if let Start::After(after) = start { after } else { 0 };
        let mut changes = Vec::new();
        if self.floor.1 > after {
            changes.push(Change::Reset(self.floor.0));
        }
        let mut rows: Vec<_> = self.rows.iter().filter(|(_, (_, number))| *number > after).collect();
        rows.sort_by_key(|(_, (_, number))| *number);
        let (mut cursor, mut bytes, mut more) = (self.last, 0, false);
        for (id, (kept, number)) in rows {
            if changes.len() > DELTA_MAX || bytes >= PAGE_MAX_BYTES {
                more = true;
                break;
            }
            bytes += kept.stored.as_ref().map_or(0, |stored| stored.value.text().len());
            cursor = *number;
            changes.push(Change::Entity { id: id.clone(), kept: kept.clone() });
        }
        let cursor = if more { cursor } else { self.last };
        let mut out = format!(
            "{{\"epoch\":\"{}\",\"cursor\":{cursor},\"more\":{more},\"whole\":{},\"unknown\":{},\"now\":{wall},\"changes\":",
            self.epoch,
            start == Start::Whole,
            start == Start::Unknown
        );
        Change::write_all(&changes, &mut out);
        out + "}"
    }

    /// Takes a batch, or refuses it.
    pub(crate) fn push(&mut self, body: &str, wall: u64) -> Result<String, &'static str> {
        let json = Json::read(body).expect("JSON");
        let after = json.member("after").and_then(Json::as_whole).expect("a number");
        let known = json.member("epoch").and_then(Json::as_text) == Some(self.epoch.as_str());
        if !matches!(Start::of(after, known, false, self.last, self.forgotten), Start::After(_)) {
            return Err("reload");
        }
        let from = self.last;
        let changes = Change::read_all(json.member("changes").expect("changes")).expect("sensible changes");
        assert!(changes.len() <= DELTA_MAX && body.len() < 2 * PAGE_MAX_BYTES);
        let mut lost = false;
        for mut change in changes {
            self.ahead += u64::from(change.check_ahead(Timestamp::from_ms(wall)));
            lost |= self.merge(&change, after);
        }
        Ok(format!(
            "{{\"epoch\":\"{}\",\"from\":{from},\"cursor\":{},\"lost\":{lost},\"now\":{wall}}}",
            self.epoch, self.last
        ))
    }

    /// Whether something came that is older than what its device should have had.
    fn merge(&mut self, change: &Change, after: u64) -> bool {
        match change {
            Change::Reset(floor) if *floor > self.floor.0 => {
                self.last += 1;
                self.floor = (*floor, self.last);
                self.rows.retain(|_, (kept, _)| kept.entry.stamp > *floor);
                false
            }
            Change::Reset(_) => false,
            Change::Entity { id, kept: news } => {
                let known = self.rows.get(id).cloned();
                let merged = Kept::merge(known.as_ref().map(|(kept, _)| kept), self.floor.0, news);
                if let Some(kept) = &merged {
                    self.last += 1;
                    self.rows.insert(id.clone(), (kept.clone(), self.last));
                }
                known.is_some_and(|(known, number)| number <= after && !merged.unwrap_or(known).shows(news))
            }
        }
    }

    /// Forgets removals beyond the horizon; how many.
    pub(crate) fn forget(&mut self, wall: u64) -> usize {
        let before = self.rows.len();
        let forgotten = &mut self.forgotten;
        self.rows.retain(|_, (kept, number)| {
            let stays = kept.entry.live || !is_forgotten(kept.entry.stamp, Timestamp::from_ms(wall));
            if !stays {
                *forgotten = (*forgotten).max(*number);
            }
            stays
        });
        before - self.rows.len()
    }
}
