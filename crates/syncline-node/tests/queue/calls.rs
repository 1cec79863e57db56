//! Declared queues: what is called, what is kept, and what each kind of answer does.

use std::time::Duration;

use serde_json::{Value, json};
use syncline_testing::{Reply, StubApi, until, until_some};

use crate::world::World;

const FAST: &str = "interval_ms = 20\nretry_delay_ms = 50";

async fn world(api: &StubApi, lines: &str) -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = api.queue("words", lines);
    (World::start(folder.path(), None, &file).await, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_23_a_declared_api_is_called_once_for_each_key_and_its_answers_are_the_results() {
    let api = StubApi::start(|path, _| match path {
        "/text" => Reply::new(200, "plain").with("content-type", "text/plain"),
        "/list" => Reply::new(200, "[1]"),
        _ => Reply::new(200, &json!({ "path": path }).to_string()),
    })
    .await;
    let lines = format!(
        "{FAST}\nmethod = \"POST\"\nheaders = {{ x-token = \"canary\" }}\nbody = '{{\"q\":\"{{key}}\"}}'"
    );
    let (world, _folder) = world(&api, &lines).await;
    world.enqueue("words", "new", &["a", "b/ü\"", "text", "list", "a"]).await;
    for (key, result) in [
        ("a", json!({ "path": "/a" })),
        ("b%2F%C3%BC%22", json!({ "path": "/b%2F%C3%BC%22" })),
        ("text", json!("plain")),
        ("list", json!([1])),
    ] {
        let known = world.ended("words", key).await;
        assert_eq!(
            (&known["state"], &known["result"], &known["attempts"]),
            (&json!("done"), &result, &json!(1))
        );
    }
    let calls = api.calls();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert_eq!(serde_json::from_str::<Value>(&calls[1].body).unwrap(), json!({ "q": "b/ü\"" }));
    let header = |name: &str| calls[0].headers[name].to_str().unwrap().to_owned();
    assert!(header("user-agent").starts_with("syncline/"), "{}", header("user-agent"));
    assert_eq!((header("x-token").as_str(), header("content-type").as_str()), ("canary", "application/json"));
    assert!(api.smallest_gap() >= Duration::from_millis(20), "{:?}", api.smallest_gap());
    let metrics = world.text("/metrics").await;
    assert!(metrics.contains("syncline_queue_calls_total{queue=\"words\",status=\"2xx\"} 4"), "{metrics}");
    assert!(metrics.contains("syncline_queue_done_total{queue=\"words\"} 4"), "{metrics}");
    world.node.stop().await;
}

/// Results beyond a number that stood nowhere were dropped without a word.
#[tokio::test(flavor = "multi_thread")]
async fn qu_23_as_many_results_are_kept_as_the_queue_says_and_the_rest_is_counted() {
    let api = StubApi::start(|_, _| Reply::new(200, "{}")).await;
    let (world, _folder) = world(&api, "interval_ms = 1\nresults_max = 3").await;
    let keys = ["a", "b", "c", "d", "e"];
    world.enqueue("words", "new", &keys).await;
    let queue = until_some("all to end", async || {
        let queue = world.queue("words").await;
        (queue["done_total"] == 5).then_some(queue)
    })
    .await;
    assert_eq!(queue["counts"]["done"], 3, "{queue}");
    let listed = world.get("/api/queues/words/keys?state=done").await;
    let kept: Vec<&str> =
        listed["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect();
    assert_eq!(kept, ["e", "d", "c"], "the newest");
    until("the others to be counted", async || {
        let metrics = world.text("/metrics").await;
        metrics.contains("syncline_queue_results_dropped_total{queue=\"words\"} 2")
    })
    .await;
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_04_a_429_comes_back_and_other_failures_end_with_a_reason() {
    let api = StubApi::start(|path, before| match path {
        "/busy" if before < 2 => Reply::new(429, "{}"),
        "/shaky" if before < 1 => Reply::new(500, "{}"),
        "/broken" => Reply::new(500, "out of\norder"),
        "/wrong" => Reply::new(404, "no such word"),
        "/elsewhere" => Reply::new(302, "").with("location", "http://127.0.0.1:1/"),
        "/endless" => Reply::new(200, &"x".repeat(100_000)),
        _ => Reply::new(200, "{}"),
    })
    .await;
    let (world, _folder) = world(&api, FAST).await;
    world
        .enqueue("words", "new", &["busy", "shaky", "broken", "wrong", "elsewhere", "endless", "fine"])
        .await;
    let ended = async |key: &str| {
        let known = world.ended("words", key).await;
        (
            known["state"].as_str().unwrap().to_owned(),
            known["reason"].as_str().unwrap_or_default().to_owned(),
            known["attempts"].as_u64().unwrap(),
        )
    };
    assert_eq!(ended("busy").await, ("done".to_owned(), String::new(), 3));
    assert_eq!(ended("shaky").await, ("done".to_owned(), String::new(), 2));
    assert_eq!(
        ended("broken").await,
        ("failed".to_owned(), "the API answered with status 500: out of order".to_owned(), 3)
    );
    assert_eq!(
        ended("wrong").await,
        ("failed".to_owned(), "the API answered with status 404: no such word".to_owned(), 1)
    );
    assert_eq!(
        ended("elsewhere").await,
        ("failed".to_owned(), "the API answered with status 302".to_owned(), 1)
    );
    assert_eq!(
        ended("endless").await,
        ("failed".to_owned(), "the answer is longer than 65536 bytes".to_owned(), 1)
    );
    assert_eq!(ended("fine").await.0, "done");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_26_a_429_that_names_a_time_holds_the_whole_queue_until_then() {
    let api = StubApi::start(|path, before| match (path, before) {
        ("/first", 0) => Reply::new(429, "{}").with("retry-after", "2"),
        _ => Reply::new(200, "{}"),
    })
    .await;
    let (world, _folder) = world(&api, FAST).await;
    world.enqueue("words", "new", &["first", "second", "third"]).await;
    let paused = until_some("the pause", async || {
        let queue = world.queue("words").await;
        (!queue["paused"].is_null()).then_some(queue)
    })
    .await;
    assert_eq!(
        (&paused["paused"]["reason"], &paused["waits_for"]),
        (&json!("retry-after"), &json!("paused"))
    );
    assert_eq!(paused["next_call_at"], paused["paused"]["until"]);
    for key in ["first", "second", "third"] {
        assert_eq!(world.ended("words", key).await["state"], "done");
    }
    let calls = api.calls();
    let pause = calls[1].began.duration_since(calls[0].ended.unwrap());
    assert!(pause >= Duration::from_secs(2), "{pause:?}");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_22_attempts_end_on_the_dead_list_which_can_be_revived() {
    let api = StubApi::start(|_, before| Reply::new(if before < 4 { 429 } else { 200 }, "{}")).await;
    let (world, _folder) = world(&api, &format!("{FAST}\nmax_attempts = 2\nbreaker_failures = 100")).await;
    world.enqueue("words", "new", &["a"]).await;
    let dead = world.ended("words", "a").await;
    assert_eq!((&dead["state"], &dead["attempts"]), (&json!("dead"), &json!(2)));
    assert!(dead["reason"].as_str().unwrap().contains("too many requests"), "{dead}");
    let listed = world.get("/api/queues/words/keys?state=dead").await;
    assert_eq!(listed["keys"][0]["key"], "a");
    assert_eq!(world.post("/api/queues/words/revive", &json!({ "keys": ["a"] })).await["revived"], 1);
    until("the key to die again", async || api.calls().len() == 4).await;
    until("the dead list", async || world.queue("words").await["counts"]["dead"] == 1).await;
    assert_eq!(world.post("/api/queues/words/revive", &json!({})).await["revived"], 1);
    assert_eq!(world.ended("words", "a").await["state"], "done");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_22_an_api_that_keeps_failing_is_left_alone_and_probed() {
    let api = StubApi::start(|_, before| Reply::new(if before < 3 { 503 } else { 200 }, "{}")).await;
    let lines = format!("{FAST}\nbreaker_failures = 3\nbreaker_pause_sec = 1\nfailure_attempts = 10");
    let (world, _folder) = world(&api, &lines).await;
    world.enqueue("words", "new", &["a"]).await;
    let open = until_some("the breaker to open", async || {
        let queue = world.queue("words").await;
        (queue["breaker"] == "open").then_some(queue)
    })
    .await;
    assert_eq!(open["paused"]["reason"], "breaker");
    assert_eq!(world.ended("words", "a").await["state"], "done");
    assert_eq!(world.queue("words").await["breaker"], "closed");
    let calls = api.calls();
    let rest = calls[3].began.duration_since(calls[2].ended.unwrap());
    // The pause is shortened by chance, by a fifth at most.
    assert!(rest >= Duration::from_millis(800), "{rest:?}");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_04_a_call_without_an_answer_ends_in_time_and_stops_nothing() {
    let api = StubApi::start(|path, _| match path {
        "/slow" => Reply::new(200, "{}").after(Duration::from_secs(3_600)),
        _ => Reply::new(200, "{}"),
    })
    .await;
    let (world, _folder) = world(&api, &format!("{FAST}\ntimeout_sec = 1\nfailure_attempts = 1")).await;
    world.enqueue("words", "new", &["slow", "next"]).await;
    let slow = world.ended("words", "slow").await;
    assert_eq!((&slow["state"], &slow["reason"]), (&json!("failed"), &json!("no answer within 1 s")));
    assert_eq!(world.ended("words", "next").await["state"], "done");
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_25_again_while_a_key_runs_is_one_more_run() {
    let api =
        StubApi::start(|_, before| Reply::new(200, &before.to_string()).after(Duration::from_millis(300)))
            .await;
    let (world, _folder) = world(&api, FAST).await;
    world.enqueue("words", "new", &["a"]).await;
    until("the call", async || !api.calls().is_empty()).await;
    let asked =
        [world.enqueue("words", "again", &["a"]).await, world.enqueue("words", "again", &["a"]).await];
    assert_eq!((&asked[0]["again"], asked[1]["added"].as_u64()), (&json!(1), Some(0)));
    until("the second result", async || {
        let known = world.get("/api/queues/words/results/a").await;
        known["state"] == "done" && known["result"] == 1
    })
    .await;
    assert_eq!(api.calls().len(), 2);
    world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_23_results_and_progress_are_told_as_events() {
    let api = StubApi::start(|_, _| Reply::new(200, "{}")).await;
    let (world, _folder) = world(&api, FAST).await;
    let mut events = world.node.context().events.listen();
    world.enqueue("words", "new", &["a", "b"]).await;
    let (mut results, mut last) = (Vec::new(), Value::Null);
    while results.len() < 2 || last["counts"]["done"] != 2 {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await.unwrap().unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match &*event.name {
            "queue.result" => results.push(data),
            "queue" => last = data,
            _ => {}
        }
    }
    assert_eq!(results[0], json!({ "queue": "words", "key": "a", "state": "done" }));
    assert_eq!((&last["name"], &last["counts"]["waiting"]), (&json!("words"), &json!(0)));
    assert_eq!(
        (&last["left_ms"], &last["rate_per_sec"]),
        (&json!(0), &json!(0.0)),
        "nothing is left: {last}"
    );
    world.node.stop().await;
}

/// An API that asked for quiet with a page of HTML was asked on at full pace, and each key failed for good: the page was
/// longer than a result may be, and that was looked at before the status.
#[tokio::test(flavor = "multi_thread")]
async fn qu_26_a_long_error_page_is_an_error_and_not_a_long_result() {
    let page = "<p>busy</p>".repeat(20_000);
    let api = StubApi::start(move |path, before| match (path, before) {
        ("/throttled", 0) => Reply::new(429, &page).with("retry-after", "1"),
        ("/away", 0) => Reply::new(503, &page).with("retry-after", "1"),
        ("/broken", 0) => Reply::new(500, &page),
        ("/refused", _) => Reply::new(404, &page),
        ("/long", _) => Reply::new(200, &page),
        _ => Reply::new(200, "1"),
    })
    .await;
    let (world, _folder) = world(&api, &format!("{FAST}\nresult_max_bytes = 1000")).await;
    for key in ["throttled", "away", "broken"] {
        world.enqueue("words", "new", &[key]).await;
        let known = world.ended("words", key).await;
        assert_eq!((&known["state"], &known["result"]), (&json!("done"), &json!(1)), "{known}");
    }
    let calls = api.calls();
    let gap = |path: &str| {
        let of_path: Vec<_> = calls.iter().filter(|call| call.path == path).collect();
        of_path[1].began.duration_since(of_path[0].ended.unwrap())
    };
    assert!(gap("/throttled") >= Duration::from_millis(990) && gap("/away") >= Duration::from_millis(990));
    world.enqueue("words", "new", &["refused", "long"]).await;
    let refused = world.ended("words", "refused").await;
    assert!(
        refused["reason"].as_str().unwrap().starts_with("the API answered with status 404: <p>busy"),
        "{refused}"
    );
    let long = world.ended("words", "long").await;
    assert_eq!(long["reason"], "the answer is longer than 1000 bytes");
}

/// Results are listed in pages of four megabytes at most, and a page that was shorter than asked for passed for the last.
#[tokio::test(flavor = "multi_thread")]
async fn qu_23_long_results_are_listed_to_their_end() {
    let api = StubApi::start(|_, _| Reply::new(200, &format!("\"{}\"", "x".repeat(60_000)))).await;
    let (world, _folder) = world(&api, "interval_ms = 0\nconcurrency = 16").await;
    let keys: Vec<String> = (0..150).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    world.enqueue("words", "new", &keys).await;
    for key in &keys {
        world.ended("words", key).await;
    }
    let (mut seen, mut after) = (std::collections::BTreeSet::new(), String::new());
    loop {
        let page = world.get(&format!("/api/queues/words/keys?state=done{after}")).await;
        for entry in page["keys"].as_array().unwrap() {
            assert!(seen.insert(entry["key"].as_str().unwrap().to_owned()));
        }
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen.len(), keys.len());
}

/// A key that failed three times had no way back: only dead ones were retried.
#[tokio::test(flavor = "multi_thread")]
async fn qu_34_failed_keys_are_counted_and_can_be_retried() {
    let api = StubApi::start(|path, before| match (path, before) {
        ("/bad", 0..3) => Reply::new(500, "{}"),
        _ => Reply::new(200, "1"),
    })
    .await;
    let (world, _folder) = world(&api, FAST).await;
    world.enqueue("words", "new", &["bad"]).await;
    assert_eq!(world.ended("words", "bad").await["state"], "failed");
    assert_eq!(world.queue("words").await["counts"]["failed"], 1);
    assert!(world.text("/metrics").await.contains("syncline_queue_failed{queue=\"words\"} 1"));
    assert_eq!(world.post("/api/queues/words/revive", &json!({ "state": "dead" })).await["revived"], 0);
    assert_eq!(world.post("/api/queues/words/revive", &json!({ "state": "failed" })).await["revived"], 1);
    assert_eq!(world.ended("words", "bad").await["state"], "done");
}

/// While an API was away its keys were used up one by one, each by the probes that were made for it.
#[tokio::test(flavor = "multi_thread")]
async fn qu_34_an_outage_fails_no_key() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = format!(
        "[[queues]]\nname = \"words\"\nurl = \"http://{closed}/{{key}}\"\n\
         interval_ms = 0\nretry_delay_ms = 1\nbreaker_pause_sec = 1\nmax_attempts = 3\n"
    );
    let world = World::start(folder.path(), None, &file).await;
    world.enqueue("words", "new", &["alone"]).await;
    // Its attempts and the breaker's first probes are behind it.
    until("the breaker to open", async || world.queue("words").await["breaker"] == "open").await;
    let calls = "syncline_queue_calls_total{queue=\"words\",status=\"none\"} 8";
    until("two probes and more", async || world.text("/metrics").await.contains(calls)).await;
    let counts = world.queue("words").await["counts"].clone();
    assert_eq!((&counts["failed"], &counts["dead"]), (&json!(0), &json!(0)), "{counts}");
    assert_eq!(world.queue("words").await["left_ms"], Value::Null, "nobody can tell while it is away");
}
