//! Poison and outages: `serversync` beside a receiver that throws, hangs or is down. Nobody waits for poison, and no outage makes a
//! dead letter.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use serde_json::json;
use syncline_sim::until_blocking;

use super::shop::{Application, Receiver, Worker, said};

/// Thirty entries that made a receiver throw starved everybody else: each round tried ten of them, called the receiver down, and
/// paused; the poisonous ones were due again first. After twelve minutes none of 72 healthy entries had arrived.
#[test]
fn ss_32_thousands_of_poisonous_entries_hold_up_nobody() {
    let counts: &[usize] =
        if env::var_os("SYNCLINE_ROUNDS").is_some() { &[30, 300, 3_000] } else { &[30, 300] };
    for &poisonous in counts {
        let receiver = Receiver::start();
        let application = Application::new();
        for n in 0..poisonous {
            application.insert("order", &format!("bad{n}"), &json!({ "poison": true }));
        }
        let url = receiver.url();
        let environment = [("FRONTEND_BASE_URL", url.as_str()), ("SYNC_POLL_INTERVAL_SEC", "1")];
        let worker = application.command(&[], &environment).stderr(Stdio::null()).spawn().unwrap();
        let _worker = Worker(worker);
        // The first ones are written while poison is tried for the first time, later ones while it is tried again.
        let mut waits = Vec::new();
        for n in 0..20 {
            let written = Instant::now();
            application.insert("order", &format!("good{n}"), &json!({ "n": n }));
            until_blocking("a healthy entry arrives", || receiver.ids().contains(&format!("good{n}")));
            waits.push(written.elapsed());
        }
        let requests = receiver.told()["requests"].as_u64().unwrap();
        let longest = waits.iter().max().unwrap();
        println!("{poisonous} poisonous: 20 healthy entries waited {longest:?} at most; {requests} requests");
        until_blocking("all healthy ones are marked", || {
            application.outbox(&["stats"])["pending"].as_u64() == Some(poisonous as u64)
        });
        let stats = application.outbox(&["stats"]);
        assert_eq!(stats["dead"].as_u64(), Some(0), "{stats}");
    }
}

/// An outage of eighty minutes made dead letters: each answer of 500 was an attempt of a lone entry.
#[test]
fn ss_32_an_outage_makes_no_dead_letter_and_poison_does_become_one() {
    let receiver = Receiver::start();
    let application = Application::new();
    let url = receiver.url();
    // One failure of its own would be the end of an entry.
    let environment =
        [("FRONTEND_BASE_URL", url.as_str()), ("SYNC_MAX_ATTEMPTS", "1"), ("SYNC_TIMEOUT_SEC", "1")];
    for status in ["500", "507", "503", "reset", "silent"] {
        receiver.turn(&format!("/down/{status}"));
        application.insert("order", status, &json!({}));
        application.insert("order", &format!("{status} too"), &json!({}));
        for _ in 0..4 {
            application.send(&["--once"], &environment);
        }
        let stats = application.outbox(&["stats"]);
        assert_eq!((stats["pending"].as_u64(), stats["dead"].as_u64()), (Some(2), Some(0)), "{stats}");
        receiver.turn("/up");
        let sent = application.send(&["--drain"], &environment);
        assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    }
    assert_eq!(receiver.ids().len(), 10);
    // Beside entries that are taken, it is the entry's fault.
    application.insert("order", "bad", &json!({ "poison": true }));
    application.insert("order", "good", &json!({}));
    let sent = application.send(&["--drain"], &environment);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let dead = application.outbox(&["list", "--state", "dead"]);
    assert_eq!(dead["entries"][0]["entityId"], "bad", "{dead}");
    assert!(receiver.ids().contains(&"good".to_owned()));
}

/// A receiver that hangs was told of after five minutes: the first line came when a hundred entries had been split down to three.
#[test]
fn ss_32_a_receiver_that_hangs_is_told_of_after_the_first_request() {
    let receiver = Receiver::start();
    receiver.turn("/down/silent");
    let application = Application::new();
    for n in 0..100 {
        application.insert("order", &n.to_string(), &json!({}));
    }
    let url = receiver.url();
    let environment = [("FRONTEND_BASE_URL", url.as_str()), ("SYNC_TIMEOUT_SEC", "1")];
    let mut command = application.command(&[], &environment);
    let mut worker = Worker(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let log = BufReader::new(worker.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = log.into_iter().find(|line| line.contains("the receiver failed"));
    let requests = receiver.told()["requests"].as_u64().unwrap();
    assert!(told.is_some_and(|line| line.contains("WARN")) && requests <= 3, "{requests} requests before");
    receiver.turn("/up");
}

/// A receiver that checks strictly refused `sender` and `id`, which were always sent, and with them every entry.
#[test]
fn ss_35_a_receiver_that_takes_the_contracts_four_fields_alone_gets_nothing_else() {
    let receiver = Receiver::start();
    receiver.turn("/strict");
    let application = Application::new();
    application.insert("order", "o1", &json!({}));
    let url = receiver.url();
    let refused = application.send(&["--once"], &[("FRONTEND_BASE_URL", &url)]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let sent = application.send(&["--drain"], &[("FRONTEND_BASE_URL", &url), ("SYNC_PLAIN_ENTRIES", "true")]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    application.insert("order", "o2", &json!({}));
    application
        .config(&format!("[[routes]]\nname = \"strict\"\ntypes = [\"*\"]\nurl = \"{url}\"\nplain = true\n"));
    let sent = application.send(&["--drain", "--config", "serversync.toml"], &[]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    assert_eq!(receiver.ids(), ["o1", "o2"]);
}
