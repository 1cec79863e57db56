//! One pace for all nodes, measured where it counts: by the API that is called.
//!
//! Child processes (this very program, told so by an environment variable) share one queue on one PostgreSQL, one of them
//! by way of a transaction pooler, and call a server in the parent, which notes when each call arrived and when it was
//! answered. `SYNCLINE_ROUNDS` sets how many calls are made.

#![cfg(test)]

use std::env;
use std::process::Stdio;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use syncline_core::queue::{Answer, Kind, Settings};
use syncline_sim::postgres::Cluster;
use syncline_store::Store;
use syncline_store::queue::Rules;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::block_in_place;

#[path = "conformance/pooler.rs"]
mod pooler;

/// Set in the child: the store, and the API's address.
const WORK_ON: &str = "SYNCLINE_TEST_WORK_ON";
const CALL: &str = "SYNCLINE_TEST_CALL";
const TEST: &str = "qu_21_processes_on_one_postgres_never_call_closer_than_the_interval";
const QUEUE: &str = "paced";
const INTERVAL: Duration = Duration::from_millis(25);
const WORKERS: usize = 3;

/// When calls arrived and were answered, and by which process.
type Calls = Arc<Mutex<Vec<(Instant, Instant, String)>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qu_21_processes_on_one_postgres_never_call_closer_than_the_interval() {
    if let Ok(url) = env::var(WORK_ON) {
        return work(&url).await;
    }
    let total: usize = env::var("SYNCLINE_ROUNDS").map_or(60, |calls| calls.parse().unwrap());
    let cluster = block_in_place(Cluster::start).unwrap();
    let direct = cluster.url("postgres");
    let options = PgConnectOptions::from_str(&direct).unwrap();
    let server = format!("{}:{}", options.get_host(), options.get_port()).parse().unwrap();
    let pooled = pooler::start(server, options.get_username(), "postgres").await;
    let pooled = format!("postgres://{}@{pooled}/postgres", options.get_username());

    let store = Store::open(&direct).await.unwrap();
    let keys: Vec<String> = (0..total).map(|n| format!("word {n}")).collect();
    store.queues().enqueue(QUEUE, &rules(), Kind::New, &keys).await.unwrap();
    let (api, calls) = serve().await;
    let workers = (0..WORKERS).map(|n| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", TEST, "--quiet"]).env(CALL, &api);
        command.env(WORK_ON, if n == 0 { &pooled } else { &direct });
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    });
    for mut worker in workers.collect::<Vec<_>>() {
        assert!(worker.wait().await.unwrap().success());
    }
    let mut calls = calls.lock().unwrap().clone();
    calls.sort();
    let gaps = calls.windows(2).map(|pair| pair[1].0.saturating_duration_since(pair[0].1));
    let smallest = gaps.min().unwrap();
    let mut busy: Vec<&String> = calls.iter().map(|(.., process)| process).collect();
    busy.sort();
    busy.dedup();
    println!(
        "calls={} processes={} interval={INTERVAL:?} smallest gap={smallest:?}",
        calls.len(),
        busy.len()
    );
    assert_eq!(calls.len(), total, "each key is called once");
    assert!(busy.len() > 1, "one process did it all");
    assert!(smallest >= INTERVAL);
}

/// The API: a line comes, a line goes.
async fn serve() -> (String, Calls) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, calls) = (listener.local_addr().unwrap().to_string(), Calls::default());
    let noted = Arc::clone(&calls);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let arrived = Instant::now();
            let noted = Arc::clone(&noted);
            tokio::spawn(async move {
                let (mut stream, mut process) = (BufReader::new(stream), String::new());
                stream.read_line(&mut process).await.unwrap();
                noted.lock().unwrap().push((arrived, Instant::now(), process));
                stream.write_all(b"well\n").await.unwrap();
            });
        }
    });
    (address, calls)
}

/// The child: works until nothing is left.
async fn work(url: &str) {
    let (store, api, rules) = (Store::open(url).await.unwrap(), env::var(CALL).unwrap(), rules());
    let queues = store.queues();
    loop {
        let claimed = queues.claim(QUEUE, &rules, 1).await.unwrap();
        let called = !claimed.runs.is_empty();
        for run in claimed.runs {
            let answer = if Instant::now() <= run.start_by {
                let mut stream = TcpStream::connect(&api).await.unwrap();
                stream.write_all(format!("{}\n", std::process::id()).as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                Answer::Done(answer)
            } else {
                Answer::NotMade
            };
            queues.settle(QUEUE, &rules, vec![(run.call, answer)]).await.unwrap();
        }
        if queues.status(QUEUE, &rules).await.unwrap().counts.left() == 0 {
            return;
        }
        // Others end calls meanwhile, which this one does not hear of here: it looks. Who has just called is the first to
        // know when the next may; it lets the others.
        let look_at = Instant::now() + INTERVAL;
        let look_at = claimed.look_at.map_or(look_at, |at| at.min(look_at));
        tokio::time::sleep_until((look_at + if called { INTERVAL } else { Duration::ZERO }).into()).await;
    }
}

fn rules() -> Rules {
    Rules::from(Settings::new(1, INTERVAL, Duration::from_millis(500)))
}
