//! Workers of one's own: `syncline worker` and the examples in `examples/workers`, as processes.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use syncline_sim::postgres;
use syncline_testing::process::{Node, number, syncline};

const SUMS: &str = "jobs = []\n[[queues]]\nname = \"sums\"\nworkers = true\nretry_delay_ms = 1\n";

/// A process that is killed when the test is over.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn add(node: &Node, tasks: &Value) {
    let (status, answer) = node.ask("POST", "/api/queues/sums", &[], &json!({ "tasks": tasks }).to_string());
    assert_eq!(status, 202, "{answer}");
}

/// What a key ended with.
fn ended(node: &Node, key: &str) -> Value {
    loop {
        let known = node.get(&format!("/api/queues/sums/results/{key}?wait_ms=5000"));
        if ["done", "failed", "dead"].iter().any(|state| known["state"] == *state) {
            return known;
        }
    }
}

fn worker(node: &Node, arguments: &[&str]) -> Command {
    let mut command = syncline(node.folder.path(), &[&["worker", "sums"], arguments].concat());
    command.env("SYNCLINE_URL", node.url());
    command
}

/// The same for each of the examples: two keys that add up, one that never will.
fn adds_up(node: &Node, mut command: Command, by: &str) {
    let _worker = Killed(command.env("SYNCLINE_URL", node.url()).spawn().unwrap());
    add(
        node,
        &json!([
            { "key": format!("{by}-one"), "input": [1, 2, 3] },
            { "key": format!("{by}-two"), "input": [40, 2] },
            { "key": format!("bad-{by}"), "input": ["x"] },
        ]),
    );
    for (key, total) in [("one", 6), ("two", 42)] {
        let known = ended(node, &format!("{by}-{key}"));
        assert_eq!(
            (&known["state"], &known["result"]),
            (&json!("done"), &json!({ "total": total, "by": by }))
        );
    }
    let bad = ended(node, &format!("bad-{by}"));
    assert_eq!((&bad["state"], &bad["attempts"]), (&json!("failed"), &json!(1)));
    assert!(bad["reason"].as_str().unwrap().contains("is no list of numbers"), "{bad}");
}

#[test]
fn qu_31_the_example_in_shell_works() {
    let node = Node::start(SUMS);
    let script = repository().join("examples/workers/worker.sh");
    adds_up(&node, worker(&node, &["--concurrency", "2", "--", script.to_str().unwrap()]), "shell");
}

#[test]
fn qu_31_the_example_in_python_works() {
    let node = Node::start(SUMS);
    let mut command = Command::new("python3");
    command.arg(repository().join("examples/workers/worker.py")).arg("sums");
    adds_up(&node, command, "python");
}

#[test]
fn qu_31_the_example_in_node_works() {
    let node = Node::start(SUMS);
    let packages = node.folder.path().join("node_modules");
    std::fs::create_dir(&packages).unwrap();
    symlink(repository().join("crates/syncline-browser/js"), packages.join("syncline")).unwrap();
    let script = node.folder.path().join("worker.mjs");
    std::fs::copy(repository().join("examples/workers/worker.mjs"), &script).unwrap();
    let mut command = Command::new("node");
    command.arg(script).arg("sums");
    adds_up(&node, command, "node");
}

#[test]
fn qu_31_a_worker_ends_when_nothing_is_left_and_tells_what_became_of_each_key() {
    let node = Node::start(SUMS);
    add(&node, &json!([{ "key": "a", "input": "in" }, { "key": "b" }, { "key": "never" }]));
    let script = "test $SYNCLINE_KEY = never && { echo 'no way' >&2; exit 65; }; read input; echo $SYNCLINE_QUEUE $SYNCLINE_KEY $SYNCLINE_ATTEMPT $input";
    let output = worker(&node, &["--until-empty", "--json", "--", "sh", "-c", script]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let told: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states: Vec<(&Value, &Value)> = told.iter().map(|one| (&one["key"], &one["state"])).collect();
    let expected =
        [("a", "done"), ("b", "done"), ("never", "failed")].map(|(key, state)| (json!(key), json!(state)));
    assert_eq!(states, expected.iter().map(|(key, state)| (key, state)).collect::<Vec<_>>(), "{said}");
    assert_eq!(output.status.code(), Some(1), "one brought nothing");
    assert_eq!(ended(&node, "a")["result"], "sums a 1 \"in\"");
    assert_eq!(ended(&node, "never")["reason"], "no way (exit code 65)");
    let wrong = worker(&node, &["--until-empty"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "a command is needed");
}

/// Workers are killed while they work. The lease is a second, and five for an answer to arrive.
fn killed_again_and_again(environment: &[(&str, &str)]) {
    let (tasks, kills) = (number("SYNCLINE_QUEUE_TASKS", 60), number("SYNCLINE_QUEUE_KILLS", 2));
    let file = SUMS.replace("retry_delay_ms = 1", "retry_delay_ms = 1\nmax_attempts = 1000");
    let node = Node::start_in(tempfile::tempdir().unwrap(), &file, environment);
    let keys: Vec<Value> = (0..tasks).map(|n| json!({ "key": format!("k{n}"), "input": n })).collect();
    keys.chunks(1_000).for_each(|keys| add(&node, &json!(keys)));
    let ledger = node.folder.path().join("ledger");
    let script = format!("read n; echo $SYNCLINE_KEY $n >> {}; sleep 0.02; echo $n", ledger.display());
    let start = || {
        let mut command = worker(&node, &["--concurrency", "4", "--lease", "1", "--", "sh", "-c", &script]);
        Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let mut workers = [start(), start()];
    let mut stored: Vec<(Vec<String>, usize)> = Vec::new();
    for kill in 1..=kills {
        node.wait_for_queue("sums", tasks * kill / (kills + 1));
        let done = node.get("/api/queues/sums/keys?state=done&limit=1000");
        let done = done["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap().to_owned());
        let (done, runs) = (done.collect(), std::fs::read_to_string(&ledger).unwrap().lines().count());
        stored.push((done, runs));
        workers[(kill % 2) as usize] = start();
    }
    node.wait_for_queue("sums", tasks);
    let runs = std::fs::read_to_string(&ledger).unwrap();
    let runs: Vec<&str> = runs.lines().map(|line| line.split(' ').next().unwrap()).collect();
    for (done, before) in stored {
        let again: Vec<&&str> =
            runs[before..].iter().filter(|key| done.contains(&(**key).to_owned())).collect();
        assert!(again.is_empty(), "done again although their results were stored: {again:?}");
    }
    for n in 0..tasks {
        assert_eq!(ended(&node, &format!("k{n}"))["result"], n, "each has its own input's result");
    }
    println!("tasks={tasks} kills={kills} runs={} lost=0", runs.len());
}

#[test]
fn qu_31_a_worker_that_is_killed_loses_its_leases_and_nothing_else() {
    killed_again_and_again(&[]);
}

#[test]
fn qu_31_on_postgres_too_a_worker_that_is_killed_loses_its_leases_and_nothing_else() {
    let database = postgres::database();
    killed_again_and_again(&[("DATABASE_URL", database.url.as_str())]);
}

#[test]
fn qu_31_a_command_whose_key_was_removed_is_ended_with_all_it_started() {
    let node = Node::start(SUMS);
    add(&node, &json!([{ "key": "a" }]));
    let pid = node.folder.path().join("pid");
    let script = format!("sleep 3600 & echo $! > {}.new; mv {0}.new {0}; wait", pid.display());
    let mut command = worker(&node, &["--lease", "1", "--json", "--until-empty", "--", "sh", "-c", &script]);
    let worker = command.stdout(Stdio::piped()).spawn().unwrap();
    while !pid.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    node.ask("DELETE", "/api/queues/sums/keys/a", &[], "");
    let output = worker.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["state"], output.status.code()), (&json!("lost"), Some(1)));
    let pid = std::fs::read_to_string(&pid).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "what it started is gone, too");
}
