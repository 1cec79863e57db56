//! Groups within a queue, over HTTP and measured at an API; and control of a queue while it runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use syncline_testing::{Reply, StubApi, until};

use crate::world::World;

const PAGES: &str = "[[queues]]\nname = \"pages\"\nworkers = true\ngroup = \"{host}\"\n";

async fn world(lines: &str) -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (World::start(folder.path(), None, lines).await, folder)
}

async fn claim(world: &World, max: usize) -> Vec<Value> {
    let claimed = world.post("/api/queues/pages/claim", &json!({ "max": max })).await;
    claimed["tasks"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_32_a_key_is_in_the_group_of_its_host_or_in_the_one_it_was_given() {
    let (world, _folder) = world(PAGES).await;
    let tasks = json!({ "tasks": [
        { "key": "https://A.example/1" },
        { "key": "https://a.example/2" },
        { "key": "https://b.example:8080/1" },
        { "key": "https://b.example/2", "group": "given" },
    ] });
    assert_eq!(world.post("/api/queues/pages", &tasks).await["added"], 4);
    let bad = json!({ "keys": ["https://a.example/3", "no host"] });
    world.send("POST", "/api/queues/pages", Some(&bad)).await.refused(400, "invalid-key");
    let listed = world.get("/api/queues/pages/groups?limit=2").await;
    let names = |page: &Value| -> Vec<(String, u64)> {
        let groups = page["groups"].as_array().unwrap().iter();
        groups.map(|g| (g["name"].as_str().unwrap().to_owned(), g["waiting"].as_u64().unwrap())).collect()
    };
    assert_eq!(names(&listed), [("a.example".to_owned(), 2), ("b.example:8080".to_owned(), 1)]);
    let next = listed["next"].as_str().unwrap();
    let listed = world.get(&format!("/api/queues/pages/groups?limit=2&after={next}")).await;
    assert_eq!((names(&listed), &listed["next"]), (vec![("given".to_owned(), 1)], &Value::Null));

    // One of each at a time.
    let tasks = claim(&world, 10).await;
    let groups: Vec<&Value> = tasks.iter().map(|task| &task["group"]).collect();
    assert_eq!(groups, [&json!("a.example"), &json!("b.example:8080"), &json!("given")]);
    let status = world.get("/api/queues/pages").await;
    assert_eq!(status["groups"], json!({ "concurrency": 1, "interval_ms": 0 }));
    let known = world.get("/api/queues/pages/results/https%3A%2F%2Fb.example%2F2").await;
    assert_eq!(known["group"], "given");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_33_a_group_is_paused_and_resumed_and_a_pace_is_set_while_the_queue_runs() {
    let (world, _folder) = world(PAGES).await;
    let pause = json!({ "group": "a.example" });
    assert_eq!(world.post("/api/queues/pages/groups/pause", &pause).await["paused"], true);
    let keys = json!({ "keys": (0..6).map(|n| format!("https://{}.example/{n}", ["a", "b"][n % 2])).collect::<Vec<_>>() });
    world.post("/api/queues/pages", &keys).await;
    let first = claim(&world, 10).await;
    assert_eq!((first.len(), &first[0]["group"]), (1, &json!("b.example")));
    assert_eq!(world.post("/api/queues/pages/groups/resume", &pause).await["paused"], false);
    assert_eq!(claim(&world, 10).await[0]["group"], "a.example");
    assert_eq!(claim(&world, 10).await.len(), 0);

    let set = world.send("PUT", "/api/queues/pages/pace", Some(&json!({ "groupConcurrency": 2 }))).await;
    let set = set.value();
    assert_eq!((&set["groups"]["concurrency"], &set["pace_is_set"]), (&json!(2), &json!(true)));
    assert_eq!(claim(&world, 10).await.len(), 2);
    let reset = world.delete("/api/queues/pages/pace").await;
    assert_eq!((&reset["groups"]["concurrency"], reset.get("pace_is_set")), (&json!(1), None));
    for (method, path, body, code) in [
        ("PUT", "/api/queues/pages/pace", json!({}), "invalid-pace"),
        ("PUT", "/api/queues/pages/pace", json!({ "concurrency": 0 }), "invalid-pace"),
        ("PUT", "/api/queues/pages/pace", json!({ "intervalMs": 86_400_001 }), "invalid-pace"),
        ("POST", "/api/queues/pages/groups/pause", json!({ "group": "x".repeat(257) }), "invalid-group"),
        ("POST", "/api/queues/pages/groups/pause", json!({ "group": "a\nb" }), "invalid-group"),
    ] {
        world.send(method, path, Some(&body)).await.refused(400, code);
    }
    world.send("GET", "/api/queues/pages/groups?limit=0", None).await.refused(400, "invalid-limit");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_33_a_call_whose_key_was_removed_is_ended_and_leaves_its_place_to_the_next() {
    let api = StubApi::start(|path, _| {
        let latency = if path == "/slow" { Duration::from_secs(300) } else { Duration::ZERO };
        Reply::new(200, "{}").after(latency)
    })
    .await;
    let (world, _folder) = world(&api.queue("words", "interval_ms = 0\ntimeout_sec = 600")).await;
    world.enqueue("words", "new", &["slow", "next"]).await;
    until("the slow call is under way", async || api.calls().len() == 1).await;
    let began = Instant::now();
    world.delete("/api/queues/words/keys/slow").await;
    assert_eq!(world.ended("words", "next").await["state"], "done");
    assert!(began.elapsed() < Duration::from_secs(60), "long before the call would have ended");
    world.node.stop().await;
}

mod postgres {
    use super::*;

    /// Two nodes, many groups, one of which has most keys. `SYNCLINE_ROUNDS` times ten groups, and ten times that many keys in the long one.
    #[tokio::test(flavor = "multi_thread")]
    async fn qu_32_two_nodes_together_keep_the_pace_of_every_group_and_a_long_one_delays_no_other() {
        const INTERVAL: Duration = Duration::from_millis(150);
        let rounds = std::env::var("SYNCLINE_ROUNDS").map_or(2, |rounds| rounds.parse::<usize>().unwrap());
        let (groups, long) = (10 * rounds, 100 * rounds);
        let database = syncline_sim::postgres::database();
        let api = StubApi::start(|_, _| Reply::new(200, "{}").after(Duration::from_millis(5))).await;
        let lines = format!(
            "concurrency = 100\ninterval_ms = 0\ngroup = \"{{input.group}}\"\ngroup_interval_ms = {}\n",
            INTERVAL.as_millis()
        );
        let file = api.queue("pages", &lines);
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let url = Some(database.url.as_str());
        let (a, b) = tokio::join!(
            World::start(folders[0].path(), url, &file),
            World::start(folders[1].path(), url, &file)
        );
        let task =
            |group: String, n: usize| json!({ "key": format!("{group}-{n}"), "input": { "group": group } });
        let tasks: Vec<Value> = (0..long).map(|n| task("long".to_owned(), n)).collect();
        for some in tasks.chunks(5_000) {
            a.post("/api/queues/pages", &json!({ "tasks": some })).await;
        }
        let began = Instant::now();
        let tasks: Vec<Value> = (0..groups)
            .flat_map(|g| (0..3).map(move |n| (format!("g{g}"), n)))
            .map(|(g, n)| task(g, n))
            .collect();
        for some in tasks.chunks(5_000) {
            b.post("/api/queues/pages", &json!({ "tasks": some })).await;
        }
        for g in 0..groups {
            assert_eq!(a.ended("pages", &format!("g{g}-2")).await["state"], "done");
        }
        let took = began.elapsed();
        let left = b.get("/api/queues/pages").await["counts"]["waiting"].as_u64().unwrap();
        assert!(left > 0, "the long one is still at it");
        let mut last: BTreeMap<String, Instant> = BTreeMap::new();
        let mut smallest = Duration::MAX;
        for call in api.calls() {
            let group = call.path.split('-').next().unwrap().to_owned();
            if let Some(end) = last.get(&group) {
                let gap = call.began.saturating_duration_since(*end);
                assert!(gap >= INTERVAL, "{group}: {gap:?}");
                smallest = smallest.min(gap);
            }
            last.insert(group, call.ended.unwrap_or(call.began));
        }
        println!("groups={groups} long={long} smallest_gap={smallest:?} all_small_done_after={took:?}");
        tokio::join!(a.node.stop(), b.node.stop());
    }
}
