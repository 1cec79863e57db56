//! The queue in the database against the queue in memory: whatever is done to both, they tell the same.

use std::env;
use std::hash::RandomState;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use syncline_core::queue::{Answer, Health, Kind, Limits, Outcome, Place, Queue, RunId, Settings, Settled};
use syncline_core::time::Timestamp;
use syncline_store::queue::{Ended, List, Queues, Rules, Run};

use super::fixture::Fixture;

const STEPS: u32 = 120;
const KEYS: u32 = 40;
/// Nothing comes back by itself within a test.
const DELAY: Duration = Duration::from_secs(3_600);

/// `SYNCLINE_SEEDS` sets how many histories are tried.
pub(crate) async fn qu_01_every_history_is_that_of_the_queue_in_memory(fixture: &Fixture) {
    let seeds = env::var("SYNCLINE_SEEDS").map_or(3, |seeds| seeds.parse::<u64>().unwrap().div_ceil(100));
    let first: u64 = env::var("SYNCLINE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    for seed in (0..seeds).map(|n| first.wrapping_add(n)) {
        println!("replay with SYNCLINE_SEED={seed}");
        let mut pair = Pair::new(fixture, seed);
        for _ in 0..STEPS {
            pair.step().await;
            pair.compare().await;
        }
    }
}

struct Pair {
    name: String,
    store: std::sync::Arc<dyn Queues>,
    rules: Rules,
    model: Queue<String, String>,
    running: Vec<(Run, RunId)>,
    dice: StdRng,
}

impl Pair {
    fn new(fixture: &Fixture, seed: u64) -> Self {
        let mut settings = Settings::new(30, Duration::ZERO, DELAY);
        settings.retry.max_attempts = 2;
        settings.retry.max_delay = DELAY;
        settings.breaker_threshold = u32::MAX;
        let limits = Limits { max_keys: 30, max_results: 8, max_overtakes: 3 };
        Self {
            name: format!("model-{seed}"),
            store: fixture.store.queues(),
            rules: Rules { limits, ..Rules::from(settings) },
            model: Queue::new(limits, RandomState::default()),
            running: Vec::new(),
            dice: StdRng::seed_from_u64(seed),
        }
    }

    async fn step(&mut self) {
        match self.dice.random_range(0..12) {
            0..=3 => self.enqueue().await,
            4..=6 => self.claim().await,
            7..=8 => self.settle().await,
            9 => self.dequeue().await,
            10 => self.remove().await,
            _ => self.revive().await,
        }
    }

    fn keys(&mut self, most: u32) -> Vec<String> {
        let count = self.dice.random_range(1..=most);
        (0..count).map(|_| format!("key {}", self.dice.random_range(0..KEYS))).collect()
    }

    async fn enqueue(&mut self) {
        let kinds = [Kind::New, Kind::New, Kind::Retry, Kind::Priority, Kind::Again];
        let kind = kinds[self.dice.random_range(0..kinds.len())];
        let keys = self.keys(8);
        let told = self.store.enqueue(&self.name, &self.rules, kind, &keys).await;
        match self.model.enqueue(kind, keys.clone()) {
            Ok(expected) => assert_eq!(told.unwrap(), expected, "{kind:?} {keys:?}"),
            Err(full) => assert_eq!(told.unwrap_err(), full.into(), "{kind:?} {keys:?}"),
        }
    }

    async fn claim(&mut self) {
        let max = self.dice.random_range(0..6);
        let claimed = self.store.claim(&self.name, &self.rules, max).await.unwrap();
        assert!(claimed.lost.is_empty());
        // A slot stays taken by the call of a key that was removed; then the store may give fewer than it was asked for.
        assert!(claimed.runs.len() == max.min(self.model.counts().waiting) || claimed.waits_for.is_some());
        for run in claimed.runs {
            let expected = self.model.start().unwrap();
            assert_eq!((&run.key, run.attempt), (expected.key, expected.attempt));
            let id = expected.id;
            self.running.push((run, id));
        }
    }

    async fn settle(&mut self) {
        let count = self.dice.random_range(0..=self.running.len());
        let mut ends: Vec<(Run, RunId, Answer<String>)> = Vec::new();
        for _ in 0..count {
            let (run, id) = self.running.swap_remove(self.dice.random_range(0..self.running.len()));
            let answer = match self.dice.random_range(0..6) {
                0..=1 => Answer::Done(format!("result {}", self.dice.random::<u32>())),
                2 => Answer::Refused { reason: "not found".to_owned() },
                3 => Answer::Throttled { retry_after: None },
                4 => Answer::Broken { reason: "no route".to_owned(), retry: true, away: false },
                // One at a time: several go back in the order they began, which the model cannot do.
                _ if ends.iter().all(|(.., answer)| *answer != Answer::NotMade) => Answer::NotMade,
                _ => Answer::Done("made".to_owned()),
            };
            ends.push((run, id, answer));
        }
        let answers = ends.iter().map(|(run, _, answer)| (run.call, answer.clone())).collect();
        let told = self.store.settle(&self.name, &self.rules, answers).await.unwrap();

        ends.sort_by_key(|(run, ..)| run.call);
        let mut expected: Vec<Ended> = Vec::new();
        for (run, id, answer) in ends {
            let outcome =
                self.rules.settings.judge(answer, run.attempt, Health::default(), Timestamp::ZERO, 0.0);
            if let Some(settled) = self.model.settle_run(id, outcome) {
                expected.push(Ended { call: run.call, key: run.key, settled });
            }
        }
        assert_eq!(undated(told), undated(expected));
    }

    async fn dequeue(&mut self) {
        let mut keys = self.keys(4);
        keys.sort();
        keys.dedup();
        let outcomes: Vec<(String, Outcome<String>)> = keys
            .into_iter()
            .map(|key| match self.dice.random_range(0..4) {
                0 => (key, Outcome::Failed("from elsewhere".to_owned())),
                1 => (key, Outcome::Dead("from elsewhere".to_owned())),
                2 => (key, Outcome::Retrying { due: Timestamp::from_ms(1 << 50) }),
                _ => (key, Outcome::Done("from elsewhere".to_owned())),
            })
            .collect();
        let told = self.store.dequeue(&self.name, &self.rules, outcomes.clone()).await.unwrap();
        assert_eq!(told, self.model.dequeue(outcomes.clone()), "{outcomes:?}");
    }

    async fn remove(&mut self) {
        let mut keys = self.keys(3);
        keys.sort();
        keys.dedup();
        let removed = self.store.remove(&self.name, &keys).await.unwrap();
        assert_eq!(removed, keys.iter().filter(|key| self.model.remove(*key).is_some()).count());
    }

    async fn revive(&mut self) {
        // One at a time: the model takes several in the order asked, the store in the order they died.
        let keys = self.keys(1);
        let revived = self.store.revive(&self.name, &keys).await.unwrap();
        assert_eq!(revived, keys.iter().filter(|key| self.model.revive(*key)).count());
    }

    async fn compare(&self) {
        let status = self.store.status(&self.name, &self.rules).await.unwrap();
        assert_eq!(status.counts, self.model.counts());
        let line = [self.list(List::Running).await, self.list(List::Waiting).await].concat();
        let expected: Vec<_> =
            self.model.line().map(|record| (record.key.clone(), record.place.clone())).collect();
        assert_eq!(line, expected);
        let ended = |dead: bool| {
            let records: Box<dyn Iterator<Item = _>> =
                if dead { Box::new(self.model.dead()) } else { Box::new(self.model.results()) };
            records.map(|record| (record.key.clone(), record.place.clone())).collect::<Vec<_>>()
        };
        let (done, failed): (Vec<_>, Vec<_>) =
            ended(false).into_iter().partition(|(_, place)| matches!(place, Place::Done(_)));
        assert_eq!(self.list(List::Done).await, done);
        assert_eq!(self.list(List::Failed).await, failed);
        assert_eq!(self.list(List::Dead).await, ended(true));
        let mut retrying: Vec<String> =
            self.list(List::Retrying).await.into_iter().map(|(key, _)| key).collect();
        let mut expected: Vec<String> = self.model.retrying().map(|record| record.key.clone()).collect();
        retrying.sort();
        expected.sort();
        assert_eq!(retrying, expected);
    }

    /// All of a list, page by page.
    async fn list(&self, list: List) -> Vec<(String, Place<String>)> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list(&self.name, list, after, 7).await.unwrap();
            let Some(last) = page.last() else { return all };
            after = Some(last.cursor.to_string().parse().unwrap());
            all.extend(page.into_iter().map(|entry| (entry.key, entry.place)));
        }
    }
}

/// Due times are the store's own.
fn undated(mut ended: Vec<Ended>) -> Vec<Ended> {
    for end in &mut ended {
        if let Settled::Retrying { due } = &mut end.settled {
            *due = Timestamp::ZERO;
        }
    }
    ended
}
