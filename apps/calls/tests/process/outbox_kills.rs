//! Worker, front end and database killed at random moments, again and again: nothing lost, nothing doubled, no recording gone
//! without its copy. `SYNCLINE_OUTBOX_KILLS` sets how often.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use syncline_calls::call_box::{Call, CallBox as Application};
use syncline_calls::invent::invent;
use syncline_sim::postgres::{self, Cluster};
use syncline_store::Store;
use syncline_store::outbox::{NewEntry, Outbox, Stats};
use syncline_testing::process::{Node, number};
use tempfile::TempDir;

use crate::call_box::{CallBox, Frontend, Sending};
use crate::node;

/// Settings of the worker: a dead one's claims come back soon.
const WORKER: [(&str, &str); 4] = [
    ("SYNC_TIMEOUT_SEC", "2"),
    ("SYNC_BATCH_SIZE", "20"),
    ("SYNC_POLL_INTERVAL_SEC", "1"),
    ("SYNC_MAX_ATTEMPTS", "1000000"),
];

/// A rule is changed this many times for each kill; the last change must win.
const RULES: usize = 5;

/// Most kills of the database server among all: each takes seconds to come back.
const SERVER_KILLS: u64 = 4;

/// What was committed, by the application's own account.
#[derive(Default)]
struct Ledger {
    calls: BTreeMap<String, Call>,
    recordings: BTreeMap<String, Vec<u8>>,
    rules: BTreeMap<String, u64>,
    entries: u64,
}

/// A box, its front end, and whoever may be killed.
struct World {
    of: CallBox,
    worker: Option<Sending>,
    frontend: Option<Node>,
    frontend_environment: Vec<(String, String)>,
    recordings_there: PathBuf,
    /// Recordings that were found there.
    safe: BTreeSet<String>,
    server: Option<Cluster>,
}

impl World {
    fn new(of: CallBox, frontend_database: Option<String>, server: Option<Cluster>) -> World {
        let folder = tempfile::tempdir().unwrap();
        let recordings_there = folder.path().join("received");
        let mut environment = vec![
            ("RECORDINGS_DIR".to_owned(), recordings_there.to_str().unwrap().to_owned()),
            ("SYNCLINE_LISTEN".to_owned(), lasting_address()),
        ];
        environment.extend(frontend_database.map(|url| ("DATABASE_URL".to_owned(), url)));
        let mut world = World {
            safe: BTreeSet::new(),
            of,
            worker: None,
            frontend: None,
            frontend_environment: environment,
            recordings_there,
            server,
        };
        world.start_frontend(folder);
        world.start_worker();
        world
    }

    fn frontend(&self) -> &Node {
        self.frontend.as_ref().unwrap()
    }

    fn start_frontend(&mut self, folder: TempDir) {
        let environment: Vec<_> =
            self.frontend_environment.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        self.frontend = Some(node::start_in(folder, "jobs = []\n", &environment));
    }

    fn start_worker(&mut self) {
        self.worker = Some(self.of.start(&Frontend::Node(self.frontend()), &WORKER));
    }

    fn kill_worker(&mut self) {
        self.worker.take().unwrap().stop(Signal::KILL);
        self.start_worker();
    }

    fn kill_frontend(&mut self) {
        let folder = self.frontend.take().unwrap().kill();
        self.start_frontend(folder);
    }

    /// Kills the database server under both and lets it come back. A front end that was starting gives up, as it should.
    fn kill_server(&mut self) {
        let server = self.server.as_mut().unwrap();
        server.kill().unwrap();
        server.restart().unwrap();
    }

    /// No recording is gone here that is not there. What is there stays, and is read once.
    fn check_recordings(&mut self, ledger: &Ledger) {
        for (call, wav) in &ledger.recordings {
            if !self.safe.contains(call) && !self.of.recordings().join(call).join("mixed.wav").exists() {
                let there = fs::read(self.recordings_there.join(call).join("mixed.wav"));
                assert!(there.is_ok_and(|there| there == *wav), "{call} is gone without its copy");
                self.safe.insert(call.clone());
            }
        }
    }
}

/// An address that nobody is given while its owner is dead: the system hands out ports from 32768 on.
fn lasting_address() -> String {
    let free = |address: &String| TcpListener::bind(address).is_ok();
    let random = || format!("127.0.0.1:{}", rand::random_range(20_000..32_000));
    std::iter::repeat_with(random).find(free).unwrap()
}

/// Commits calls and changes of rules as the application does.
async fn commit(
    of: &CallBox,
    outbox: &dyn Outbox,
    ledger: &mut Ledger,
    round: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut application = Application::open(&of.database_url).await?;
    for part in 0..2_u64 {
        let (id, invented) = (format!("call-{round}-{part}"), invent(round % 7));
        let recording_id = (part == 0 && round.is_multiple_of(3)).then(|| format!("recording-{round}"));
        if recording_id.is_some() {
            let folder = of.recordings().join(&id);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("mixed.wav"), &invented.wav).unwrap();
            fs::write(folder.join("meta.json"), "{}").unwrap();
        }
        let call = Call {
            id: id.clone(),
            recording_id: recording_id.clone(),
            caller_number: invented.caller,
            disposition: invented.disposition.to_owned(),
            started_at: "2026-02-07T10:20:30Z".to_owned(),
            duration_sec: invented.duration_sec,
        };
        application.record(&call).await?;
        ledger.entries += 1 + 2 * u64::from(recording_id.is_some());
        if recording_id.is_some() {
            ledger.recordings.insert(id.clone(), invented.wav);
        }
        ledger.calls.insert(id, call);
    }
    let entries: Vec<NewEntry> = (0..RULES)
        .map(|rule| NewEntry {
            entity_type: "routing_rule".to_owned(),
            entity_id: format!("rule-{rule}"),
            payload: json!({ "id": format!("rule-{rule}"), "round": round }).to_string(),
        })
        .collect();
    ledger.entries += outbox.enqueue(&entries).await?.len() as u64;
    ledger.rules.extend((0..RULES).map(|rule| (format!("rule-{rule}"), round)));
    Ok(())
}

/// Kills somebody after every commit, then lets everything finish and counts.
fn killed_again_and_again(mut world: World, kills: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut ledger, mut killed) = (Ledger::default(), BTreeMap::<&str, u64>::new());
    let store = runtime.block_on(Store::open(&world.of.database_url)).unwrap();
    let outbox = store.outbox();
    let server_every = if world.server.is_some() { (kills / SERVER_KILLS).max(1) } else { u64::MAX };
    for round in 0..kills {
        runtime.block_on(commit(&world.of, &*outbox, &mut ledger, round)).unwrap();
        // Somewhere between waking up and having sent everything.
        std::thread::sleep(Duration::from_micros(rand::random_range(0..30_000)));
        let who = match rand::random_range(0..3) {
            _ if round % server_every == server_every / 2 => {
                world.kill_server();
                "database"
            }
            0 => {
                world.kill_frontend();
                "front end"
            }
            _ => {
                world.kill_worker();
                "worker"
            }
        };
        *killed.entry(who).or_default() += 1;
        world.check_recordings(&ledger);
    }
    let stats = runtime.block_on(until_sent(&*outbox));
    world.check_recordings(&ledger);
    check_arrived(&world, &ledger);
    println!(
        "kills={kills} {killed:?} inserted={} delivered={} dead={} pending={} recordings={} lost=0 doubled=0",
        ledger.entries,
        stats.delivered,
        stats.dead,
        stats.pending,
        ledger.recordings.len()
    );
    // Delivered counts what was settled; an entry that was sent twice is settled once.
    assert_eq!(stats.delivered + stats.dead + stats.pending, ledger.entries, "{stats:?}");
    assert_eq!((stats.dead, stats.pending), (0, 0));
}

async fn until_sent(outbox: &dyn Outbox) -> Stats {
    loop {
        let stats = outbox.stats().await.unwrap();
        if stats.pending == 0 {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Everything is at the front end as it was committed, each once, the last change of each.
fn check_arrived(world: &World, ledger: &Ledger) {
    let node = world.frontend();
    let mut there: BTreeMap<String, Value> = BTreeMap::new();
    for kind in ["call_log", "recording", "routing_rule"] {
        let mut after = String::new();
        loop {
            let page = node.get(&format!("/api/entities/{kind}?limit=100{after}"));
            for entity in page["entities"].as_array().unwrap() {
                let id = entity["entityId"].as_str().unwrap().to_owned();
                assert_eq!(there.insert(id.clone(), entity["payload"].clone()), None, "{id} is there twice");
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
    }
    for (id, call) in &ledger.calls {
        assert_eq!(there[id]["callerNumber"], json!(call.caller_number), "{id}");
        if let Some(recording) = &call.recording_id {
            assert_eq!(there[recording]["callLogId"], json!(id));
        }
    }
    for (rule, round) in &ledger.rules {
        assert_eq!(there[rule]["round"], json!(round), "{rule} is as it was changed last");
    }
    let expected: BTreeSet<&String> = ledger.calls.keys().chain(ledger.rules.keys()).collect();
    assert_eq!(there.len(), expected.len() + ledger.recordings.len(), "nothing is there that nobody made");
    for call in ledger.recordings.keys() {
        assert!(!world.of.recordings().join(call).exists(), "{call} was sent and is deleted here");
    }
}

#[test]
fn ss_24_killed_at_random_on_sqlite_nothing_is_lost_nothing_doubled_and_no_recording_goes_without_its_copy() {
    let world = World::new(CallBox::new(None), None, None);
    killed_again_and_again(world, number("SYNCLINE_OUTBOX_KILLS", 180));
}

#[test]
fn ss_24_killed_at_random_on_postgres_nothing_is_lost_nothing_doubled_and_no_recording_goes_without_its_copy()
{
    let (of, there) = (postgres::database(), postgres::database());
    let world = World::new(CallBox::new(Some(&of.url)), Some(there.url.clone()), None);
    killed_again_and_again(world, number("SYNCLINE_OUTBOX_KILLS", 112));
}

#[test]
fn ss_24_with_its_postgres_killed_too_nothing_is_lost_nothing_doubled() {
    let server = Cluster::start().unwrap();
    server.execute("postgres", "CREATE DATABASE box").unwrap();
    server.execute("postgres", "CREATE DATABASE front").unwrap();
    let (of, there) = (server.url("box"), server.url("front"));
    let world = World::new(CallBox::new(Some(&of)), Some(there), Some(server));
    killed_again_and_again(world, number("SYNCLINE_OUTBOX_KILLS", 12));
}
