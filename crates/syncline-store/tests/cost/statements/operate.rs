//! Everything that the ports do, a little of each.

use std::time::Duration;

use syncline_core::kv::{Condition as KeyCondition, Key};
use syncline_core::lock::{LeaseId, Name, Ttl};
use syncline_core::outbox::{EntityType, Moment, SenderId, Verdict};
use syncline_core::queue::{Answer, GroupSettings, Kind, Outcome};
use syncline_core::schedule::{Bucket, Cost, Reason};
use syncline_core::state::names::HORIZON;
use syncline_core::state::{ServerWrite, Space, Value};
use syncline_core::time::Timestamp;
use syncline_store::Store;
use syncline_store::inbox::Arrival;
use syncline_store::kv::Operation;
use syncline_store::lock::Request;
use syncline_store::outbox::{self, NewEntry, Receipt, Which};
use syncline_store::queue::{GivenUp, KEYS_MAX, List, NewTask, Rules};
use syncline_store::schedule::{self, Dead, Ending, Filter, Intent, Keep, Nodes, Show};
use syncline_store::state::{Asked, Batch, Condition};

use super::fill::{put, removed, rules};

const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn operate(store: &Store, size: usize, round: usize) {
    queue(store, size, round).await;
    kv(store, round).await;
    lock(store, round).await;
    outbox(store, round).await;
    inbox(store, round).await;
    schedule(store, round).await;
    state(store, round).await;
}

async fn queue(store: &Store, size: usize, round: usize) {
    let (queues, rules) = (store.queues(), rules());
    let some = |from: usize| (from..from + 5).map(|n| format!("key {n}")).collect::<Vec<_>>();
    let fresh: Vec<String> = (0..5).map(|n| format!("fresh {round} {n}")).collect();
    queues.enqueue("own", &rules, Kind::New, &fresh).await.unwrap();
    let carrying = (0..3).map(|n| NewTask {
        input: Some("1".to_owned()),
        delay: (n == 0).then_some(Duration::from_secs(60)),
        expires_in: Some(Duration::from_secs(60)),
        ..NewTask::from(format!("carrying {round} {n}"))
    });
    queues.enqueue_tasks("own", &rules, Kind::Priority, carrying.collect()).await.unwrap();
    queues.pause("own").await.unwrap();
    queues.resume("own", &rules).await.unwrap();
    for kind in [Kind::New, Kind::Priority, Kind::Retry, Kind::Again] {
        queues.enqueue("own", &rules, kind, &some(size - 50 - 10 * round)).await.unwrap();
    }
    let claim = async || queues.claim("own", &rules, 5).await.unwrap().runs;
    for (n, answer) in [
        Answer::Done("result".to_owned()),
        Answer::Refused { reason: "no".to_owned() },
        Answer::Throttled { retry_after: None },
        Answer::NotMade,
    ]
    .into_iter()
    .enumerate()
    {
        let runs = claim().await;
        assert_eq!(runs.len(), 5, "{n}");
        let calls: Vec<u64> = runs.iter().map(|run| run.call).collect();
        queues.renew("own", &rules, &calls).await.unwrap();
        queues.list("own", List::Running, None, 5).await.unwrap();
        queues
            .settle("own", &rules, calls.into_iter().map(|call| (call, answer.clone())).collect())
            .await
            .unwrap();
    }
    let outcomes = some(size - 60 - 10 * round).into_iter().map(|key| (key, Outcome::Done("r".to_owned())));
    queues.dequeue("own", &rules, outcomes.collect()).await.unwrap();
    for list in [List::Waiting, List::Retrying, List::Done, List::Failed, List::Dead] {
        let page = queues.list("own", list, None, 3).await.unwrap();
        let after = page.last().map(|entry| entry.cursor);
        queues.list("own", list, after, 3).await.unwrap();
    }
    queues.revive("own", &some(0)).await.unwrap();
    for given_up in [GivenUp::Dead, GivenUp::Failed] {
        queues.revive_all("own", given_up).await.unwrap();
    }
    queues.remove("own", &some(size / 2 + 10 * round)).await.unwrap();
    queues.status("own", &rules).await.unwrap();
    queues.entry("own", "key 7").await.unwrap();
    queues.names().await.unwrap();
    grouped(store, size, round).await;
    let mut few = rules;
    few.limits.max_results = 5;
    queues.enqueue("own", &few, Kind::New, &[format!("one more {round}")]).await.unwrap();
}

async fn kv(store: &Store, round: usize) {
    let kv = store.kv();
    let key = Key::new(format!("own:new {round}")).unwrap();
    kv.put_new(&key, "1", Some(MINUTE)).await.unwrap();
    kv.put(&key, "2", Some(MINUTE)).await.unwrap();
    kv.put(&Key::new(format!("own:brief {round}")).unwrap(), "2", Some(Duration::from_millis(1)))
        .await
        .unwrap();
    kv.get(&Key::new("own:7").unwrap()).await.unwrap();
    kv.list("own:", 5).await.unwrap();
    kv.list("nobody:", 5).await.unwrap();
    kv.apply(vec![
        Operation::Put {
            key: key.clone(),
            value: "3".to_owned(),
            ttl: Some(MINUTE),
            condition: KeyCondition::Present,
        },
        Operation::Increment { key: Key::new(format!("own:count {round}")).unwrap(), by: 1, ttl: None },
        Operation::Increment { key: Key::new(format!("own:count {round}")).unwrap(), by: 1, ttl: None },
        Operation::Get { key: Key::new("own:7").unwrap() },
        Operation::Delete {
            key: Key::new(format!("own:{}", round + 30)).unwrap(),
            condition: KeyCondition::None,
        },
    ])
    .await
    .unwrap()
    .unwrap();
    store.kv_space("node").unwrap().list("", 5).await.unwrap();
    kv.sweep(5).await.unwrap();
    kv.delete(&Key::new(format!("own:{}", round + 10)).unwrap()).await.unwrap();
}

async fn lock(store: &Store, round: usize) {
    let (locks, lease) = (store.locks(), LeaseId::from_random(rand::random()));
    let name = Name::new(format!("new:{round}")).unwrap();
    let request = Request { name: &name, lease, holder: "h", ttl: Ttl::DEFAULT, waits: true };
    locks.acquire(request).await.unwrap();
    let other = LeaseId::from_random(rand::random());
    locks.acquire(Request { lease: other, ..request }).await.unwrap();
    locks.renew(&name, lease, Ttl::DEFAULT).await.unwrap().unwrap();
    locks.renew(&name, other, Ttl::DEFAULT).await.unwrap().unwrap_err();
    locks.look(&name).await.unwrap();
    locks.release(&name, lease).await.unwrap().unwrap();
    locks.acquire(request).await.unwrap();
    locks.force_release(&name).await.unwrap();
    locks.list("own:", None, 5).await.unwrap();
    locks.sweep(5).await.unwrap();
}

async fn outbox(store: &Store, round: usize) {
    let outbox = store.outbox();
    let new = |n: usize| NewEntry {
        entity_type: "order".to_owned(),
        entity_id: format!("fresh {round} {}", n / 2),
        payload: "{}".to_owned(),
    };
    outbox.enqueue(&(0..4).map(new).collect::<Vec<_>>()).await.unwrap();
    for verdict in [
        Verdict::Done,
        Verdict::Retry { after: Duration::ZERO, reason: "r".to_owned() },
        Verdict::Dead { reason: "r".to_owned() },
        Verdict::GiveBack,
    ] {
        let claimed = outbox.claim("w", outbox::Kind::Change, 5, MINUTE).await.unwrap();
        assert!(!claimed.entries.is_empty());
        let ids: Vec<i64> = claimed.entries.iter().map(|entry| entry.id).collect();
        outbox.renew(claimed.claim, &ids, MINUTE).await.unwrap();
        outbox
            .settle(claimed.claim, &ids.into_iter().map(|id| (id, verdict.clone())).collect::<Vec<_>>())
            .await
            .unwrap();
    }
    outbox.claim("w", outbox::Kind::File, 5, MINUTE).await.unwrap();
    let pending = outbox.fetch_pending(5).await.unwrap();
    outbox.mark_processed(&[pending[0].id], None).await.unwrap();
    for list in [outbox::List::Pending, outbox::List::Dead, outbox::List::Processed] {
        let page = outbox.list(list, None, 3).await.unwrap();
        outbox.list(list, page.last().map(|detail| detail.id), 3).await.unwrap();
    }
    outbox.entry(pending[1].id).await.unwrap();
    outbox.retry(&Which::Ids(vec![pending[1].id])).await.unwrap();
    outbox.discard(&Which::Ids(vec![pending[1].id])).await.unwrap();
    outbox.retry(&Which::AllDead).await.unwrap();
    outbox.discard(&Which::AllDead).await.unwrap();
    outbox.cleanup(Duration::from_secs(3_600), 5).await.unwrap();
    outbox.stats().await.unwrap();
    let receipt = Receipt {
        entry: pending[2].id,
        file_id: "r".to_owned(),
        file_url: "u".to_owned(),
        bytes: 1,
        sha256: "s".to_owned(),
    };
    outbox.store_receipt(&receipt, None).await.unwrap();
    outbox.receipt(receipt.entry).await.unwrap();
    outbox.settings().await.unwrap();
    outbox.sender().await.unwrap();
}

async fn inbox(store: &Store, round: usize) {
    let kind = EntityType::new("order").unwrap();
    let inbox = store.inbox(std::slice::from_ref(&kind)).await.unwrap();
    let sender = SenderId::new("own").unwrap();
    let arrivals: Vec<Arrival> = (0..4)
        .map(|n| Arrival {
            entry: Some(if n < 2 { n + 1 } else { 1_000_000 + 10 * round as i64 + n }),
            entity_type: "order".to_owned(),
            entity_id: format!("own{}", n + 1),
            payload: "{}".to_owned(),
            created_at: Moment::from_us(1_000_000),
        })
        .collect();
    inbox.apply(Some(&sender), &arrivals).await.unwrap();
    inbox.put(&kind, &format!("own{}", round + 10), "{}", None).await.unwrap();
    inbox.put(&kind, &format!("own{}", round + 30), "{}", Some(Moment::from_us(7))).await.unwrap();
    inbox.entity(&kind, "own7").await.unwrap();
    let page = inbox.entities(&kind, None, 3).await.unwrap();
    inbox.entities(&kind, page.last().map(|entity| entity.place), 3).await.unwrap();
    inbox.forget(MINUTE, 5).await.unwrap();
}

async fn schedule(store: &Store, round: usize) {
    let schedule = store.schedule();
    let intent = |reason| Intent { job: "own", node: "node", reason, cost: Cost::DEFAULT };
    let bucket = |n: usize| {
        let minutes = u64::try_from(10 * round + n).unwrap();
        Bucket::minute(Timestamp::from_ms(1_762_819_200_000 + minutes * 60_000))
    };
    schedule.record_skip(&intent(Reason::NoViewer), bucket(0)).await.unwrap();
    schedule.claim(&intent(Reason::Watched), bucket(0), Duration::from_millis(1)).await.unwrap();
    schedule.claim(&intent(Reason::Watched), bucket(0), Duration::from_millis(1)).await.unwrap();
    schedule.claim(&intent(Reason::Watched), bucket(1), MINUTE).await.unwrap();
    let run = schedule.start(&intent(Reason::ByHand)).await.unwrap();
    schedule.pause("own").await.unwrap();
    schedule.cancel("own", run).await.unwrap();
    schedule.control("own").await.unwrap();
    schedule.resume("own").await.unwrap();
    schedule.last_bucket("own").await.unwrap();
    let outcome =
        schedule::Outcome { ending: Ending::Done, attempts: 1, detail: String::new(), cost: Cost::DEFAULT };
    schedule.finish(run, &outcome).await.unwrap();
    schedule.run(run).await.unwrap();
    for job in [None, Some("own")] {
        schedule.running(job).await.unwrap();
        for show in [Show::All, Show::Runs, Show::Skips] {
            schedule.history(Filter { job, show }, None, 3).await.unwrap();
        }
    }
    schedule.totals(Some("own7")).await.unwrap();
    schedule.abandon(Dead { nodes: Nodes::Only(&["node"]), older_than: Duration::ZERO }).await.unwrap();
    let keep = Keep { rows_max: 30, age_max: Duration::from_secs(1), rows_min: 20 };
    schedule.trim("own", keep, 5).await.unwrap();
}

async fn state(store: &Store, round: usize) {
    let (states, space) = (store.states(), Space::new("own").unwrap());
    let after = states.number(&space).await.unwrap();
    let page = states.pull(&space, &Asked::default()).await.unwrap();
    let asked = Asked { after: after - 2, epoch: Some(page.epoch.clone()), paging: false };
    states.pull(&space, &asked).await.unwrap();
    let old = Timestamp::from_ms(page.now.as_ms() - u64::try_from(HORIZON.as_millis()).unwrap() - 60_000);
    let changes = vec![
        put("entity7", page.now),
        put(&format!("new {round}"), page.now),
        removed(&format!("gone {round}"), old),
    ];
    states.push(&space, Batch { after, epoch: page.epoch, changes }).await.unwrap();
    states.forget(5).await.unwrap();
    states.entity(&space, "entity7").await.unwrap();
    let listed = states.entities(&space, "", 3).await.unwrap();
    states.entities(&space, listed.next.as_deref().unwrap_or_default(), 3).await.unwrap();
    let put = ServerWrite::Put { value: Value::read("{}").unwrap(), schema: None };
    states.write(&space, "entity8", put, Condition::None).await.unwrap();
    states.write(&space, &format!("new {round}"), ServerWrite::Remove, Condition::None).await.unwrap();
}

/// The same for a queue with groups, of which one has most keys.
async fn grouped(store: &Store, size: usize, round: usize) {
    let queues = store.queues();
    let groups = GroupSettings { concurrency: 2, interval: Duration::ZERO };
    let rules = Rules { groups: Some(groups), result_ttl: Some(Duration::from_secs(3_600)), ..rules() };
    let task = |group: String, key: String| NewTask { group: Some(group), ..NewTask::from(key) };
    if round == 0 {
        let keys: Vec<NewTask> = (0..size)
            .map(|n| {
                let group = if n % 2 == 0 { "long".to_owned() } else { format!("group {}", n % (size / 4)) };
                task(group, format!("grouped {n}"))
            })
            .collect();
        for some in keys.chunks(KEYS_MAX) {
            queues.enqueue_tasks("grouped", &rules, Kind::New, some.to_vec()).await.unwrap();
        }
    }
    let fresh = (0..5).map(|n| task(format!("fresh {n}"), format!("fresh {round} {n}"))).collect();
    queues.enqueue_tasks("grouped", &rules, Kind::New, fresh).await.unwrap();
    let urgent = vec![task("long".to_owned(), format!("grouped {}", size - 2 - 2 * round))];
    queues.enqueue_tasks("grouped", &rules, Kind::Priority, urgent).await.unwrap();
    queues.pause_group("grouped", "group 1").await.unwrap();
    queues.resume_group("grouped", &rules, "group 1").await.unwrap();
    for answer in
        [Answer::Done("result".to_owned()), Answer::Throttled { retry_after: None }, Answer::NotMade]
    {
        let runs = queues.claim("grouped", &rules, 5).await.unwrap().runs;
        assert_eq!(runs.len(), 5);
        let calls: Vec<u64> = runs.iter().map(|run| run.call).collect();
        queues.abandoned("grouped", &calls).await.unwrap();
        let answers = calls.into_iter().map(|call| (call, answer.clone())).collect();
        queues.settle("grouped", &rules, answers).await.unwrap();
    }
    queues.groups("grouped", Some("group 2"), 5).await.unwrap();
    queues.forget_old_results("grouped", &rules).await.unwrap();
    let some: Vec<String> = (0..5).map(|n| format!("grouped {}", size / 2 + 10 * round + n)).collect();
    queues.remove("grouped", &some).await.unwrap();
}
