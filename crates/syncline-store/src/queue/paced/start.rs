//! Which keys start, as far as the pace allows: in the order of the line, or group by group.

use std::collections::HashMap;
use std::time::Duration;

use syncline_core::queue::line::Row;
use syncline_core::queue::{Outcome, Permit};
use syncline_core::time::Timestamp;

use super::super::row::Details;
use super::super::{Run, groups, leave, order};
use super::PacedTransaction;
use crate::Error;

/// How often a claim looks for further keys in place of those whose time was over.
const EXPIRED_STEPS: usize = 100;

/// Why a key failed that was not started in time.
const EXPIRED: &str = "not started before it expired";

impl PacedTransaction<'_, '_, '_> {
    /// Starts as many runs as the pace and the line allow. Keys whose time is over do not start and take no part of the pace;
    /// tells also whether there were any.
    pub(super) async fn start(
        &mut self,
        max: usize,
        lease: Option<Duration>,
    ) -> Result<(Vec<Run>, bool), Error> {
        if self.header.held {
            return Ok((Vec::new(), false));
        }
        let (mut runs, mut expired) = (Vec::new(), false);
        for _ in 0..EXPIRED_STEPS {
            let before = self.header.carries.then(|| self.pacer.clone());
            let most = (max - runs.len()).min(usize::try_from(self.header.line.waiting).unwrap_or(0));
            let mut permits = self.permits(most, lease);
            if permits.is_empty() {
                break;
            }
            self.touched = true;
            let running = self.ages.values().copied().collect();
            let mut rows =
                order::next(self.table, &mut self.header, &self.rules.limits, &running, permits.len())
                    .await?;
            let mut details = HashMap::new();
            let mut late = Vec::new();
            if self.header.carries {
                (details, late) = self.carried(&mut rows).await?;
            }
            if let Some(before) = before.filter(|_| !late.is_empty()) {
                *self.pacer = before;
                permits = self.permits(rows.len(), lease);
            }
            runs.extend(self.begin(rows, permits, &mut details, None));
            if late.is_empty() {
                break;
            }
            expired = true;
            self.expire(late).await?;
        }
        Ok((runs, expired))
    }

    /// The same for a queue with groups: those that are ready take turns.
    pub(super) async fn start_grouped(
        &mut self,
        max: usize,
        lease: Option<Duration>,
    ) -> Result<(Vec<Run>, bool), Error> {
        let (mut runs, mut expired) = (Vec::new(), false);
        // Groups of calls that were lost, and of keys that have just come, are among those to choose from.
        groups::save(self.table, &mut self.header).await?;
        for _ in 0..EXPIRED_STEPS {
            let most = (max - runs.len()).min(usize::try_from(self.header.line.waiting).unwrap_or(0));
            let most = self.allowed(most, lease);
            if self.header.held || most == 0 {
                break;
            }
            let running = self.ages.values().copied().collect();
            let (mut rows, found) =
                groups::next(self.table, &mut self.header, &self.rules, &running, most).await?;
            self.touched |= found;
            if rows.is_empty() {
                break;
            }
            let (mut details, mut late) = (HashMap::new(), Vec::new());
            if self.header.carries {
                (details, late) = self.carried(&mut rows).await?;
            }
            let permits = self.permits(rows.len(), lease);
            let start_by = self.begin_in_groups(&rows).await?;
            runs.extend(self.begin(rows, permits, &mut details, start_by));
            if late.is_empty() {
                break;
            }
            expired = true;
            self.expire(late).await?;
            groups::save(self.table, &mut self.header).await?;
        }
        Ok((runs, expired))
    }

    /// How many calls may start now, of up to `most`.
    fn allowed(&mut self, most: usize, lease: Option<Duration>) -> usize {
        let before = self.pacer.clone();
        let allowed = self.permits(most, lease).len();
        *self.pacer = before;
        allowed
    }

    /// Counts the starts of these keys in their groups, and tells by when they must have begun, where that matters.
    async fn begin_in_groups(&mut self, rows: &[Row]) -> Result<Option<Timestamp>, Error> {
        let pace = self.header.groups.pace();
        // A start is counted from when it was allowed, which is now and not when the header was read.
        let slack = pace.start_slack();
        let start_by = slack.map(|slack| self.clock.now() + slack);
        let now_ms = match slack {
            Some(_) => i64::try_from(self.table.now().await?.as_ms()).unwrap_or(i64::MAX),
            None => self.header.now_ms,
        };
        for row in rows {
            if let Some(group) = self.header.groups.change(row.group) {
                group.start(&pace, now_ms);
            }
        }
        Ok(start_by)
    }

    /// Permits for up to `most` calls.
    fn permits(&mut self, most: usize, lease: Option<Duration>) -> Vec<Permit> {
        let mut permits = Vec::new();
        while permits.len() < most {
            let Ok(permit) = self.pacer.start_for(self.clock.asking(self.pacer), lease) else { break };
            permits.push(permit);
        }
        permits
    }

    /// What these rows carry, by age. Those whose time is over are taken out of them and returned.
    async fn carried(&mut self, rows: &mut Vec<Row>) -> Result<(HashMap<i64, Details>, Vec<Row>), Error> {
        let ages: Vec<i64> = rows.iter().map(|row| row.arrival_no).collect();
        let details = self.table.details(&ages).await?;
        let details: HashMap<i64, Details> =
            details.into_iter().map(|details| (details.arrival_no, details)).collect();
        let now_ms = self.header.now_ms;
        let is_late = |row: &mut Row| {
            let details = details.get(&row.arrival_no);
            details.and_then(|details| details.expires_at).is_some_and(|at| at <= now_ms)
        };
        let late = rows.extract_if(.., is_late).collect();
        Ok((details, late))
    }

    fn begin(
        &mut self,
        rows: Vec<Row>,
        permits: Vec<Permit>,
        details: &mut HashMap<i64, Details>,
        start_by: Option<Timestamp>,
    ) -> Vec<Run> {
        let mut runs = Vec::with_capacity(rows.len());
        for (row, permit) in rows.into_iter().zip(permits) {
            self.ages.insert(permit.call, row.arrival_no);
            if row.group != 0 {
                self.call_groups.insert(permit.call, row.group);
            }
            let start_by = start_by.map_or(permit.start_by, |at| at.min(permit.start_by));
            runs.push(Run {
                key: row.key,
                group: row.group_name,
                call: permit.call,
                attempt: u32::try_from(row.attempts).unwrap_or(0).saturating_add(1),
                input: details.remove(&row.arrival_no).and_then(|details| details.input),
                start_by: self.clock.instant(start_by),
                deadline: self.clock.instant(permit.deadline),
            });
        }
        runs
    }

    /// Ends keys that were not started in time. They count as running since they were chosen.
    async fn expire(&mut self, late: Vec<Row>) -> Result<(), Error> {
        let mut updates = Vec::with_capacity(late.len());
        for mut row in late {
            row.call = Some(0);
            updates.push(self.header.line.leave(row, Outcome::Failed(EXPIRED.to_owned()), None));
        }
        leave::replace(self.table, &mut self.header, &self.rules, updates).await
    }
}
