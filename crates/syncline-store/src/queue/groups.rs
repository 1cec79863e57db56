//! The groups of a queue, as one transaction sees them: those it has to do with are read, changed by core's rules, and written with the
//! header.
//!
//! A queue has groups from the first time that its rules or a key name any. Keys that are in line by then are put into theirs step by
//! step, from the front on ([`regroup`]); the same mends groups whose calls nobody knows any more.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use syncline_core::queue::GroupSettings;
use syncline_core::queue::group::{Group, take_turns};
use syncline_core::queue::line::{Row, needs_ages};

use super::Rules;
use super::row::{GroupRow, Header};
use super::table::{Table, Work};
use crate::Error;

/// Keys that one transaction puts into groups, where they were in line before there were any.
const REGROUP_STEP: usize = 1_000;

/// Groups that are forgotten in one transaction.
const FORGET_STEP: usize = 100;

/// The groups that a transaction has to do with.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    pace: GroupSettings,
    breaker_threshold: u32,
    known: BTreeMap<i64, GroupRow>,
    touched: BTreeSet<i64>,
}

impl Default for Groups {
    /// For a transaction that does not know the pace: a group with calls under way is looked at again when one ends.
    fn default() -> Self {
        let pace = GroupSettings { concurrency: 1, ..GroupSettings::UNPACED };
        Self { pace, breaker_threshold: u32::MAX, known: BTreeMap::new(), touched: BTreeSet::new() }
    }
}

impl Groups {
    pub(super) fn set_pace(&mut self, rules: &Rules) {
        self.pace = rules.groups.unwrap_or(GroupSettings::UNPACED);
        self.breaker_threshold = rules.settings.breaker_threshold;
    }

    pub(super) fn pace(&self) -> GroupSettings {
        self.pace
    }

    /// A group that was loaded, to be changed.
    pub(super) fn change(&mut self, id: i64) -> Option<&mut Group> {
        let row = self.known.get_mut(&id)?;
        self.touched.insert(id);
        Some(&mut row.group)
    }
}

/// Has the keys of a queue in groups from now on, if it did not.
pub(super) fn begin(table: &mut Table<'_, '_>, header: &mut Header) {
    if header.grouped_since == 0 {
        start_over(table, header);
    }
}

fn start_over(table: &mut Table<'_, '_>, header: &mut Header) {
    header.grouped_since = header.line.take_tail();
    header.line.grouped = true;
    header.regroup_at = (!header.line.is_idle()).then_some(header.line.front);
    table.begin_groups(header.grouped_since);
}

/// Nobody knows which calls are under way: groups are made anew from the keys in line. Those that somebody holds stay held.
pub(super) async fn recover(table: &mut Table<'_, '_>, header: &mut Header) -> Result<(), Error> {
    if header.grouped_since == 0 {
        return Ok(());
    }
    let held = table.groups_held().await?;
    table.forget_groups().await?;
    start_over(table, header);
    for id in resolve(table, header, held.into_iter().collect()).await?.into_values() {
        if let Some(group) = header.groups.change(id) {
            group.held = true;
        }
    }
    Ok(())
}

/// Puts some of the keys that were in line before the queue had groups into theirs; tells whether there were any.
pub(super) async fn regroup(table: &mut Table<'_, '_>, header: &mut Header) -> Result<bool, Error> {
    let Some(from) = header.regroup_at else { return Ok(false) };
    let mut rows = table.line(from, REGROUP_STEP).await?;
    header.regroup_at = rows.last().filter(|_| rows.len() == REGROUP_STEP).map(|last| last.rank + 1);
    header.calls().mark(&mut rows);
    rows.retain(|row| row.is_waiting() && row.group == 0);
    join(table, header, &mut rows).await?;
    let joined: Vec<(i64, i64)> = rows.iter().map(|row| (row.arrival_no, row.group)).collect();
    table.set_groups(&joined).await?;
    Ok(true)
}

/// Puts those of `rows` that wait and are in no group into theirs, and notes where they all stand.
pub(super) async fn join(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    rows: &mut [Row],
) -> Result<(), Error> {
    if header.grouped_since == 0 {
        return Ok(());
    }
    let outside = |row: &&mut Row| row.is_waiting() && row.group == 0;
    let names: HashSet<String> = rows.iter_mut().filter(outside).map(|row| name_of(row)).collect();
    let ids = resolve(table, header, names).await?;
    for row in rows.iter_mut().filter(outside) {
        let id = ids[&name_of(row)];
        header.line.join(row, id);
    }
    header.line.note_places(rows.iter());
    Ok(())
}

/// Keys that nobody has put into a group are in one without a name.
fn name_of(row: &Row) -> String {
    row.group_name.clone().unwrap_or_default()
}

/// The numbers of the groups of these names; those that are not there are made.
pub(super) async fn resolve(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    names: HashSet<String>,
) -> Result<HashMap<String, i64>, Error> {
    let known = header.groups.known.values().filter(|row| names.contains(&row.name));
    let mut ids: HashMap<String, i64> = known.map(|row| (row.name.clone(), row.group.id)).collect();
    let mut missing: Vec<String> = names.into_iter().filter(|name| !ids.contains_key(name)).collect();
    if missing.is_empty() {
        return Ok(ids);
    }
    for row in table.groups_named(missing.clone()).await? {
        ids.insert(row.name.clone(), row.group.id);
        header.groups.known.insert(row.group.id, row);
    }
    missing.retain(|name| !ids.contains_key(name));
    missing.sort_unstable();
    for name in missing {
        let id = header.line.take_tail();
        ids.insert(name.clone(), id);
        header.groups.known.insert(id, GroupRow { name, group: Group::new(id) });
        header.groups.touched.insert(id);
    }
    Ok(ids)
}

/// Reads the groups of these numbers, as far as they are there and were not read yet.
pub(super) async fn load(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    ids: impl Iterator<Item = i64>,
) -> Result<(), Error> {
    let known = &header.groups.known;
    let missing: BTreeSet<i64> = ids.filter(|id| *id != 0 && !known.contains_key(id)).collect();
    if !missing.is_empty() {
        let rows = table.groups_numbered(missing.into_iter().collect()).await?;
        header.groups.known.extend(rows.into_iter().map(|row| (row.group.id, row)));
    }
    Ok(())
}

/// Writes what has changed of groups, in the order in which they were touched. Those with nothing left go.
pub(super) async fn save(table: &mut Table<'_, '_>, header: &mut Header) -> Result<(), Error> {
    let changes = std::mem::take(&mut header.line.groups);
    load(table, header, changes.keys().copied()).await?;
    for (id, change) in &changes {
        if let Some(group) = header.groups.change(*id) {
            group.note(change);
        }
    }
    let touched = std::mem::take(&mut header.groups.touched);
    let (mut over, mut changed) = (Vec::new(), Vec::new());
    for id in touched {
        let turn = header.line.take_tail();
        let Groups { pace, breaker_threshold, known, .. } = &mut header.groups;
        let Some(row) = known.get_mut(&id) else { continue };
        row.group.line_up(pace, *breaker_threshold, header.now_ms, turn);
        if row.group.is_over(header.now_ms) {
            over.push(id);
            known.remove(&id);
        } else {
            changed.push(row.clone());
        }
    }
    if !changed.is_empty() {
        table.put_groups(&changed).await?;
    }
    if !over.is_empty() {
        table.delete_groups(over).await?;
    }
    Ok(())
}

/// The next keys to run, at most `most`: one of each group that is ready, in turn. `running` are the ages of the others in line.
/// Tells also whether anything was found that is to be written.
pub(super) async fn next(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    rules: &Rules,
    running: &HashSet<i64>,
    most: usize,
) -> Result<(Vec<Row>, bool), Error> {
    let found = table.groups_ready(header.now_ms, most + FORGET_STEP).await?;
    let (mut ready, mut over) = (Vec::new(), false);
    for row in found {
        let (id, is_empty) = (row.group.id, row.group.waiting <= 0);
        header.groups.known.insert(id, row);
        if is_empty {
            header.groups.touched.insert(id);
            over = true;
        } else if ready.len() < most {
            ready.push(id);
        }
    }
    let groups: Vec<Group> = ready.iter().map(|id| header.groups.known[id].group.clone()).collect();
    let pace = header.groups.pace;
    let turns = take_turns(&groups, &pace, rules.settings.breaker_threshold, most);
    let mut counts = vec![0_usize; groups.len()];
    turns.iter().for_each(|index| counts[*index] += 1);
    let mut lines = lines(table, header, rules, running, &groups, &counts).await?;
    let rows: Vec<Row> = turns.into_iter().filter_map(|index| lines[index].pop_front()).collect();
    over |= !rows.is_empty();
    Ok((rows, over))
}

/// The next keys of each group, as many as are asked for.
async fn lines(
    table: &mut Table<'_, '_>,
    header: &mut Header,
    rules: &Rules,
    running: &HashSet<i64>,
    groups: &[Group],
    counts: &[usize],
) -> Result<Vec<VecDeque<Row>>, Error> {
    // What runs is in line, too, and may stand in front of what waits.
    let with_running = |group: &Group, count: usize| count + usize::try_from(group.running).unwrap_or(0);
    let asked: Vec<(&Group, usize)> = groups
        .iter()
        .zip(counts)
        .filter(|(_, count)| **count > 0)
        .map(|(g, c)| (g, with_running(g, *c)))
        .collect();
    if asked.is_empty() {
        return Ok(vec![VecDeque::new(); groups.len()]);
    }
    let mut by_rank = by_group(table.group_line(&asked).await?, running);
    let overtaken = |group: &Group| by_rank.get(&group.id).is_some_and(|rows| needs_ages(rows));
    let asked: Vec<(&Group, usize)> = asked.into_iter().filter(|(group, _)| overtaken(group)).collect();
    let mut by_age = match asked.is_empty() {
        true => HashMap::new(),
        false => by_group(table.group_ages(&asked).await?, running),
    };
    let mut lines = Vec::with_capacity(groups.len());
    for (group, count) in groups.iter().zip(counts) {
        let mut ranks = by_rank.remove(&group.id).unwrap_or_default();
        let mut ages = by_age.remove(&group.id).unwrap_or_default();
        ranks.sort_unstable_by_key(|row| row.rank);
        ages.sort_unstable_by_key(|row| row.arrival_no);
        ranks.truncate(*count);
        ages.truncate(*count);
        let found = ranks.len();
        let Header { groups, line, .. } = &mut *header;
        let changed = if *count > 0 { groups.change(group.id) } else { None };
        let Some(group) = changed else {
            lines.push(VecDeque::new());
            continue;
        };
        let rows = group.next(line, &rules.limits, ranks, ages);
        if found < *count {
            tracing::warn!(group = group.id, "a group had fewer keys than were counted; it is counted anew");
            group.waiting = 0;
        }
        lines.push(VecDeque::from(rows));
    }
    Ok(lines)
}

fn by_group(rows: Vec<Row>, running: &HashSet<i64>) -> HashMap<i64, Vec<Row>> {
    let mut by_group: HashMap<i64, Vec<Row>> = HashMap::new();
    for row in rows.into_iter().filter(|row| !running.contains(&row.arrival_no)) {
        by_group.entry(row.group).or_default().push(row);
    }
    by_group
}

/// Starts nothing of a group any more, or starts again.
pub(crate) struct Hold {
    pub(crate) rules: Option<Rules>,
    pub(crate) group: String,
    pub(crate) held: bool,
}

impl Work for Hold {
    type Made = ();

    async fn run(self, table: &mut Table<'_, '_>) -> Result<(), Error> {
        let mut header = table.open().await?;
        if let Some(rules) = &self.rules {
            header.groups.set_pace(&header.in_force(rules));
        }
        begin(table, &mut header);
        let ids = resolve(table, &mut header, HashSet::from([self.group])).await?;
        let (pace, now_ms) = (header.groups.pace(), header.now_ms);
        for id in ids.into_values() {
            let Some(group) = header.groups.change(id) else { continue };
            if self.held {
                group.held = true;
            } else {
                group.resume(&pace, now_ms);
            }
        }
        header.changes += 1;
        table.save(&mut header).await
    }
}
