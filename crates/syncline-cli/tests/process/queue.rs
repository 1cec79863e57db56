//! Queues of any HTTP API, end to end: declared in a file, worked on by real processes, measured at the API.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use serde_json::{Value, json};
use syncline_sim::postgres;
use syncline_testing::process::{Node, number, run};
use syncline_testing::{Reply, StubApi};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Longest path that the API takes: a slash and 200 letters.
const PATH_MAX: usize = 201;

/// Calls at once in the crash tests: so many can be under way when a node dies.
const AT_ONCE: u64 = 4;

/// An API that tells by which path it was asked, on a runtime of its own.
struct Echo {
    api: StubApi,
    _runtime: Runtime,
}

impl Echo {
    /// Starts one whose replies take this long.
    fn start(latency: Duration) -> Echo {
        Echo::start_with(move |path| {
            let reply = match path.len() {
                0..=PATH_MAX => Reply::new(200, &json!({ "path": path }).to_string()),
                _ => Reply::new(422, r#"{"error":"a word has at most 200 letters"}"#),
            };
            reply.after(latency)
        })
    }

    fn start_with(rule: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Echo {
        let runtime = Runtime::new().unwrap();
        let api = runtime.block_on(StubApi::start(move |path, _| rule(path)));
        Echo { api, _runtime: runtime }
    }

    /// The key of every call so far.
    fn keys(&self) -> Vec<String> {
        self.api.calls().iter().map(|call| call.path[1..].to_owned()).collect()
    }
}

/// How many of these were there before.
fn repeated(keys: &[String]) -> usize {
    keys.len() - keys.iter().collect::<BTreeSet<_>>().len()
}

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
    let echo = Echo::start(Duration::ZERO);
    let node = Node::start(&format!("jobs = []\n{}", echo.api.queue("words", "interval_ms = 5")));
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
    assert_eq!(result["result"]["path"], "/word%203%2F%C3%BC");
    let failed = node.get(&format!("/api/queues/words/results/{too_long}"));
    assert!(failed["reason"].as_str().unwrap().contains("at most 200 letters"), "{failed}");

    // The same key again is another call; without that word it is none.
    assert_eq!(enqueue(&node, "words", "new", &words[..1])["unchanged"], 1);
    assert_eq!(enqueue(&node, "words", "again", &words[..1])["added"], 1);
    assert_eq!(node.get("/api/queues/words/results/word%200%2F%C3%BC?wait_ms=5000")["state"], "done");
    let asked = echo.keys();
    assert_eq!((asked.len(), repeated(&asked)), (22, 1), "{asked:?}");
    assert!(echo.api.smallest_gap() >= Duration::from_millis(5), "{:?}", echo.api.smallest_gap());
    let (_, metrics) = node.ask("GET", "/metrics", &[], "");
    assert!(metrics.contains("syncline_queue_done_total{queue=\"words\"} 21"), "{metrics}");
}

#[test]
fn qu_22_qu_24_queues_are_filled_watched_and_mended_on_the_command_line() {
    let echo = Echo::start(Duration::ZERO);
    let busy = Echo::start_with(|_| Reply::new(429, "{}"));
    let file = format!(
        "jobs = []\n{}{}",
        echo.api.queue("words", "interval_ms = 1"),
        busy.api
            .queue("nobody", "interval_ms = 1\nretry_delay_ms = 1\nmax_attempts = 2\nfailure_attempts = 10")
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
    let paths: BTreeSet<&str> = results.iter().map(|one| one["result"]["path"].as_str().unwrap()).collect();
    assert_eq!((code, paths), (0, ["/tide", "/moon", "/sun"].into()));
    assert_eq!(syncline(&["queue", "add", "words", "sun"]), (0, "1 unchanged\n".to_owned()));
    let (code, said) = syncline(&["queue", "results", "words", "tide", "--wait", "5"]);
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["path"], "/tide");
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
    assert!(shown.contains("3 done") && shown.contains("\"/tide\""), "{shown}");
    let (code, said) = syncline(&["queue", "show", "none"]);
    assert!(code == 1 && said.contains("none"), "{said}");
    assert_eq!(syncline(&["queue", "add", "words"]).0, 2);
}

/// A node is killed again and again while it works through a queue.
fn killed_again_and_again(environment: &[(&str, &str)]) {
    let (tasks, kills) = (number("SYNCLINE_QUEUE_TASKS", 200), number("SYNCLINE_QUEUE_KILLS", 2));
    let echo = Echo::start(Duration::from_millis(2));
    // A call that nobody ends counts as lost some seconds after its time-out, and its place is taken for so long.
    let pace = format!("concurrency = {AT_ONCE}\ninterval_ms = 0\ntimeout_sec = 1");
    let file = format!("jobs = []\n{}", echo.api.queue("words", &pace));
    let start = |folder: TempDir| Node::start_in(folder, &file, environment);
    let words: Vec<String> = (0..tasks).map(|n| format!("w{n}")).collect();
    let mut node = start(tempfile::tempdir().unwrap());
    words
        .chunks(1_000)
        .for_each(|words| assert_eq!(enqueue(&node, "words", "new", words)["added"], words.len()));
    let mut stored: Vec<(BTreeSet<String>, usize)> = Vec::new();
    for kill in 1..=kills {
        let enough = tasks * kill / (kills + 1);
        node.wait_for_queue("words", enough);
        let done: BTreeSet<String> = keys(&node, "words", "done").into_keys().collect();
        stored.push((done, echo.keys().len()));
        node = start(node.kill());
    }
    node.wait_for_queue("words", tasks);

    let results = keys(&node, "words", "done");
    assert_eq!(results.len() as u64, tasks, "none is lost");
    for (word, result) in &results {
        assert_eq!(result["path"], format!("/{word}"));
    }
    let calls = echo.keys();
    for (done, calls_then) in &stored {
        let again: Vec<&String> = calls[*calls_then..].iter().filter(|key| done.contains(*key)).collect();
        assert!(again.is_empty(), "called although their results were stored: {again:?}");
    }
    let more = repeated(&calls) as u64;
    println!("tasks={tasks} kills={kills} calls={} lost=0 made again={more}", calls.len());
    assert!(
        more <= kills * AT_ONCE,
        "{more} calls were made again; at most {AT_ONCE} were under way at each kill"
    );
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

#[test]
fn qu_33_a_pace_changes_by_sighup_and_by_command_and_groups_are_shown_and_paused() {
    let file = |interval: u32| {
        format!(
            "jobs = []\n[[queues]]\nname = \"pages\"\nworkers = true\ngroup = \"{{host}}\"\ninterval_ms = {interval}\n"
        )
    };
    let node = Node::start(&file(5_000));
    let path = node.folder.path().join("syncline.toml");
    let interval = |node: &Node| node.get("/api/queues/pages")["interval_ms"].clone();
    assert_eq!(interval(&node), 5_000);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("interval_ms = 5000", "interval_ms = 20")).unwrap();
    node.signal(rustix::process::Signal::HUP);
    while interval(&node) != 20 {
        std::thread::yield_now();
    }
    assert!(!node.log().contains("need a restart"), "{}", node.log());

    let url = node.url();
    let ask = |arguments: &[&str]| {
        let output = run(node.folder.path(), &[&["queue"], arguments].concat(), &[("SYNCLINE_URL", &url)]);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    ask(&["pace", "pages", "--interval-ms", "0", "--group-concurrency", "2"]);
    let status = node.get("/api/queues/pages");
    assert_eq!((&status["interval_ms"], &status["pace_is_set"]), (&json!(0), &json!(true)));
    ask(&["add", "pages", "https://a.example/1", "https://b.example/1"]);
    ask(&["add", "pages", "x", "y", "--group", "given"]);
    ask(&["pause", "pages", "--group", "a.example"]);
    let shown = ask(&["groups", "pages"]);
    for line in ["a.example", "b.example", "given"] {
        assert!(shown.contains(line), "{shown}");
    }
    let groups: Value = serde_json::from_str(&ask(&["groups", "pages", "--json"])).unwrap();
    let of = |name: &str| {
        groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == name).unwrap().clone()
    };
    assert_eq!((&of("a.example")["paused"], &of("given")["waiting"]), (&json!(true), &json!(2)));
    ask(&["resume", "pages", "--group", "a.example"]);
    ask(&["pace", "pages", "--reset"]);
    assert_eq!(interval(&node), 20);
}
