//! The bookshelf end to end, in processes: ISBNs in by the command, books and covers out, checked against the catalogue; the pace
//! checked where the calls arrive.
//!
//! `SYNCLINE_SHELF_BOOKS` sets how many books, `SYNCLINE_SHELF_REAL_PACE=1` lets the queues run at the pace of the real APIs.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use syncline_sim::postgres;
use syncline_stand_ins::{Figures, Flaky, RetryAfter, Settings, Upstreams};
use syncline_testing::process::{Node, number, syncline};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Which API each queue calls, and the pace of the quick tests in milliseconds.
const PACES: [(&str, &str, u64); 3] =
    [("fetchNdlSearch", "ndl", 4), ("fetchGoogleSearch", "google", 5), ("fetchRakutenSearch", "rakuten", 6)];

struct World {
    /// The APIs run on it.
    runtime: Runtime,
    upstreams: Upstreams,
    file: String,
    isbns: Vec<String>,
}

impl World {
    fn new(flaky: Flaky, retry_after: RetryAfter) -> World {
        let mut settings = Settings { flaky, retry_after, ..Settings::default() };
        let mut file = "jobs = []\n".to_owned();
        for (queue, api, ms) in PACES {
            file += &format!("[[queues]]\nname = \"{queue}\"\ntimeout_sec = 2\n");
            if !at_real_pace() {
                settings.set_interval(&format!("{api}={ms}")).unwrap();
                file += &format!("interval_ms = {ms}\nretry_delay_ms = 10\n");
            }
        }
        // Steps of a node that was killed are taken up by the next when they count as lost.
        for queue in ["scanner", "ndlSearch", "fetchBookImage"] {
            file += &format!("[[queues]]\nname = \"{queue}\"\ntimeout_sec = 1\n");
        }
        let runtime = Runtime::new().unwrap();
        let upstreams = Upstreams::start("127.0.0.1:0".parse().unwrap(), settings);
        let upstreams = runtime.block_on(upstreams).unwrap();
        let count = u32::try_from(number("SYNCLINE_SHELF_BOOKS", 200)).unwrap();
        let isbns = upstreams.catalogue().isbns(count).iter().map(ToString::to_string).collect();
        World { runtime, upstreams, file, isbns }
    }

    /// What an API saw of its callers.
    fn figures(&self, api: &str) -> Figures {
        self.upstreams.stats().apis.into_iter().find(|figures| figures.api == api).unwrap()
    }

    fn node(&self, folder: TempDir, database: Option<&str>) -> Node {
        let apis = self.upstreams.environment();
        let mut environment: Vec<(&str, &str)> =
            apis.iter().map(|(name, value)| (*name, value.as_str())).collect();
        environment.push(("SYNCLINE_APPS", "bookshelf"));
        environment.extend(database.map(|url| ("DATABASE_URL", url)));
        Node::start_in(folder, &self.file, &environment)
    }

    /// Every book and cover is what the catalogue says, and books that the library does not know are gone.
    fn check_books(&self, shown: &BTreeMap<String, Value>) {
        let catalogue = self.upstreams.catalogue();
        let origin = format!("http://{}", self.upstreams.address());
        let mut wrong = Vec::new();
        for isbn in &self.isbns {
            let number = isbn.parse().unwrap();
            let entry = catalogue.entry(number);
            let book = &shown[isbn];
            if !entry.in_library {
                assert_eq!(book["state"], "not found", "{book}");
                continue;
            }
            let cover = catalogue.cover(number, &origin);
            let mut expected = serde_json::to_value(&entry.book).unwrap();
            expected["cover"] = serde_json::to_value(&cover).unwrap();
            expected["cover_state"] = if cover.is_some() { "found".into() } else { "none".into() };
            for (field, value) in expected.as_object().unwrap() {
                if book[field] != *value {
                    wrong.push(format!("{isbn} {field}: {} instead of {value}", book[field]));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// What the APIs saw: no two calls closer than they allow, one at a time, and nothing asked for twice.
    fn check_calls(self, too_many_expected: bool) {
        let stats = self.runtime.block_on(self.upstreams.stop());
        let paced = |figures: &&Figures| PACES.iter().any(|(_, api, _)| *api == figures.api);
        let counts: Vec<u64> = stats.apis.iter().filter(paced).map(|figures| figures.keys).collect();
        assert!(counts.len() == PACES.len() && counts.iter().all(|keys| *keys > 0), "{counts:?}");
        for figures in stats.apis.iter().filter(|figures| figures.calls > 0) {
            println!("{figures:?}");
            assert_eq!(figures.asked_again, 0, "asked again after a good answer: {figures:?}");
            if figures.interval_ms == 0 {
                continue;
            }
            assert_eq!(figures.too_many > 0, too_many_expected, "{figures:?}");
            assert_eq!(figures.most_at_once, 1, "{figures:?}");
            assert!(figures.smallest_gap_ms >= Some(figures.interval_ms as f64), "{figures:?}");
        }
    }
}

fn at_real_pace() -> bool {
    std::env::var("SYNCLINE_SHELF_REAL_PACE").is_ok_and(|set| set == "1")
}

/// Scans with the command and does not wait.
fn hand_over(node: &Node, isbns: &[String]) {
    std::fs::write(node.folder.path().join("isbns"), isbns.join("\n")).unwrap();
    let mut scan = syncline(node.folder.path(), &["scan", "--file", "isbns", "--no-wait"]);
    let output = scan.env("SYNCLINE_URL", node.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{} handed over\n", isbns.len()));
}

/// How many calls to the paced APIs a node itself has made.
fn calls_made(node: &Node) -> u64 {
    let (_, metrics) = node.ask("GET", "/metrics", &[], "");
    let of = |queue: &str| {
        let start = format!("syncline_queue_done_total{{queue=\"{queue}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok()).unwrap_or(0)
    };
    PACES.iter().map(|(queue, _, _)| of(queue)).sum()
}

/// Scans with the command and waits for all of it; what it printed, by ISBN.
fn scan(node: &Node, isbns: &[String]) -> std::thread::JoinHandle<BTreeMap<String, Value>> {
    let list = node.folder.path().join("isbns");
    std::fs::write(&list, isbns.join("\n")).unwrap();
    let mut command = syncline(node.folder.path(), &["scan", "--file", "isbns", "--json"]);
    command.env("SYNCLINE_URL", node.url());
    std::thread::spawn(move || {
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["isbn"].as_str().unwrap().to_owned(), line)).collect()
    })
}

#[test]
fn bk_01_bk_03_every_book_and_cover_is_right_and_no_api_is_asked_too_fast() {
    let world = World::new(Flaky::default(), RetryAfter::Mixed);
    let node = world.node(tempfile::tempdir().unwrap(), None);
    let shown = scan(&node, &world.isbns).join().unwrap();
    world.check_books(&shown);
    // What the command showed is what the shelf holds, and it costs no further call to look at it.
    let known = shown.values().filter(|book| book["state"] == "found").count();
    assert_eq!(node.get("/api/shelf/books?limit=1")["total"], known);
    world.check_calls(false);
}

#[test]
fn qu_21_two_nodes_on_one_postgres_share_the_work_and_the_pace_also_when_one_leaves() {
    let database = postgres::database();
    let world = World::new(Flaky::default(), RetryAfter::Mixed);
    let mut nodes = [(); 2].map(|()| world.node(tempfile::tempdir().unwrap(), Some(&database.url)));
    let half = world.isbns.len() / 2;
    hand_over(&nodes[0], &world.isbns[..half]);
    hand_over(&nodes[1], &world.isbns[half..]);
    nodes[0].wait_for_queue("fetchNdlSearch", half as u64);
    // Who has just ended a call is the first to know that the next may start, so one may do it all. It leaves.
    let busier = usize::from(calls_made(&nodes[1]) > calls_made(&nodes[0]));
    let by_the_first = calls_made(&nodes[busier]);
    nodes[busier].signal(Signal::TERM);
    assert!(nodes[busier].ended().success());
    let other = &nodes[1 - busier];
    let shown = scan(other, &world.isbns).join().unwrap();
    world.check_books(&shown);
    println!("calls by the one that left: {by_the_first} or more, by the other: {}", calls_made(other));
    assert!(by_the_first > 0 && calls_made(other) > 0, "both did some of it");
    world.check_calls(false);
}

#[test]
fn qu_22_with_apis_that_answer_429_at_random_all_is_done_in_the_end_and_none_asked_twice() {
    // With the time that real APIs name, which is whole seconds, it takes as long as they say.
    let retry_after = if at_real_pace() { RetryAfter::Mixed } else { RetryAfter::Never };
    let world = World::new("429=0.1".parse().unwrap(), retry_after);
    let node = world.node(tempfile::tempdir().unwrap(), None);
    let shown = scan(&node, &world.isbns).join().unwrap();
    world.check_books(&shown);
    world.check_calls(true);
}

#[test]
fn bk_07_scans_and_work_under_way_survive_kill_9() {
    let world = World::new(Flaky::default(), RetryAfter::Mixed);
    let node = world.node(tempfile::tempdir().unwrap(), None);
    hand_over(&node, &world.isbns);
    node.wait_for_queue("fetchBookImage", world.isbns.len() as u64 / 3);
    let node = world.node(node.kill(), None);
    let idle =
        |queue: &Value| ["waiting", "running", "retrying"].iter().all(|state| queue["counts"][state] == 0);
    while !node.get("/api/queues")["queues"].as_array().unwrap().iter().all(idle) {
        std::thread::sleep(Duration::from_millis(50));
    }
    // Scanned once more, each is where it was: found, or looked for again because the library did not have it.
    let shown = scan(&node, &world.isbns).join().unwrap();
    world.check_books(&shown);
    for (_, api, _) in PACES {
        let figures = world.figures(api);
        println!("{figures:?}");
        assert!(figures.smallest_gap_ms >= Some(figures.interval_ms as f64), "{figures:?}");
    }
}
