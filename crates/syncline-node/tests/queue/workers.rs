//! Workers that claim keys over HTTP: leases, tokens, pace, and what a key carries.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use syncline_testing::{Reply, StubApi, until};

use crate::world::World;

const WORK: &str = "[[queues]]\nname = \"work\"\nworkers = true\nretry_delay_ms = 1\n";

async fn world(lines: &str) -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (World::start(folder.path(), None, lines).await, folder)
}

async fn claim(world: &World, body: Value) -> Vec<Value> {
    let claimed = world.post("/api/queues/work/claim", &body).await;
    claimed["tasks"].as_array().unwrap().clone()
}

fn token(task: &Value) -> &str {
    task["token"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_30_qu_31_a_worker_is_handed_keys_with_their_inputs_and_brings_results() {
    let (world, _folder) = world(WORK).await;
    let tasks = json!({ "tasks": [
        { "key": "a", "input": { "width": 800 } },
        { "key": "b" },
        { "key": "c", "input": [1] },
        { "key": "d", "input": "x" },
    ] });
    assert_eq!(world.post("/api/queues/work", &tasks).await["added"], 4);
    let tasks = claim(&world, json!({ "max": 10, "leaseMs": 5_000 })).await;
    let seen: Vec<(&Value, Option<&Value>)> =
        tasks.iter().map(|task| (&task["key"], task.get("input"))).collect();
    let (width, list, x) = (json!({ "width": 800 }), json!([1]), json!("x"));
    assert_eq!(
        seen,
        [
            (&json!("a"), Some(&width)),
            (&json!("b"), None),
            (&json!("c"), Some(&list)),
            (&json!("d"), Some(&x))
        ]
    );
    let lease = tasks[0]["leaseMs"].as_u64().unwrap();
    assert!(tasks[0]["attempt"] == 1 && (1..=5_000).contains(&lease), "{tasks:?}");
    assert_eq!(claim(&world, json!({})).await, Vec::<Value>::new(), "all are taken");

    let done = json!({ "tasks": [{ "token": token(&tasks[0]), "result": { "ok": true } }] });
    let told = world.post("/api/queues/work/complete", &done).await;
    assert_eq!(told["tasks"][0], json!({ "token": token(&tasks[0]), "key": "a", "state": "done" }));
    let late = world.send("POST", "/api/queues/work/complete", Some(&done)).await;
    late.refused(409, "lease-lost");
    let failed = json!({ "tasks": [
        { "token": token(&tasks[1]), "reason": "busy", "retryAfterMs": 0 },
        { "token": token(&tasks[2]), "reason": "no such file", "cause": "refused" },
        { "token": token(&tasks[0]), "reason": "late" },
    ] });
    let told = world.post("/api/queues/work/fail", &failed).await;
    let states: Vec<&Value> = told["tasks"].as_array().unwrap().iter().map(|task| &task["state"]).collect();
    assert_eq!(
        (states, &told["lost"]),
        (vec![&json!("retrying"), &json!("failed")], &json!([token(&tasks[0])]))
    );
    let released = world.post("/api/queues/work/release", &json!({ "tokens": [token(&tasks[3])] })).await;
    assert_eq!(released["tasks"][0]["state"], "waiting");

    let known = world.get("/api/queues/work/results/a").await;
    assert_eq!((&known["result"], &known["input"]), (&json!({ "ok": true }), &width));
    let again = claim(&world, json!({ "max": 10, "waitMs": 5_000 })).await;
    let again: Vec<(&Value, &Value)> = again.iter().map(|task| (&task["key"], &task["attempt"])).collect();
    assert_eq!(
        again[0],
        (&json!("d"), &json!(1)),
        "given back, it is first in line and has all its attempts"
    );
    assert_eq!(world.get("/api/queues/work/results/c").await["reason"], "no such file");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_31_a_worker_that_waits_is_handed_a_key_as_soon_as_there_is_one() {
    let (world, _folder) = world(WORK).await;
    let began = Instant::now();
    let waiting = async { claim(&world, json!({ "waitMs": 20_000 })).await };
    let adding = async {
        // Whether the claim waits by now or comes after this, it must be answered long before its time is up.
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.enqueue("work", "new", &["a"]).await;
    };
    let (tasks, ()) = tokio::join!(waiting, adding);
    assert_eq!(tasks[0]["key"], "a");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_31_what_a_worker_that_hangs_up_would_have_got_goes_to_the_next() {
    let (world, _folder) = world(WORK).await;
    let url = world.url("/api/queues/work/claim");
    let impatient = reqwest::Client::new().post(url).json(&json!({ "waitMs": 20_000, "leaseMs": 3_600_000 }));
    let impatient = impatient.timeout(Duration::from_millis(200)).send().await;
    assert!(impatient.unwrap_err().is_timeout());
    world.enqueue("work", "new", &["a"]).await;
    let tasks = claim(&world, json!({ "waitMs": 20_000 })).await;
    assert_eq!((&tasks[0]["key"], &tasks[0]["attempt"]), (&json!("a"), &json!(1)));
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_31_keys_are_handed_out_at_the_queues_pace() {
    let interval = Duration::from_millis(120);
    let (world, _folder) =
        world(&format!("{WORK}concurrency = 1\ninterval_ms = {}\n", interval.as_millis())).await;
    world.enqueue("work", "new", &["a", "b", "c"]).await;
    let mut last_end: Option<Instant> = None;
    for _ in 0..3 {
        let task = claim(&world, json!({ "max": 10, "waitMs": 20_000 })).await;
        assert_eq!(task.len(), 1, "one at a time");
        if let Some(end) = last_end {
            assert!(end.elapsed() >= interval, "{:?}", end.elapsed());
        }
        last_end = Some(Instant::now());
        world.post("/api/queues/work/complete", &json!({ "tasks": [{ "token": token(&task[0]) }] })).await;
    }
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_31_what_makes_no_sense_is_refused_and_a_queue_of_the_nodes_own_is_not_handed_out() {
    let api = StubApi::start(|_, _| Reply::new(200, "{}")).await;
    let (world, _folder) = world(&format!("{WORK}{}", api.queue("words", ""))).await;
    let cases = [
        ("work/claim", json!({ "max": 0 }), 400, "invalid-max"),
        ("work/claim", json!({ "max": 101 }), 400, "invalid-max"),
        ("work/claim", json!({ "leaseMs": 10 }), 400, "invalid-lease"),
        ("work/claim", json!({ "wait": 10 }), 400, "invalid-body"),
        ("work/complete", json!({ "tasks": [] }), 400, "invalid-tokens"),
        ("work/complete", json!({ "tasks": [{ "token": "x" }] }), 400, "invalid-token"),
        ("work/complete", json!({ "tasks": [{ "token": "01" }] }), 400, "invalid-token"),
        ("work/complete", json!({ "tasks": [{ "token": "77" }] }), 409, "lease-lost"),
        ("work/fail", json!({ "tasks": [{ "token": "1", "cause": "bad luck" }] }), 400, "invalid-body"),
        ("work/extend", json!({ "tokens": ["77"] }), 409, "lease-lost"),
        ("work", json!({}), 400, "invalid-keys"),
        ("work", json!({ "keys": ["a"], "tasks": [{ "key": "b" }] }), 400, "invalid-keys"),
        ("work", json!({ "tasks": [{ "key": "a", "input": "x".repeat(65_536) }] }), 400, "invalid-input"),
        ("words/claim", json!({}), 409, "no-workers"),
        ("nothing/claim", json!({}), 404, "not-found"),
    ];
    for (path, body, status, code) in cases {
        world.send("POST", &format!("/api/queues/{path}"), Some(&body)).await.refused(status, code);
    }
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_33_a_queue_is_paused_resumed_and_emptied() {
    let (world, _folder) = world(WORK).await;
    world.enqueue("work", "new", &["a", "b", "c"]).await;
    let task = claim(&world, json!({})).await.remove(0);
    let paused = world.post("/api/queues/work/pause", &json!({})).await;
    assert_eq!(paused["paused"], json!({ "until": null, "reason": "operator" }));
    assert_eq!(claim(&world, json!({ "max": 9 })).await, Vec::<Value>::new());
    let resumed = world.post("/api/queues/work/resume", &json!({})).await;
    assert_eq!(resumed["paused"], Value::Null);
    assert_eq!(world.delete("/api/queues/work/keys?state=waiting").await, json!({ "deleted": 2 }));
    world.send("DELETE", "/api/queues/work/keys?state=running", None).await.refused(400, "invalid-state");
    // Cancelled while it runs: the worker finds out when it extends.
    world.delete("/api/queues/work/keys/a").await;
    let extend = json!({ "tokens": [token(&task)] });
    world.send("POST", "/api/queues/work/extend", Some(&extend)).await.refused(409, "lease-lost");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_30_an_input_is_written_into_the_call_of_an_api() {
    let api = StubApi::start(|_, _| Reply::new(200, "{}")).await;
    let url = api.url("/{input.list}/{key}");
    let file = format!(
        "[[queues]]\nname = \"words\"\nurl = \"{url}\"\ninterval_ms = 1\nheaders = {{ x-tenant = \"t-{{input.tenant}}\" }}\nbody = '{{\"all\":{{input}},\"name\":\"{{input.name}}\"}}'\n"
    );
    let (world, _folder) = world(&file).await;
    let input = json!({ "list": "a/b", "tenant": 7, "name": "\"},{\"admin\":true" });
    let tasks = json!({ "tasks": [{ "key": "k", "input": input }] });
    assert_eq!(world.post("/api/queues/words", &tasks).await["added"], 1);
    assert_eq!(world.ended("words", "k").await["state"], "done");
    let call = api.calls().remove(0);
    assert_eq!((call.path.as_str(), call.header("x-tenant")), ("/a%2Fb/k", "t-7"));
    let body: Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(body, json!({ "all": input, "name": input["name"] }));
    for (task, why) in [
        (json!({ "key": "x" }), "no input"),
        (json!({ "key": "x", "input": { "list": "..", "tenant": 1, "name": "" } }), "change the path"),
        (
            json!({ "key": "x", "input": { "list": "l", "tenant": "a\r\nb: c", "name": "" } }),
            "control characters",
        ),
    ] {
        let refused = world.send("POST", "/api/queues/words", Some(&json!({ "tasks": [task] }))).await;
        refused.refused(400, "invalid-key");
        assert!(refused.text().contains(why), "{}", refused.text());
    }
    until("only one call", async || api.calls().len() == 1).await;
    world.node.stop().await;
}

/// From a worker's result to a call of an API that is told of it: a pipeline that is configuration alone.
#[tokio::test(flavor = "multi_thread")]
async fn qu_35_a_result_travels_on_to_the_next_queue() {
    let api = StubApi::start(|_, _| Reply::new(200, "\"told\"")).await;
    let told = api.queue("told", "interval_ms = 1\nbody = '{\"photo\":\"{key}\",\"made\":{input}}'");
    let first = WORK.replace("workers = true", "workers = true\nthen = \"told\"");
    let (world, _folder) = world(&format!("{first}{told}")).await;
    assert_eq!(world.queue("work").await["then"], "told");
    world.enqueue("work", "new", &["a", "b"]).await;
    let tasks = claim(&world, json!({ "max": 2 })).await;
    let done = json!({ "tasks": [{ "token": token(&tasks[0]), "result": { "width": 8 } }] });
    world.post("/api/queues/work/complete", &done).await;
    let refused = json!({ "tasks": [{ "token": token(&tasks[1]), "cause": "refused" }] });
    world.post("/api/queues/work/fail", &refused).await;
    assert_eq!(world.ended("told", "a").await["result"], "told");
    let calls = api.calls();
    let body: Value = serde_json::from_str(&calls[0].body).unwrap();
    assert_eq!((calls.len(), body), (1, json!({ "photo": "a", "made": { "width": 8 } })));
    world.node.stop().await;
}
