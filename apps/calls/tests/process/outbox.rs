//! Sending: what arrives, what stays, what is deleted, whatever the front end is and does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use syncline_sim::until_blocking;
use syncline_store::Store;
use syncline_store::outbox::{NewEntry, Outbox, Receipt};
use syncline_testing::process::number;

use crate::call_box::CallBox;
use crate::frontend::{Plain, Scripted};

/// Does something with a box's outbox, as the application would.
fn with_outbox<T>(of: &CallBox, work: impl AsyncFnOnce(&dyn Outbox) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(&of.database_url).await.unwrap();
        let done = work(&*store.outbox()).await;
        store.close().await;
        done
    })
}

pub(crate) fn enqueue(of: &CallBox, entries: &[(&str, &str, Value)]) -> Vec<i64> {
    let entries: Vec<NewEntry> = entries
        .iter()
        .map(|(entity_type, entity_id, payload)| NewEntry {
            entity_type: (*entity_type).to_owned(),
            entity_id: (*entity_id).to_owned(),
            payload: payload.to_string(),
        })
        .collect();
    with_outbox(of, async |outbox| outbox.enqueue(&entries).await.unwrap())
}

/// The files of every recording of a box.
pub(crate) fn recordings(of: &CallBox) -> BTreeMap<String, Vec<u8>> {
    let folders = fs::read_dir(of.recordings()).into_iter().flatten().flatten();
    let calls = folders.filter(|folder| folder.path().join("mixed.wav").exists());
    calls
        .map(|call| {
            (call.file_name().into_string().unwrap(), fs::read(call.path().join("mixed.wav")).unwrap())
        })
        .collect()
}

pub(crate) fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn count(stats: &Value, field: &str) -> u64 {
    stats[field].as_u64().unwrap()
}

#[test]
fn ss_05_ss_07_a_front_end_in_another_language_that_knows_only_the_plain_contract_gets_everything() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    let calls = of.take_calls(5, &[]);
    let local = recordings(&of);
    assert_eq!(local.len(), 5);
    let sent = of.send(&frontend.url(), &["--drain"], &[]);
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(said(&sent).contains("15 sent, 0 failed attempts, 0 given up"), "{}", said(&sent));

    let seen = frontend.seen();
    for call in &calls {
        assert_eq!(seen["entities"]["call_log"][call]["id"], json!(call));
        let got = &seen["recordings"][call];
        assert_eq!(got["sha256"], json!(sha256(&local[call])), "the very bytes");
        assert_eq!(got["meta"]["callLogId"], json!(call));
        let kinds = ["audioType", "audioName", "metaType"].map(|field| got[field].as_str().unwrap());
        assert_eq!(kinds, ["application/octet-stream", "mixed.wav", "application/json"]);
        let recording = got["recordingId"].as_str().unwrap();
        assert_eq!(seen["entities"]["recording"][recording]["callLogId"], json!(call));
    }
    assert_eq!(seen["requests"], json!([10]), "all changes in one request");
    assert!(recordings(&of).is_empty(), "nothing is left here");
    assert!(!of.recordings().join(&calls[0]).exists());
    let stats = of.stats();
    assert_eq!((count(&stats, "pending"), count(&stats, "dead"), count(&stats, "delivered")), (0, 0, 15));
}

fn sha256(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("it"), bytes).unwrap();
    let sum = Command::new("sha256sum").arg(folder.path().join("it")).output().unwrap();
    String::from_utf8(sum.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn ss_08_ss_21_a_poisonous_entry_is_found_holds_up_nobody_and_is_mended_by_hand() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    let good = |n: i32| ("routing_rule", format!("r{n}"), json!({ "n": n }));
    let mut entries: Vec<_> = (0..40).map(good).collect();
    entries.insert(17, ("routing_rule", "bad".to_owned(), json!({ "poison": true })));
    entries.push(("routing_rule", "bad".to_owned(), json!({ "later": "and fine" })));
    let entries: Vec<_> =
        entries.iter().map(|(kind, id, payload)| (*kind, id.as_str(), payload.clone())).collect();
    let ids = enqueue(&of, &entries);
    let sent = of.send(&frontend.url(), &["--once"], &[("SYNC_MAX_ATTEMPTS", "1")]);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let seen = frontend.seen();
    let rules = seen["entities"]["routing_rule"].as_object().unwrap();
    assert_eq!(
        rules.len(),
        41,
        "all others, and the later change of the same entity after the first was given up"
    );
    assert!(seen["requests"].as_array().unwrap().len() < 20, "{seen}");

    let bad = ids[17].to_string();
    let dead = of.json(&["outbox", "list", "--state", "dead", "--json"]).remove(0);
    assert_eq!(dead["entries"].as_array().unwrap().len(), 1, "{dead}");
    assert_eq!(dead["entries"][0]["id"], json!(ids[17]));
    assert!(dead["entries"][0]["lastError"].as_str().unwrap().contains("cannot stand it"), "{dead}");
    let shown = said(&of.syncline(&["outbox", "show", &bad]));
    assert!(shown.contains("\"poison\": true") && shown.contains("dead"), "{shown}");
    assert!(said(&of.syncline(&["outbox", "retry", &bad])).contains("1 entry in line again"));
    assert_eq!(of.syncline(&["outbox", "discard", &bad]).status.code(), Some(1), "only the dead are removed");
    // That it is at fault shows by another one that is taken.
    enqueue(&of, &[("routing_rule", "another", json!({}))]);
    of.send(&frontend.url(), &["--once"], &[("SYNC_MAX_ATTEMPTS", "1")]);
    assert!(said(&of.syncline(&["outbox", "discard", "--dead"])).contains("1 entry removed"));
    let stats = of.stats();
    assert_eq!((count(&stats, "pending"), count(&stats, "dead")), (0, 0), "{stats}");
    let purged = of.json(&["outbox", "purge", "--older-than-days", "0", "--json"]).remove(0);
    assert_eq!(purged["removed"], json!(42));
    assert_eq!(of.syncline(&["outbox", "show", &bad]).status.code(), Some(1));
}

#[test]
fn ss_28_redirects_and_answers_that_are_not_the_contract_are_failures_and_nothing_is_deleted() {
    let html = "<html>welcome</html>";
    let answers = [
        ("307 Temporary Redirect", "location: /elsewhere\r\n", "{\"ok\":true,\"fileUrl\":\"http://f/x\"}"),
        ("303 See Other", "location: /elsewhere\r\n", ""),
        ("200 OK", "content-type: text/html\r\n", html),
        ("200 OK", "", "{\"ok\":false}"),
        ("200 OK", "", "{\"fileUrl\":\"\"}"),
        ("200 OK", "", "{\"fileUrl\":\"http://f/x\",\"length\":1}"),
        ("204 No Content", "", ""),
    ];
    for (status, headers, body) in answers {
        let frontend = Scripted::start(move |_| (status.to_owned(), headers.to_owned(), body.to_owned()));
        let of = CallBox::new(None);
        of.take_calls(1, &[]);
        let sent = of.send(&frontend.url(), &["--once"], &[]);
        assert_eq!(sent.status.code(), Some(1), "{status} {body}: {}", said(&sent));
        let left = count(&of.stats(), "pending");
        assert_eq!((left, recordings(&of).len()), (3, 1), "{status} {body}");
        assert!(
            frontend.paths().iter().all(|path| path.starts_with("/api/ingest/")),
            "{:?}",
            frontend.paths()
        );
    }
}

#[test]
fn ss_27_ss_28_names_and_links_that_lead_elsewhere_are_dead_letters_and_nothing_outside_is_touched() {
    let frontend = Scripted::start(|_| {
        ("200 OK".into(), String::new(), "{\"ok\":true,\"fileUrl\":\"http://f/x\"}".into())
    });
    let of = CallBox::new(None);
    let outside = of.folder.path().join("outside");
    let write = |folder: &Path| {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("mixed.wav"), "victim").unwrap();
        fs::write(folder.join("meta.json"), "{}").unwrap();
    };
    write(&outside);
    fs::create_dir_all(of.recordings().join("file-link")).unwrap();
    symlink(&outside, of.recordings().join("folder-link")).unwrap();
    symlink(outside.join("mixed.wav"), of.recordings().join("file-link/mixed.wav")).unwrap();
    let payloads = [
        json!({ "callLogId": "../outside" }),
        json!({ "callLogId": "c", "callId": ".." }),
        json!({ "callLogId": "c", "filePath": "../outside/mixed.wav" }),
        json!({ "callLogId": "c", "filePath": "/etc/passwd" }),
        json!({ "callLogId": "folder-link" }),
        json!({ "callLogId": "file-link" }),
        json!("not an object"),
    ];
    let named: Vec<_> = payloads.iter().enumerate().map(|(n, p)| (format!("r{n}"), p.clone())).collect();
    let entries: Vec<_> = named.iter().map(|(id, p)| ("recording_file", id.as_str(), p.clone())).collect();
    enqueue(&of, &entries);
    let sent = of.send(&frontend.url(), &["--drain"], &[]);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let stats = of.stats();
    assert_eq!((count(&stats, "dead"), count(&stats, "pending")), (payloads.len() as u64, 0), "{stats}");
    let dead = of.json(&["outbox", "list", "--state", "dead", "--json"]).remove(0);
    for entry in dead["entries"].as_array().unwrap() {
        assert!(entry["lastError"].as_str().unwrap().len() > 20, "each says why: {entry}");
    }
    assert_eq!(fs::read_to_string(outside.join("mixed.wav")).unwrap(), "victim");
    assert!(of.recordings().join("folder-link").exists() && frontend.paths().is_empty());
}

#[test]
fn ss_28_a_restart_goes_on_between_any_two_steps_of_a_recording() {
    // A front end that takes no recording at all: whatever is finished here was sent before.
    let frontend = Scripted::start(|path| match path {
        "/api/ingest/sync" => ("200 OK".into(), String::new(), "{\"ok\":true}".into()),
        _ => ("500 Internal Server Error".into(), String::new(), "{\"error\":\"no\"}".into()),
    });
    let of = CallBox::new(None);
    let calls = of.take_calls(4, &[]);
    let pending = of.json(&["outbox", "list", "--json", "--limit", "100"]).remove(0);
    let files: Vec<(i64, String)> = pending["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["entityType"] == "recording_file")
        .map(|entry| (entry["id"].as_i64().unwrap(), entry["entityId"].as_str().unwrap().to_owned()))
        .collect();
    let local = recordings(&of);
    // Died after the receipt was stored; in the middle of deleting; after that; and one whose file is not what was sent.
    with_outbox(&of, async |outbox| {
        for ((entry, recording), call) in files.iter().zip(&calls) {
            let receipt = Receipt {
                entry: *entry,
                file_id: recording.clone(),
                file_url: format!("http://f/{call}"),
                bytes: local[call].len() as u64,
                sha256: sha256(&local[call]),
            };
            outbox.store_receipt(&receipt, None).await.unwrap();
        }
    });
    fs::remove_file(of.recordings().join(&calls[1]).join("mixed.wav")).unwrap();
    fs::remove_dir_all(of.recordings().join(&calls[2])).unwrap();
    fs::write(of.recordings().join(&calls[3]).join("mixed.wav"), "another recording").unwrap();
    let sent = of.send(&frontend.url(), &["--drain"], &[]);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    for call in &calls[..3] {
        assert!(!of.recordings().join(call).exists(), "{call} is finished");
    }
    assert!(of.recordings().join(&calls[3]).join("mixed.wav").exists(), "what was not sent stays");
    let stats = of.stats();
    assert_eq!((count(&stats, "dead"), count(&stats, "pending")), (1, 0), "{stats}");
    assert!(!frontend.paths().iter().any(|path| path.ends_with("recording-file")), "nothing was sent again");
}

#[test]
fn ss_20_a_worker_is_woken_by_a_commit_and_stopped_leaves_what_comes_to_the_next() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    of.take_calls(3, &["--without-recording"]);
    // The interval is five minutes: only a wake can be faster than this test's patience.
    let worker = of.start(&frontend.url(), &[]);
    assert!(worker.is_alive());
    until_blocking("3 entries are sent", || worker.metric("syncline_outbox_sent_total") == 3.0);
    of.take_calls(2, &[]);
    until_blocking("9 entries are sent", || worker.metric("syncline_outbox_sent_total") == 9.0);
    assert_eq!(worker.stop(Signal::TERM), Some(0));
    of.take_calls(1, &["--without-recording"]);
    assert_eq!(count(&of.stats(), "pending"), 1, "stopped, it sends nothing and nobody minds");
    let worker = of.start(&frontend.url(), &[]);
    until_blocking("1 entry is sent", || worker.metric("syncline_outbox_sent_total") == 1.0);
    assert_eq!(worker.stop(Signal::INT), Some(0));
    let batches = of.log().lines().filter(|line| line.contains("batch sent")).count();
    assert!(batches >= 3, "a line for each batch: {}", of.log());
}

#[test]
fn ss_13_the_metrics_tell_what_waits_and_since_when_what_was_sent_and_that_nothing_failed() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    of.take_calls(2, &[]);
    let worker = of.start(&frontend.url(), &[]);
    until_blocking("all is sent", || {
        worker.metric("syncline_outbox_sent_total") == 6.0 && worker.metric("syncline_outbox_pending") == 0.0
    });
    assert_eq!(worker.metric("syncline_outbox_oldest_age_seconds"), 0.0);
    assert_eq!(
        (worker.metric("syncline_outbox_failed_total"), worker.metric("syncline_outbox_dead")),
        (0.0, 0.0)
    );
    assert!(worker.metric("syncline_outbox_upload_bytes_total") > 10_000.0);
    assert!(worker.metric("syncline_outbox_batch_seconds_count") >= 1.0);
    assert!(worker.metric("syncline_outbox_disk_free_bytes") > 0.0);
    drop(frontend);
    of.take_calls(1, &["--without-recording"]);
    until_blocking("one entry waits", || {
        worker.metric("syncline_outbox_pending") == 1.0
            && worker.metric("syncline_outbox_oldest_age_seconds") > 0.0
    });
}

#[test]
fn ss_11_a_call_leaves_the_box_through_the_outbox_and_in_no_other_way() {
    let frontend = Scripted::start(|path| {
        let answer = if path.ends_with("recording-file") {
            r#"{"fileUrl":"http://front/1"}"#
        } else {
            r#"{"ok":true}"#
        };
        ("200 OK".to_owned(), "content-type: application/json\r\n".to_owned(), answer.to_owned())
    });
    let of = CallBox::new(None);
    of.take_calls(3, &[]);
    assert_eq!(count(&of.stats(), "pending"), 9, "a call, its recording and the file, three times");
    assert_eq!(frontend.paths(), Vec::<String>::new(), "nobody has told of it");
    let sent = of.send(&frontend.url(), &["--drain"], &[("SYNC_PLAIN_RECEIPTS", "true")]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    let paths = frontend.paths();
    assert!(!paths.is_empty() && paths.iter().all(|path| path.starts_with("/api/ingest/")), "{paths:?}");
}

#[test]
fn ss_25_switches_and_sizes_are_changed_while_it_runs() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    of.take_calls(1, &["--without-recording"]);
    of.json(&["outbox", "settings", "--enabled", "false", "--batch-size", "2", "--json"]);
    let worker = of.start(&frontend.url(), &[]);
    until_blocking("the settings are read", || of.log().contains("settings changed"));
    of.take_calls(5, &["--without-recording"]);
    assert_eq!(worker.metric("syncline_outbox_sent_total"), 0.0);
    let now = of.json(&["outbox", "settings", "--enabled", "true", "--json"]).remove(0);
    assert_eq!((&now["enabled"], &now["batchSize"]), (&json!(true), &json!(2)));
    until_blocking("6 entries are sent", || worker.metric("syncline_outbox_sent_total") == 6.0);
    let requests = frontend.seen()["requests"].clone();
    assert!(requests.as_array().unwrap().iter().all(|size| size.as_u64().unwrap() <= 2), "{requests}");
}

#[test]
fn ss_03_a_worker_that_is_stopped_gives_back_what_has_no_answer() {
    let (asking, asked) = std::sync::mpsc::channel::<()>();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let frontend = Scripted::start(move |_| {
        asking.send(()).unwrap();
        // Not answered while the test lasts: its other end is dropped at the end.
        let _ = held.lock().unwrap().recv();
        ("200 OK".into(), String::new(), String::new())
    });
    let of = CallBox::new(None);
    of.take_calls(3, &["--without-recording"]);
    let worker = of.start(&frontend.url(), &[]);
    asked.recv().unwrap();
    assert_eq!(count(&of.stats(), "inFlight"), 3);
    assert_eq!(worker.stop(Signal::TERM), Some(0));
    let stats = of.stats();
    assert_eq!((count(&stats, "inFlight"), count(&stats, "pending")), (0, 3), "{stats}");
    drop(release);
}

#[test]
fn ss_07_a_recording_of_a_gigabyte_passes_through_a_process_that_may_have_100_mb() {
    let mib = number("SYNCLINE_RECORDING_MIB", 1_024);
    let answer = "{\"ok\":true,\"fileUrl\":\"http://f/x\"}";
    let frontend = Scripted::start(move |_| ("200 OK".into(), String::new(), answer.into()));
    let of = CallBox::new(None);
    let calls = of.take_calls(1, &[]);
    let wav = of.recordings().join(&calls[0]).join("mixed.wav");
    fs::File::options().write(true).open(wav).unwrap().set_len(mib << 20).unwrap();
    let usual = of.serversync(&frontend.url(), &["--drain"], &[("SYNC_PLAIN_RECEIPTS", "true")]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -d 102400 && exec \"$0\" --drain"]).arg(usual.get_program());
    limited
        .current_dir(of.folder.path())
        .envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let sent = limited.output().unwrap();
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(frontend.bytes() > mib << 20, "{} bytes arrived", frontend.bytes());
    assert!(!of.recordings().join(&calls[0]).exists());
}
