//! The schedule in processes that are killed for real.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use syncline_testing::process::{Node, run};

/// A job that fires every second and writes its bucket and its node's process into a file, then takes a while.
fn writing_job(file: &Path) -> String {
    let script = format!("echo $SYNCLINE_BUCKET $PPID >> {}; sleep 0.3", file.display());
    format!(
        "[[jobs]]\nname = \"write\"\ncron = \"* * * * * *\"\nrun = {{ command = [\"sh\", \"-c\", {script:?}] }}\n"
    )
}

fn lines(file: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let pair = |line: &str| line.split_once(' ').map(|(bucket, pid)| (bucket.to_owned(), pid.to_owned()));
    text.lines().filter_map(pair).collect()
}

fn newest(node: &Node) -> Option<Value> {
    node.get("/api/jobs/write/history?limit=1")["runs"].as_array().unwrap().first().cloned()
}

#[test]
fn vw_23_a_node_that_is_killed_and_restarted_does_not_skip_a_watched_minute() {
    let folder = tempfile::tempdir().unwrap();
    let job = writing_job(&folder.path().join("runs"));
    let node = Node::start("jobs = []\n");
    assert_eq!(node.beat("somebody"), 200);
    let node = Node::start_in(node.kill(), &job, &[]);
    let first = loop {
        if let Some(run) = newest(&node) {
            break run;
        }
    };
    assert_eq!(first["reason"], "run: watched", "{first}");
}

#[test]
fn vw_20_jobs_are_listed_run_and_remembered_on_the_command_line() {
    let job = "[[jobs]]\nname = \"hello\"\ncron = \"0 0 1 1 *\"\nrun = { command = [\"echo\", \"hello\"] }\n\
               [[jobs]]\nname = \"broken\"\ncron = \"0 0 1 1 *\"\nrun = { command = [\"false\"] }\n";
    let node = Node::start(job);
    let url = node.url();
    let syncline = |arguments: &[&str]| {
        let output = run(node.folder.path(), arguments, &[("SYNCLINE_URL", &url)]);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = syncline(&["jobs", "run", "hello"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("done in ") && said.ends_with("(run: by hand): hello\n"), "{said}");
    let (code, said) = syncline(&["jobs", "run", "broken"]);
    assert!(code == 1 && said.starts_with("failed"), "{code} {said}");
    assert_eq!(syncline(&["jobs", "run", "nobody"]).0, 1);
    let (code, listed) = syncline(&["jobs", "list"]);
    assert!(code == 0 && listed.contains("hello") && listed.contains("broken"), "{listed}");
    let (code, history) = syncline(&["jobs", "history", "hello", "--json"]);
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!((code, &history["runs"][0]["state"]), (0, &Value::from("done")), "{history}");
}

mod postgres {
    use super::*;

    /// Every bucket is written once, whoever dies. A process killed in the middle of a bucket takes that bucket's run with
    /// it, and the next bucket runs on the others.
    #[test]
    fn vw_07_three_nodes_one_run_for_each_bucket_also_when_the_running_node_is_killed() {
        let database = syncline_sim::postgres::database();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("runs");
        let job = writing_job(&file);
        let start = || {
            let url = database.url.as_str();
            Node::start_in(tempfile::tempdir().unwrap(), &job, &[("DATABASE_URL", url)])
        };
        let mut nodes: Vec<Node> = (0..3).map(|_| start()).collect();
        let mut kills = 0;
        while kills < 3 {
            for node in &nodes {
                node.beat("somebody");
            }
            let before = lines(&file).len();
            // A run has begun: kill the node that has it while it is in it.
            let runner = loop {
                if let Some((_, pid)) = lines(&file).get(before) {
                    break pid.clone();
                }
            };
            let at = nodes.iter().position(|node| node.pid() == runner).expect("the runner is one of ours");
            drop(nodes.swap_remove(at).kill());
            kills += 1;
            nodes.push(start());
        }
        let before = lines(&file).len();
        while lines(&file).len() < before + 2 {
            nodes[0].beat("somebody");
        }
        let mut runs: BTreeMap<String, u32> = BTreeMap::new();
        for (bucket, _) in lines(&file) {
            *runs.entry(bucket).or_default() += 1;
        }
        println!("{} buckets, {kills} nodes killed in the middle of one", runs.len());
        assert!(runs.values().all(|times| *times == 1), "{runs:?}");
    }
}
