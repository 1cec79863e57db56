//! When a recording may be deleted: after the whole of it arrived, and a receipt says so.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::call_box::{CallBox, Frontend};
use crate::frontend::{Plain, Scripted};
use crate::outbox::{count, enqueue, recordings, said};

/// The entry of the only recording of a box.
fn file_entry(of: &CallBox) -> Value {
    let listed = of.json(&["outbox", "list", "--json", "--limit", "100"]).remove(0);
    let entries = listed["entries"].as_array().unwrap().clone();
    entries.into_iter().find(|entry| entry["entityType"] == "recording_file").expect("it still waits")
}

/// Answers every request as soon as its head is there, and reads no body.
fn hasty(receipt: &'static str) -> Frontend<'static> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        // Held open: a sender that waits for a reset would wait for ever.
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let _ = head.take_while(|line| !line.is_empty()).count();
            // One request for each connection, because the rest of this one is never read.
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}", receipt.len());
            let answer = format!("{head}\r\n\r\n{receipt}");
            let _ = stream.write_all(answer.as_bytes());
            held.push(stream);
        }
    });
    Frontend::Url(url)
}

/// A receiver that answered after the first kilobytes of a recording was believed, and the recording was deleted.
#[test]
fn ss_30_an_answer_before_the_whole_recording_was_sent_deletes_nothing() {
    let receipt = "{\"ok\":true,\"fileUrl\":\"https://elsewhere.example/x\"}";
    for plain in ["false", "true"] {
        let of = CallBox::new(None);
        let calls = of.take_calls(1, &[]);
        let wav = of.recordings().join(&calls[0]).join("mixed.wav");
        fs::File::options().write(true).open(&wav).unwrap().set_len(64 << 20).unwrap();
        let sent = of.send(&hasty(receipt), &["--once"], &[("SYNC_PLAIN_RECEIPTS", plain)]);
        assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
        assert_eq!(fs::metadata(&wav).unwrap().len(), 64 << 20);
        let entry = file_entry(&of);
        // Nothing says whose fault that is.
        assert_eq!((&entry["attempts"], &entry["state"]), (&json!(0), &json!("retrying")), "{entry}");
        assert!(entry["lastError"].as_str().unwrap().contains("of 67108864 bytes"), "{entry}");
    }
}

#[test]
fn ss_30_a_receipt_must_name_an_address_and_state_what_was_stored() {
    let receipts = [
        "{\"fileUrl\":\"https://f.example/x\"}",
        "{\"fileUrl\":\"https://f.example/x\",\"length\":null,\"sha256\":null}",
        "{\"fileUrl\":\"https://f.example/x\",\"length\":5}",
        "{\"fileUrl\":\"x\"}",
        "{\"fileUrl\":\"javascript:alert(1)\"}",
        "{\"fileUrl\":\"file:///etc/passwd\"}",
    ];
    for receipt in receipts {
        let frontend = Scripted::start(move |_| ("200 OK".into(), String::new(), receipt.into()));
        let of = CallBox::new(None);
        of.take_calls(1, &[]);
        let sent = of.send(&frontend.url(), &["--once"], &[]);
        assert_eq!(sent.status.code(), Some(1), "{receipt}: {}", said(&sent));
        assert_eq!((recordings(&of).len(), &file_entry(&of)["attempts"]), (1, &json!(1)), "{receipt}");
    }
}

#[test]
fn ss_30_a_receiver_that_states_nothing_is_believed_where_the_operator_says_so() {
    let frontend = Plain::start_without_statements();
    let of = CallBox::new(None);
    of.take_calls(1, &[]);
    let sent = of.send(&frontend.url(), &["--once"], &[]);
    assert_eq!((sent.status.code(), recordings(&of).len()), (Some(1), 1), "{}", said(&sent));
    assert!(file_entry(&of)["lastError"].as_str().unwrap().contains("SYNC_PLAIN_RECEIPTS=true"));
    of.syncline(&["outbox", "retry", &file_entry(&of)["id"].to_string()]);
    let sent = of.send(&frontend.url(), &["--drain"], &[("SYNC_PLAIN_RECEIPTS", "true")]);
    assert_eq!((sent.status.code(), recordings(&of).len()), (Some(0), 0), "{}", said(&sent));
}

/// A receipt that the database refused was forgotten, and the recording was sent again at once, hundreds of times.
#[test]
fn ss_32_a_receipt_that_cannot_be_stored_is_a_failure_with_a_pause() {
    let frontend = Scripted::start(|path| match path {
        "/api/ingest/sync" => ("200 OK".into(), String::new(), "{\"ok\":true}".into()),
        _ => ("200 OK".into(), String::new(), "{\"fileUrl\":\"https://f.example/x\"}".into()),
    });
    let of = CallBox::new(None);
    of.take_calls(1, &[]);
    let refuse =
        "CREATE TRIGGER no BEFORE UPDATE ON recordings BEGIN SELECT RAISE(ABORT, 'no uploads here'); END";
    sql(&of, refuse);
    let plain = [("SYNC_PLAIN_RECEIPTS", "true")];
    let sent = of.send(&frontend.url(), &["--once"], &plain);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let uploads = || frontend.paths().iter().filter(|path| path.ends_with("recording-file")).count();
    assert_eq!(uploads(), 1, "once, and then a pause");
    let entry = file_entry(&of);
    assert_eq!((&entry["attempts"], &entry["state"]), (&json!(1), &json!("retrying")), "{entry}");
    let why = entry["lastError"].as_str().unwrap();
    assert!(why.contains("receipt could not be stored") && why.contains("no uploads here"), "{why}");
    assert!(!said(&sent).contains("did not answer"), "it answered: {}", said(&sent));
    assert_eq!(recordings(&of).len(), 1);
    sql(&of, "DROP TRIGGER no");
    assert_eq!(of.send(&frontend.url(), &["--drain"], &plain).status.code(), Some(0));
    assert_eq!((uploads(), recordings(&of).len()), (2, 0));
}

/// A disk that was not mounted made every recording fail, attempt by attempt, and an empty folder in its place.
#[test]
fn ss_28_a_recordings_folder_that_is_not_there_costs_no_attempt_and_is_not_made() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    of.take_calls(1, &[]);
    let elsewhere = of.folder.path().join("elsewhere");
    fs::rename(of.recordings(), &elsewhere).unwrap();
    let sent = of.send(&frontend.url(), &["--once"], &[]);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    assert!(said(&sent).contains("RECORDINGS_DIR"), "{}", said(&sent));
    assert_eq!((&file_entry(&of)["attempts"], of.recordings().exists()), (&json!(0), false));
    fs::rename(elsewhere, of.recordings()).unwrap();
    assert_eq!(of.send(&frontend.url(), &["--drain"], &[]).status.code(), Some(0));
}

#[test]
fn ss_28_a_recording_that_is_queued_twice_is_sent_once_and_done_twice() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    let calls = of.take_calls(1, &[]);
    let recording = file_entry(&of)["entityId"].as_str().unwrap().to_owned();
    assert_eq!(of.send(&frontend.url(), &["--drain"], &[]).status.code(), Some(0));
    enqueue(
        &of,
        &[("recording_file", &recording, json!({ "callLogId": calls[0], "recordingId": recording }))],
    );
    let sent = of.send(&frontend.url(), &["--drain"], &[]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    assert_eq!(count(&of.stats(), "pending"), 0);
}

/// Runs SQL on a box's SQLite file, as an application in another language would.
pub(crate) fn sql(of: &CallBox, sql: &str) {
    let file = of.database_url.strip_prefix("sqlite:").unwrap();
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=30); c.executescript(sys.argv[2]); c.commit()";
    let done = Command::new("python3").args(["-c", script, file, sql]).output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
}
