//! Changes sent to a node that keeps dying: none is lost, none takes effect twice.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};
use syncline_testing::process::{Node, ask, number};

const BATCH: u64 = 50;

const FILE: &str = "[[entities]]\nname = \"order\"\n";

/// A batch of changes of ten entities, each of which counts how often it was changed.
fn batch(number: u64) -> String {
    let entries: Vec<Value> = (0..BATCH)
        .map(|place| {
            let id = number * BATCH + place + 1;
            json!({ "id": id, "entityType": "order", "entityId": format!("o-{}", id % 10),
                "payload": { "last": id }, "createdAt": "2026-02-07T10:00:00Z" })
        })
        .collect();
    json!({ "sender": "box-1", "entries": entries }).to_string()
}

/// Sends a request and looks for no answer.
fn throw(address: SocketAddr, body: &str) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let head = format!(
        "POST /api/ingest/sync HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The other side may die in the middle; that is the point.
    let _ = stream.write_all(head.as_bytes());
}

#[test]
fn ss_24_a_receiver_killed_at_any_moment_loses_nothing_and_doubles_nothing() {
    let kills = number("SYNCLINE_KILLS", 5);
    let mut folder = Some(tempfile::tempdir().unwrap());
    let (mut applied, mut duplicates) = (0, 0);
    for round in 0..kills {
        let node = Node::start_in(folder.take().unwrap(), FILE, &[]);
        let address = node.address;
        let (thrown, heard) = mpsc::channel();
        let sender = std::thread::spawn(move || {
            let _ = thrown.send(());
            throw(address, &batch(round));
        });
        heard.recv().unwrap();
        // Sooner or later in the batch's life, by the round.
        for _ in 0..round % 7 {
            std::thread::yield_now();
        }
        folder = Some(node.kill());
        sender.join().unwrap();

        let node = Node::start_in(folder.take().unwrap(), FILE, &[]);
        let (status, body) = ask(node.address, "POST", "/api/ingest/sync", &[], &batch(round));
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["ok"], true, "{body}");
        let results = answer["results"].as_array().unwrap();
        let of = |word: &str| results.iter().filter(|result| result["result"] == word).count() as u64;
        // A batch is one transaction: it was there before, or it was not.
        assert!(of("applied") == BATCH || of("duplicate") == BATCH, "{body}");
        applied += of("applied");
        duplicates += of("duplicate");
        folder = Some(node.kill());
    }
    let node = Node::start_in(folder.take().unwrap(), FILE, &[]);
    let listed = node.get("/api/entities/order");
    let entities = listed["entities"].as_array().unwrap();
    assert_eq!(entities.len(), 10);
    let newest: u64 =
        entities.iter().map(|entity| entity["payload"]["last"].as_u64().unwrap()).max().unwrap();
    assert_eq!(newest, kills * BATCH, "the last change of all is there");
    println!(
        "{kills} kills, {} changes: {applied} taken anew after one, {duplicates} there before",
        kills * BATCH
    );
}
