//! Queues of any HTTP API, end to end: declared in a file, worked on by real processes, measured at the API.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use serde_json::{Value, json};
use syncline_sim::postgres;
use tempfile::TempDir;

use crate::program::{Node, number, run};
use crate::upstreams::Upstreams;

/// Calls at once in the crash tests: so many can be under way when a node dies.
const AT_ONCE: u64 = 4;

fn enqueue(node: &Node, queue: &str, kind: &str, keys: &[String]) -> Value {
    let body = json!({ "kind": kind, "keys": keys }).to_string();
    let (status, answer) = node.ask("POST", &format!("/api/queues/{queue}"), &[], &body);
    assert_eq!(status, 202, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

/// All keys of a queue that are in this state, with their results.
fn keys(node: &Node, queue: &str, state: &str) -> BTreeMap<String, Value> {
    let (mut found, mut after) = (BTreeMap::new(), String::new());
    loop {
        let page = node.get(&format!("/api/queues/{queue}/keys?state={state}&limit=1000{after}"));
        for entry in page["keys"].as_array().unwrap() {
            found.insert(entry["key"].as_str().unwrap().to_owned(), entry["result"].clone());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
}

/// Waits until so many keys have ever ended well.
pub(crate) fn until_done(node: &Node, queue: &str, count: u64) {
    while node.get(&format!("/api/queues/{queue}"))["done_total"].as_u64().unwrap() < count {
        // The node has better things to do than to answer this all the time.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Events of a node as they come: name and data.
fn events(node: &Node, topics: &str) -> impl Iterator<Item = (String, Value)> + use<> {
    let mut stream = node.connect();
    let get = format!("GET /api/events?topics={topics} HTTP/1.1\r\nhost: {}\r\n\r\n", node.address);
    stream.write_all(get.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    let mut next = move |start: &str| {
        lines.by_ref().find_map(|line| line.strip_prefix(start).map(|rest| rest.trim().to_owned()))
    };
    let mut events = std::iter::from_fn(move || Some((next("event:")?, next("data:")?)))
        .map(|(name, data)| (name, serde_json::from_str(&data).unwrap()));
    assert_eq!(events.next().unwrap().0, "hello");
    events
}

#[test]
fn qu_23_a_queue_of_any_api_is_declared_in_a_file_and_brings_results_over_http_and_as_events() {
    let upstreams = Upstreams::start(&["--pace", "words=5"]);
    let file = format!(
        "jobs = []\n[[queues]]\nname = \"words\"\nurl = \"{}/words/{{key}}\"\ninterval_ms = 5\n",
        upstreams.origin
    );
    let node = Node::start(&file);
    let mut events = events(&node, "queue");
    let words: Vec<String> = (0..20).map(|n| format!("word {n}/ü")).collect();
    let too_long = "x".repeat(201);
    assert_eq!(enqueue(&node, "words", "new", &words)["added"], 20);
    assert_eq!(enqueue(&node, "words", "new", &[words[3].clone(), too_long.clone()])["added"], 1);

    let mut heard: BTreeMap<String, String> = BTreeMap::new();
    while heard.len() < 21 {
        let (name, data) = events.next().unwrap();
        if name == "queue.result" {
            assert_eq!(data["queue"], "words");
            let text = |field: &str| data[field].as_str().unwrap().to_owned();
            assert_eq!(heard.insert(text("key"), text("state")), None, "each key ends once");
        }
    }
    assert_eq!(heard.remove(&too_long).as_deref(), Some("failed"));
    assert!(heard.values().all(|state| state == "done"), "{heard:?}");
    // And the queue itself says how far it is.
    let (_, status) = events
        .find(|(name, data)| name == "queue" && data["name"] == "words" && data["counts"]["done"] == 20)
        .unwrap();
    assert_eq!(status["counts"]["failed"], 1);

    let result = node.get("/api/queues/words/results/word%203%2F%C3%BC?wait_ms=5000");
    assert_eq!((&result["state"], &result["attempts"]), (&json!("done"), &json!(1)));
    assert_eq!(result["result"]["backwards"], "ü/3 drow");
    let failed = node.get(&format!("/api/queues/words/results/{too_long}"));
    assert!(failed["reason"].as_str().unwrap().contains("at most 200 letters"), "{failed}");

    // The same key again is another call; without that word it is none.
    assert_eq!(enqueue(&node, "words", "new", &words[..1])["unchanged"], 1);
    assert_eq!(enqueue(&node, "words", "again", &words[..1])["added"], 1);
    assert_eq!(node.get("/api/queues/words/results/word%200%2F%C3%BC?wait_ms=5000")["state"], "done");
    let seen = upstreams.figures("words");
    assert_eq!((seen.calls, seen.too_many, seen.asked_again, seen.most_at_once), (22, 0, 1, 1));
    assert!(seen.smallest_gap_ms >= Some(5.0), "{seen:?}");
    let (_, metrics) = node.ask("GET", "/metrics", &[], "");
    assert!(metrics.contains("syncline_queue_done_total{queue=\"words\"} 21"), "{metrics}");
}

#[test]
fn qu_22_qu_24_queues_are_filled_watched_and_mended_on_the_command_line() {
    let upstreams = Upstreams::start(&["--pace", "words=1"]);
    let busy = Upstreams::start(&["--pace", "words=0", "--flaky", "429=1"]);
    let file = format!(
        "jobs = []\n\
         [[queues]]\nname = \"words\"\nurl = \"{}/words/{{key}}\"\ninterval_ms = 1\n\
         [[queues]]\nname = \"nobody\"\nurl = \"{}/words/{{key}}\"\ninterval_ms = 1\nretry_delay_ms = 1\n\
         max_attempts = 2\nfailure_attempts = 10\n",
        upstreams.origin, busy.origin
    );
    let node = Node::start(&file);
    let url = node.url();
    let syncline = |arguments: &[&str]| {
        let output = run(node.folder.path(), arguments, &[("SYNCLINE_URL", &url)]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(!said.contains('\x1b'), "no colours and no bar where no terminal is: {said:?}");
        (output.status.code().unwrap(), said + &String::from_utf8(output.stderr).unwrap())
    };
    std::fs::write(node.folder.path().join("keys"), "# words\ntide\n\nmoon\n").unwrap();
    let (code, said) = syncline(&["queue", "add", "words", "--file", "keys", "sun", "--wait", "--json"]);
    let results: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let backwards: BTreeSet<&str> =
        results.iter().map(|one| one["result"]["backwards"].as_str().unwrap()).collect();
    assert_eq!((code, backwards), (0, ["edit", "noom", "nus"].into()));
    assert_eq!(syncline(&["queue", "add", "words", "sun"]), (0, "1 unchanged\n".to_owned()));
    let (code, said) = syncline(&["queue", "results", "words", "tide", "--wait", "5"]);
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["letters"], 4);
    assert_eq!(code, 0);

    let (code, said) = syncline(&["queue", "add", "nobody", "a", "b", "--wait"]);
    assert!(code == 1 && said.contains("a  dead"), "{code} {said}");
    let (_, dead) = syncline(&["queue", "dead", "nobody"]);
    assert!(dead.contains("a  2 attempts") && dead.contains("b  2 attempts"), "{dead}");
    assert_eq!(syncline(&["queue", "retry", "nobody", "a"]), (0, "1 key is back in line\n".to_owned()));
    assert_eq!(syncline(&["queue", "remove", "nobody", "b"]), (0, "b  removed\n".to_owned()));
    assert_eq!(syncline(&["queue", "remove", "nobody", "b"]).0, 1);

    let (code, listed) = syncline(&["queue", "list"]);
    let row = listed.lines().find(|line| line.starts_with("words ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((code, &cells[1..9]), (0, &["1", "every", "1", "ms", "0", "0", "0", "3"][..]), "{listed}");
    let (_, shown) = syncline(&["queue", "show", "words"]);
    assert!(shown.contains("3 done") && shown.contains("\"edit\""), "{shown}");
    let (code, said) = syncline(&["queue", "show", "none"]);
    assert!(code == 1 && said.contains("none"), "{said}");
    assert_eq!(syncline(&["queue", "add", "words"]).0, 2);
}

/// A node is killed again and again while it works through a queue.
fn killed_again_and_again(environment: &[(&str, &str)]) {
    let (tasks, kills) = (number("SYNCLINE_QUEUE_TASKS", 200), number("SYNCLINE_QUEUE_KILLS", 2));
    let upstreams = Upstreams::start(&["--pace", "words=0", "--latency", "2"]);
    // A call that nobody ends counts as lost some seconds after its time-out, and its place is taken for so long.
    let file = format!(
        "jobs = []\n[[queues]]\nname = \"words\"\nurl = \"{}/words/{{key}}\"\nconcurrency = {AT_ONCE}\n\
         interval_ms = 0\ntimeout_sec = 1\n",
        upstreams.origin
    );
    let start = |folder: TempDir| Node::start_in(folder, &file, environment);
    let words: Vec<String> = (0..tasks).map(|n| format!("w{n}")).collect();
    let mut node = start(tempfile::tempdir().unwrap());
    words
        .chunks(1_000)
        .for_each(|words| assert_eq!(enqueue(&node, "words", "new", words)["added"], words.len()));
    let mut stored: Vec<(BTreeSet<String>, u64)> = Vec::new();
    for kill in 1..=kills {
        let enough = tasks * kill / (kills + 1);
        until_done(&node, "words", enough);
        let done: BTreeSet<String> = keys(&node, "words", "done").into_keys().collect();
        stored.push((done, upstreams.figures("words").calls));
        node = start(node.kill());
    }
    until_done(&node, "words", tasks);

    let results = keys(&node, "words", "done");
    assert_eq!(results.len() as u64, tasks, "none is lost");
    for (word, result) in &results {
        assert_eq!(result["backwards"], word.chars().rev().collect::<String>());
    }
    let calls = upstreams.calls("words");
    for (done, calls_then) in &stored {
        let later = calls.iter().filter(|call| call.n > *calls_then);
        let again: Vec<&str> =
            later.map(|call| call.key.as_str()).filter(|key| done.contains(*key)).collect();
        assert!(again.is_empty(), "called although their results were stored: {again:?}");
    }
    let mut by_key: BTreeMap<&str, u64> = BTreeMap::new();
    calls.iter().for_each(|call| *by_key.entry(&call.key).or_default() += 1);
    let more: u64 = by_key.values().map(|count| count - 1).sum();
    println!("tasks={tasks} kills={kills} calls={} lost=0 made again={more}", calls.len());
    assert!(
        more <= kills * AT_ONCE,
        "{more} calls were made again; at most {AT_ONCE} were under way at each kill"
    );
    assert_eq!(upstreams.stop().apis[4].too_many, 0);
}

#[test]
fn qu_20_a_node_killed_in_the_middle_loses_no_key_and_repeats_none_after_its_result_was_stored() {
    killed_again_and_again(&[]);
}

#[test]
fn qu_20_on_postgres_too_a_killed_node_loses_no_key_and_repeats_none_after_its_result_was_stored() {
    let database = postgres::database();
    killed_again_and_again(&[("DATABASE_URL", database.url.as_str())]);
}
