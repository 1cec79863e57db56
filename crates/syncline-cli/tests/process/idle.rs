//! Programs with nothing to do, and how often they ask their database.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use syncline_sim::postgres::Cluster;
use syncline_testing::process::{Node, number, serversync};

/// Statements that are no further apart belong to one moment.
const MOMENT: Duration = Duration::from_secs(2);

/// A queue of its own, so that every system has something it could wait for.
const FILE: &str = r#"
[[queues]]
name = "lookups"
url = "http://127.0.0.1:9/{key}"
"#;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// When which database was asked what: the second of the log and the statement.
fn asked(log: &str) -> BTreeMap<String, Vec<(f64, String)>> {
    let mut asked: BTreeMap<String, Vec<(f64, String)>> = BTreeMap::new();
    for line in log.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(at), Some(database), Some(rest)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Ok(at) = at.parse() else { continue };
        if rest.contains("LOG:  statement:") || rest.contains("LOG:  execute ") {
            asked.entry(database.to_owned()).or_default().push((at, rest.to_owned()));
        }
    }
    asked
}

fn moments(asked: &[(f64, String)]) -> usize {
    let apart = |pair: &[(f64, String)]| pair[1].0 - pair[0].0 > MOMENT.as_secs_f64();
    if asked.is_empty() { 0 } else { 1 + asked.windows(2).filter(|pair| apart(pair)).count() }
}

/// A node asked for viewers every five seconds, for keys every two, for queues every five; a worker for its settings every two. A
/// database that could have slept was kept awake and had 1.6 million questions a day.
#[test]
fn op_05_a_node_and_a_worker_with_nothing_to_do_ask_postgres_once_a_minute_at_most() {
    let minutes = number("SYNCLINE_IDLE_MINUTES", 1);
    let server = Cluster::start_with(&["log_statement=all", "log_line_prefix=%n %d "]).unwrap();
    for database in ["node", "box"] {
        server.execute("postgres", &format!("CREATE DATABASE {database}")).unwrap();
    }
    let (node_url, box_url) = (server.url("node"), server.url("box"));
    let start = || Node::start_in(tempfile::tempdir().unwrap(), FILE, &[("DATABASE_URL", &node_url)]);
    let (node, another) = (start(), start());
    let folder = tempfile::tempdir().unwrap();
    let mut worker = serversync(folder.path(), &[]);
    worker.envs([("DATABASE_URL", box_url.as_str()), ("FRONTEND_BASE_URL", &node.url())]);
    let worker = Running(worker.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());

    // Both have begun, and have nothing more to do.
    let (mut known, mut since) = (0, Instant::now());
    syncline_sim::until_blocking("silence after the start", || {
        let log = server.log().unwrap();
        let now = log.len();
        if now != known {
            (known, since) = (now, Instant::now());
        }
        asked(&log).contains_key("box") && since.elapsed() > 3 * MOMENT
    });
    let before = server.log().unwrap().len();
    std::thread::sleep(Duration::from_secs(60 * minutes - 1));
    let log = server.log().unwrap();
    let asked = asked(&log[before..]);
    for (database, programs) in [("node", 2), ("box", 1)] {
        let asked = asked.get(database).map_or(&[][..], Vec::as_slice);
        let (moments, most) = (moments(asked), usize::try_from(minutes).unwrap() * programs);
        println!("{database}: {programs} idle, {minutes} min: {moments} moments, {} statements", asked.len());
        assert!(moments <= most, "{database} was asked in {moments} moments: {asked:#?}");
    }
    drop((node, another, worker));
}
