//! The port over the tables: bounds are checked, pacers held, changes announced.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use syncline_core::queue::line::RowState;
use syncline_core::queue::{Answer, Enqueued, Kind, Outcome, Place};
use tokio::sync::watch;

use super::enqueue::Enqueue;
use super::groups::Hold;
use super::leave::{Dequeue, ForgetOld};
use super::paced::{self, Claim, Paced, Renew, Resume, Settle};
use super::registry::{PacerGuard, QueueRegistry};
use super::revive::{ChangePace, Clear, Pause, Remove, Revive, ReviveSome};
use super::row::{GroupRow, Header, Kept};
use super::table::Tables;
use super::{
    Claimed, Cursor, Ended, Entry, GivenUp, GroupStatus, List, NewTask, Next, Queues, Rules, SetPace, Status,
    check, follow,
};
use crate::Error;

/// Most answers that one transaction takes, and most bytes of results.
const SETTLE_STEP: usize = 1_000;
const SETTLE_STEP_BYTES: usize = 4 * 1_024 * 1_024;

/// [`Queues`] on some tables.
pub(crate) struct Port {
    tables: Tables,
    registry: QueueRegistry,
}

impl Port {
    pub(crate) fn new(tables: Tables, registry: QueueRegistry) -> Self {
        Self { tables, registry }
    }

    fn paced(&self, guard: &mut PacerGuard<'_>, rules: &Rules) -> Paced {
        Paced { pacer: guard.copy(), clock: self.registry.clock(), rules: *rules }
    }

    async fn hold(&self, queue: &str, rules: Option<Rules>, group: &str, held: bool) -> Result<(), Error> {
        check::name(queue)?;
        check::groups([group.to_owned()].iter())?;
        self.tables.change(queue, Hold { rules, group: group.to_owned(), held }).await?;
        self.changed(queue);
        Ok(())
    }

    /// Others, in this process and elsewhere, hear that the queue has changed.
    fn changed(&self, queue: &str) {
        self.registry.changed(queue);
        self.tables.notices().announce(queue);
    }
}

#[async_trait]
impl Queues for Port {
    async fn enqueue_tasks(
        &self,
        queue: &str,
        rules: &Rules,
        kind: Kind,
        tasks: Vec<NewTask>,
    ) -> Result<Enqueued, Error> {
        check::name(queue)?;
        check::keys(tasks.iter().map(|task| &task.key))?;
        check::inputs(&tasks)?;
        check::groups(tasks.iter().filter_map(|task| task.group.as_ref()))?;
        if tasks.is_empty() {
            return Ok(Enqueued::default());
        }
        let count = tasks.len();
        let work = Enqueue { rules: *rules, kind, tasks };
        let told = self.tables.change(queue, work).await??;
        if told.ignored < count {
            self.changed(queue);
        }
        Ok(told)
    }

    async fn claim_for(
        &self,
        queue: &str,
        rules: &Rules,
        max: usize,
        lease: Option<Duration>,
    ) -> Result<Claimed, Error> {
        check::name(queue)?;
        check::rules(rules)?;
        let state = self.registry.state(queue);
        let mut guard = state.enter(&rules.settings).await;
        let clock = self.registry.clock();
        // As long as the pace as last seen allows nothing, a look is enough, and keeps nobody else waiting.
        if max == 0 || !guard.is_ready(clock) {
            let header = self.tables.peek(queue).await?.unwrap_or_else(Header::empty);
            if let Some(claimed) = paced::look(guard.pacer(), &header, clock, rules) {
                return Ok(claimed);
            }
        }
        let work = Claim { paced: self.paced(&mut guard, rules), max, lease };
        let (claimed, pacer) = self.tables.change(queue, work).await?;
        guard.keep(pacer);
        if !claimed.lost.is_empty() {
            self.changed(queue);
        }
        Ok(claimed)
    }

    async fn settle_then(
        &self,
        queue: &str,
        rules: &Rules,
        answers: Vec<(u64, Answer<String>)>,
        then: Option<&Next>,
    ) -> Result<Vec<Ended>, Error> {
        check::name(queue)?;
        then.map_or(Ok(()), |then| check::name(&then.queue))?;
        check::rules(rules)?;
        let answers = answers.into_iter().map(|(call, answer)| (call, check::answer(answer)));
        let state = self.registry.state(queue);
        let mut guard = state.enter(&rules.settings).await;
        let mut ended = Vec::new();
        for answers in in_steps(answers) {
            let work = Settle { paced: self.paced(&mut guard, rules), answers, then: then.cloned() };
            let (some, dropped, pacer) = self.tables.change(queue, work).await?;
            guard.keep(pacer);
            state.count_dropped(dropped);
            self.changed(queue);
            if let Some(then) = then {
                self.changed(&then.queue);
            }
            ended.extend(some);
        }
        Ok(ended)
    }

    async fn renew_for(
        &self,
        queue: &str,
        rules: &Rules,
        calls: &[u64],
        lease: Option<Duration>,
    ) -> Result<Vec<Option<Instant>>, Error> {
        check::name(queue)?;
        check::rules(rules)?;
        let state = self.registry.state(queue);
        let mut guard = state.enter(&rules.settings).await;
        let work = Renew { paced: self.paced(&mut guard, rules), calls: calls.to_vec(), lease };
        let (deadlines, pacer) = self.tables.change(queue, work).await?;
        guard.keep(pacer);
        Ok(deadlines)
    }

    async fn abandoned(&self, queue: &str, calls: &[u64]) -> Result<Vec<u64>, Error> {
        check::name(queue)?;
        let Some(header) = self.tables.peek(queue).await? else { return Ok(calls.to_vec()) };
        let ages = header.calls().ages_of(calls);
        let rows = self.tables.running(ages.values().copied().collect()).await?;
        let there: HashSet<i64> = rows.iter().map(Kept::age).collect();
        let is_gone = |call: &&u64| ages.get(*call).is_none_or(|age| !there.contains(age));
        Ok(calls.iter().filter(is_gone).copied().collect())
    }

    async fn dequeue(
        &self,
        queue: &str,
        rules: &Rules,
        outcomes: Vec<(String, Outcome<String>)>,
    ) -> Result<usize, Error> {
        check::name(queue)?;
        check::keys(outcomes.iter().map(|(key, _)| key))?;
        let outcomes = outcomes.into_iter().map(|(key, outcome)| (key, check::outcome(outcome))).collect();
        let (ended, dropped) = self.tables.change(queue, Dequeue { rules: *rules, outcomes }).await?;
        self.registry.state(queue).count_dropped(dropped);
        if ended > 0 {
            self.changed(queue);
        }
        Ok(ended)
    }

    async fn revive(&self, queue: &str, keys: &[String]) -> Result<usize, Error> {
        check::name(queue)?;
        check::keys(keys.iter())?;
        let revived = self.tables.change(queue, Revive(keys.to_vec())).await?;
        if revived > 0 {
            self.changed(queue);
        }
        Ok(revived)
    }

    async fn revive_all(&self, queue: &str, given_up: GivenUp) -> Result<usize, Error> {
        check::name(queue)?;
        let at = match given_up {
            GivenUp::Dead => RowState::Dead,
            GivenUp::Failed => RowState::Failed,
        };
        let (mut revived, mut more) = (0, true);
        while more {
            let some;
            (some, more) = self.tables.change(queue, ReviveSome(at)).await?;
            revived += some;
            if some > 0 {
                self.changed(queue);
            }
        }
        Ok(revived)
    }

    async fn remove(&self, queue: &str, keys: &[String]) -> Result<usize, Error> {
        check::name(queue)?;
        check::keys(keys.iter())?;
        let removed = self.tables.change(queue, Remove(keys.to_vec())).await?;
        if removed > 0 {
            self.changed(queue);
        }
        Ok(removed)
    }

    async fn clear(&self, queue: &str, list: List) -> Result<usize, Error> {
        check::name(queue)?;
        let (mut removed, mut more) = (0, true);
        while more {
            let some;
            (some, more) = self.tables.change(queue, Clear(list)).await?;
            removed += some;
            if some > 0 {
                self.changed(queue);
            }
        }
        Ok(removed)
    }

    async fn pause(&self, queue: &str) -> Result<(), Error> {
        check::name(queue)?;
        self.tables.change(queue, Pause).await?;
        self.changed(queue);
        Ok(())
    }

    async fn resume(&self, queue: &str, rules: &Rules) -> Result<(), Error> {
        check::name(queue)?;
        check::rules(rules)?;
        let state = self.registry.state(queue);
        let mut guard = state.enter(&rules.settings).await;
        let work = Resume { paced: self.paced(&mut guard, rules) };
        let pacer = self.tables.change(queue, work).await?;
        guard.keep(pacer);
        self.changed(queue);
        Ok(())
    }

    async fn groups(
        &self,
        queue: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<GroupStatus>, Error> {
        check::name(queue)?;
        let limit = check::limit(limit)?;
        let Some(header) = self.tables.peek(queue).await? else { return Ok(Vec::new()) };
        // Names have no control characters, so this is the first text behind.
        let from = after.map_or_else(String::new, |after| format!("{after}\u{1}"));
        let rows = self.tables.groups(&header, &from, limit).await?;
        let clock = self.registry.clock();
        let status = |GroupRow { name, group }: GroupRow| GroupStatus {
            name,
            waiting: usize::try_from(group.waiting).unwrap_or(0),
            running: usize::try_from(group.running).unwrap_or(0),
            held: group.held,
            failures: u32::try_from(group.failures).unwrap_or(u32::MAX),
            next_call_at: group
                .ready_at
                .filter(|_| group.waiting > 0)
                .map(|at| clock.instant(clock.translate(at, header.now_ms))),
        };
        Ok(rows.into_iter().map(status).collect())
    }

    async fn pause_group(&self, queue: &str, group: &str) -> Result<(), Error> {
        self.hold(queue, None, group, true).await
    }

    async fn resume_group(&self, queue: &str, rules: &Rules, group: &str) -> Result<(), Error> {
        check::rules(rules)?;
        self.hold(queue, Some(*rules), group, false).await
    }

    async fn set_pace(&self, queue: &str, rules: &Rules, pace: Option<SetPace>) -> Result<(), Error> {
        check::name(queue)?;
        check::rules(&pace.unwrap_or_default().over(rules))?;
        self.tables.change(queue, ChangePace { rules: *rules, pace }).await?;
        self.changed(queue);
        Ok(())
    }

    async fn forget_old_results(&self, queue: &str, rules: &Rules) -> Result<usize, Error> {
        check::name(queue)?;
        let (mut forgotten, mut more) = (0, rules.result_ttl.is_some());
        while more {
            let some;
            (some, more) = self.tables.change(queue, ForgetOld(*rules)).await?;
            forgotten += some;
        }
        Ok(forgotten)
    }

    async fn entry(&self, queue: &str, key: &str) -> Result<Option<Entry>, Error> {
        check::name(queue)?;
        check::keys([key.to_owned()].iter())?;
        let known = self.tables.entry(queue, key).await?;
        Ok(known.map(|known| Entry { input: known.input, ..known.kept.entry(&known.calls) }))
    }

    async fn list(
        &self,
        queue: &str,
        list: List,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<Entry>, Error> {
        check::name(queue)?;
        let limit = check::limit(limit)?;
        let Some(header) = self.tables.peek(queue).await? else { return Ok(Vec::new()) };
        let calls = header.calls();
        let kept = match list {
            List::Running => self.tables.running(calls.ages()).await?,
            // What runs is still in line: so many may have to be left out.
            List::Waiting => self.tables.list(&header, list, after, limit + calls.len() as i64).await?,
            _ => self.tables.list(&header, list, after, limit).await?,
        };
        let mut entries: Vec<Entry> = kept.into_iter().map(|kept| kept.entry(&calls)).collect();
        match list {
            List::Running => {
                entries.retain(|entry| after.is_none_or(|after| entry.cursor.order > after.order));
                entries.sort_unstable_by_key(|entry| entry.cursor.order);
            }
            List::Waiting => entries.retain(|entry| entry.place == Place::Waiting),
            _ => {}
        }
        entries.truncate(usize::try_from(limit).unwrap_or(0));
        Ok(entries)
    }

    async fn status(&self, queue: &str, rules: &Rules) -> Result<Status, Error> {
        check::name(queue)?;
        check::rules(rules)?;
        let state = self.registry.state(queue);
        let mut guard = state.enter(&rules.settings).await;
        let header = self.tables.peek(queue).await?.unwrap_or_else(Header::empty);
        Ok(paced::status(guard.pacer(), &header, self.registry.clock(), rules))
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        self.tables.names().await
    }

    fn dropped(&self, queue: &str) -> u64 {
        self.registry.state(queue).dropped()
    }

    fn changes(&self, queue: &str) -> Result<watch::Receiver<u64>, Error> {
        check::name(queue)?;
        let changes = self.registry.changes(queue);
        follow::start(&self.tables, &self.registry);
        Ok(changes)
    }
}

/// Answers in portions that make a transaction of bearable size.
fn in_steps(
    answers: impl Iterator<Item = (u64, Answer<String>)>,
) -> impl Iterator<Item = Vec<(u64, Answer<String>)>> {
    let mut answers = answers.peekable();
    std::iter::from_fn(move || {
        let (mut step, mut bytes) = (Vec::new(), 0);
        while let Some((_, answer)) = answers.peek() {
            bytes += if let Answer::Done(result) = answer { result.len() } else { 0 };
            if step.len() == SETTLE_STEP || (bytes > SETTLE_STEP_BYTES && !step.is_empty()) {
                break;
            }
            step.extend(answers.next());
        }
        (!step.is_empty()).then_some(step)
    })
}
