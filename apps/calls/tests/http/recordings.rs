//! Recordings: received whole or not at all, never outside their folder, played in parts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use syncline_testing::{Answer, HOST, RouterNode};
use tempfile::TempDir;

use crate::form::{BOUNDARY, form, recording, upload};
use crate::world::node;

const CALL: &str = "550e8400-e29b-41d4-a716-446655440000";
const RECORDING: &str = "7d444840-9dc0-11d1-b245-5ffdce74fad2";

struct Place {
    world: RouterNode,
    folder: TempDir,
}

impl Place {
    async fn new(more: &str) -> Place {
        Place::within(tempfile::tempdir().unwrap(), more).await
    }

    async fn within(folder: TempDir, more: &str) -> Place {
        let dir = folder.path().join("root");
        let world = node(&format!("[recordings]\ndir = {:?}\n{more}\n", dir.display())).await;
        Place { world, folder }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("root")
    }

    async fn send(&self, audio: &[u8]) -> Answer {
        self.world.send(upload(recording(CALL, RECORDING, audio, "{\"seconds\":1}"))).await
    }

    async fn play(&self, headers: &[(&str, &str)]) -> Answer {
        let mut get = Request::get(format!("/storage/recordings/{CALL}/mixed.wav"));
        for (name, value) in headers {
            get = get.header(*name, *value);
        }
        self.world.send(get.body(Body::empty()).unwrap()).await
    }

    /// Every name beneath the root, but for the folder that uploads begin in.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        walk(&self.root(), &mut names);
        names.retain(|name| name != ".incoming");
        names.sort();
        names
    }
}

fn walk(folder: &Path, names: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        names.push(entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), names);
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(bytes)))
}

/// Something that is no repetition of itself.
fn sound(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[tokio::test]
async fn ss_07_a_recording_is_kept_and_its_receipt_says_what_was_received() {
    let place = Place::new("").await;
    let audio = sound(3_000_000);
    let answer = place.send(&audio).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let url = format!("http://{HOST}/storage/recordings/{CALL}/mixed.wav");
    let receipt = json!({ "fileUrl": url, "length": audio.len(), "sha256": sha256(&audio) });
    assert_eq!(answer.value(), receipt);
    let kept = place.root().join(CALL);
    assert_eq!(fs::read(kept.join("mixed.wav")).unwrap(), audio);
    assert_eq!(fs::read_to_string(kept.join("meta.json")).unwrap(), "{\"seconds\":1}");
    assert_eq!(place.names(), [CALL, "meta.json", "mixed.wav", "receipt.json"]);
    let metrics = place.world.get("/metrics").await;
    assert!(metrics.text().contains("syncline_recording_received_total{result=\"stored\"} 1"));
    assert!(metrics.text().contains("syncline_recording_receiving 0"));
}

#[tokio::test]
async fn ss_07_the_address_of_a_recording_is_the_public_one_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().display().to_string();
    let file = format!("public_base_url = \"https://calls.example/app/\"\n[recordings]\ndir = {dir:?}\n");
    let world = node(&file).await;
    let answer = world.send(upload(recording("c1", "r1", b"RIFF", "{}"))).await;
    assert_eq!(answer.value()["fileUrl"], "https://calls.example/app/storage/recordings/c1/mixed.wav");
}

#[tokio::test]
async fn ss_24_the_same_upload_again_gets_the_same_receipt_and_another_changes_nothing() {
    let place = Place::new("").await;
    let first = place.send(b"RIFF first").await;
    for _ in 0..2 {
        assert_eq!(place.send(b"RIFF first").await.value(), first.value());
    }
    place.send(b"RIFF other").await.refused(422, "recording-differs");
    let renamed = recording(CALL, "another", b"RIFF first", "{}");
    place.world.send(upload(renamed)).await.refused(422, "recording-differs");
    assert_eq!(fs::read(place.root().join(CALL).join("mixed.wav")).unwrap(), b"RIFF first");
    assert_eq!(place.names(), [CALL, "meta.json", "mixed.wav", "receipt.json"]);
    let metrics = place.world.get("/metrics").await;
    assert!(metrics.text().contains("syncline_recording_received_total{result=\"repeated\"} 2"));
}

#[tokio::test]
async fn ss_24_of_many_uploads_for_one_call_at_once_one_is_kept_whole() {
    let place = Place::new("").await;
    let sends = (0..12).map(|number: u8| {
        let place = &place;
        async move { (number, place.send(&vec![number % 3; 200_000]).await.status.as_u16()) }
    });
    let answers = futures::future::join_all(sends).await;
    let kept = fs::read(place.root().join(CALL).join("mixed.wav")).unwrap();
    assert_eq!(kept.len(), 200_000);
    assert!(kept.iter().all(|byte| *byte == kept[0]));
    for (number, status) in answers {
        assert_eq!(status, if number % 3 == kept[0] { 200 } else { 422 }, "{number}");
    }
    assert_eq!(place.names(), [CALL, "meta.json", "mixed.wav", "receipt.json"]);
}

#[tokio::test]
async fn ss_07_parts_may_come_in_any_order() {
    let place = Place::new("").await;
    let body = form(&[
        ("meta", Some("meta.json"), b"{}"),
        ("audio", Some("../../evil.wav"), b"RIFF"),
        ("recordingId", None, b"r"),
        ("callLogId", None, b"c"),
    ]);
    assert_eq!(place.world.send(upload(body)).await.status, 200);
    assert_eq!(place.names(), ["c", "meta.json", "mixed.wav", "receipt.json"]);
}

#[tokio::test]
async fn ss_27_hostile_names_are_refused_and_nothing_is_stored() {
    let place = Place::new("").await;
    let long = "x".repeat(65);
    let mut tried = 0;
    for name in [
        "",
        ".",
        "..",
        "../escape",
        "..%2fescape",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "C:\\x",
        "a\0b",
        "a b",
        "é",
        "..\u{202e}",
        ".incoming",
        "~root",
        "$HOME",
        "`id`",
        "a\nb",
        "%2e%2e",
        "con.",
        &long,
    ] {
        for (call, recording_id) in [(name, RECORDING), (CALL, name)] {
            // The sound comes first, so that something is there to be removed.
            let body = form(&[
                ("audio", Some("../../etc/passwd"), b"RIFF"),
                ("meta", Some("/meta.json"), b"{}"),
                ("callLogId", None, call.as_bytes()),
                ("recordingId", None, recording_id.as_bytes()),
            ]);
            place.world.send(upload(body)).await.refused(400, "invalid-id");
            tried += 1;
        }
        let escaped: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = place.world.get(&format!("/storage/recordings/{escaped}/mixed.wav")).await;
        assert_eq!(answer.status, 404, "{name:?}");
    }
    assert_eq!((tried, place.names()), (42, Vec::<String>::new()));
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 1, "nothing beside the root");
}

#[tokio::test]
async fn ss_27_a_link_in_the_place_of_a_call_is_neither_written_through_nor_read_through() {
    let place = Place::new("").await;
    let outside = place.folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(place.root().join("linked-file")).unwrap();
    fs::write(outside.join("mixed.wav"), "secret").unwrap();
    symlink(&outside, place.root().join("linked-folder")).unwrap();
    symlink(outside.join("mixed.wav"), place.root().join("linked-file/mixed.wav")).unwrap();
    for call in ["linked-folder", "linked-file"] {
        let answer = place.world.send(upload(recording(call, "r", b"RIFF", "{}"))).await;
        answer.refused(500, "storage");
        let answer = place.world.get(&format!("/storage/recordings/{call}/mixed.wav")).await;
        answer.refused(500, "storage");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("mixed.wav")).unwrap(), "secret");
    assert_eq!(fs::read_dir(place.root().join(".incoming")).unwrap().count(), 0);
}

#[tokio::test]
async fn ss_27_what_is_too_large_malformed_or_incomplete_is_refused_and_leaves_nothing() {
    let place = Place::new("max_bytes = 100000").await;
    let id = ("callLogId", None, CALL.as_bytes());
    let recording_id = ("recordingId", None, RECORDING.as_bytes());
    let audio: (&str, Option<&str>, &[u8]) = ("audio", Some("mixed.wav"), b"RIFF");
    let meta: (&str, Option<&str>, &[u8]) = ("meta", Some("meta.json"), b"{}");
    let (large, long_id) = (vec![0; 100_001], vec![b'x'; 2_000]);
    let large_meta = format!("{{\"a\":\"{}\"}}", "x".repeat(64 * 1024));
    let deep_meta = format!("{{\"a\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let whole = form(&[id, recording_id, audio, meta]);
    let cases: Vec<(Vec<u8>, u16, &str)> = vec![
        (form(&[id, recording_id, ("audio", None, &large), meta]), 413, "too-large"),
        (form(&[id, recording_id, audio, ("meta", None, large_meta.as_bytes())]), 413, "too-large"),
        (form(&[("callLogId", None, &long_id), recording_id, audio, meta]), 413, "too-large"),
        (form(&[id, recording_id, audio]), 400, "invalid-form"),
        (form(&[id, recording_id, meta]), 400, "invalid-form"),
        (form(&[recording_id, audio, meta]), 400, "invalid-form"),
        (form(&[id, audio, meta]), 400, "invalid-form"),
        (form(&[id, id, recording_id, audio, meta]), 400, "invalid-form"),
        (form(&[id, recording_id, audio, audio, meta]), 400, "invalid-form"),
        (form(&[id, recording_id, audio, meta, ("extra", None, b"x")]), 400, "invalid-form"),
        (form(&[id, recording_id, audio, ("meta", None, b"[]")]), 400, "invalid-meta"),
        (form(&[id, recording_id, audio, ("meta", None, b"{\"a\":")]), 400, "invalid-meta"),
        (form(&[id, recording_id, audio, ("meta", None, b"{\"a\":\"\x8c\xc4\"}")]), 400, "invalid-meta"),
        (form(&[id, recording_id, audio, ("meta", None, deep_meta.as_bytes())]), 400, "invalid-meta"),
        (form(&[("callLogId", None, b"\xff\xfe"), recording_id, audio, meta]), 400, "invalid-form"),
        (whole[..whole.len() - 10].to_vec(), 400, "invalid-form"),
        (whole[..200].to_vec(), 400, "invalid-form"),
        (b"no form at all".to_vec(), 400, "invalid-form"),
        (Vec::new(), 400, "invalid-form"),
        (format!("--{BOUNDARY}\r\nx: {}", "y".repeat(3_000)).into_bytes(), 400, "invalid-form"),
    ];
    for (number, (body, status, code)) in cases.into_iter().enumerate() {
        let answer = place.world.send(upload(body)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.value()["code"].as_str()),
            (status, Some(code)),
            "{number}: {answer:?}"
        );
        answer.refused(status, code);
        assert_eq!(place.names(), Vec::<String>::new(), "{number}");
    }
    let mut plain = upload(whole.clone());
    plain.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    place.world.send(plain).await.refused(415, "unsupported-media-type");
    let mut announced = upload(Body::empty());
    announced.headers_mut().insert(header::CONTENT_LENGTH, "9999999999".parse().unwrap());
    place.world.send(announced).await.refused(413, "too-large");
    assert_eq!(place.world.send(upload(whole)).await.status, 200);
}

#[tokio::test]
async fn ss_27_headers_of_a_part_without_end_do_not_fill_the_memory() {
    let place = Place::new("").await;
    let begin = format!("--{BOUNDARY}\r\nx-long: ").into_bytes();
    let given = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&given);
    let pieces = stream::iter(std::iter::once(begin).chain(std::iter::repeat_n(vec![b'y'; 16_384], 100_000)));
    let body = Body::from_stream(pieces.map(move |piece| {
        counted.fetch_add(piece.len() as u64, std::sync::atomic::Ordering::Relaxed);
        Ok::<_, std::convert::Infallible>(piece)
    }));
    place.world.send(upload(body)).await.refused(400, "invalid-form");
    let given = given.load(std::sync::atomic::Ordering::Relaxed);
    assert!(given < 8_000_000, "{given} bytes were read");
}

#[tokio::test]
async fn ss_27_an_upload_whose_sender_goes_away_leaves_nothing() {
    let place = Place::new("").await;
    let whole = recording(CALL, RECORDING, &sound(3_000_000), "{}");
    let half = Bytes::from(whole[..2_500_000].to_vec());
    let body = Body::from_stream(stream::iter([Ok(half.clone()), Err(std::io::Error::other("gone"))]));
    place.world.send(upload(body)).await.refused(400, "incomplete-body");
    assert_eq!(place.names(), Vec::<String>::new());

    // Dropped in the middle, as when the connection is cut.
    let body = stream::iter([Ok::<_, std::io::Error>(half)]).chain(stream::pending());
    let sending = place.world.send(upload(Body::from_stream(body)));
    let mut sending = Box::pin(sending);
    while place.names().is_empty() {
        let _ = futures::poll!(&mut sending);
        tokio::task::yield_now().await;
    }
    drop(sending);
    while !place.names().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn ss_07_what_a_dead_process_left_is_removed_and_what_another_receives_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let incoming = folder.path().join("root/.incoming");
    fs::create_dir_all(incoming.join("dead")).unwrap();
    fs::write(incoming.join("dead/mixed.wav"), "half").unwrap();
    fs::create_dir_all(incoming.join("alive")).unwrap();
    let claimed = fs::File::open(incoming.join("alive")).unwrap();
    claimed.lock().unwrap();
    let place = Place::within(folder, "").await;
    assert_eq!(place.send(b"RIFF").await.status, 200);
    assert!(!incoming.join("dead").exists());
    assert!(incoming.join("alive").exists());
}

#[tokio::test]
async fn ss_09_a_player_seeks_by_ranges() {
    let place = Place::new("").await;
    let audio = sound(200_000);
    place.send(&audio).await;
    let whole = place.play(&[]).await;
    assert_eq!((whole.status.as_u16(), &whole.body[..]), (200, &audio[..]));
    assert_eq!(whole.header("content-type"), "audio/wav");
    assert_eq!(whole.header("accept-ranges"), "bytes");
    assert_eq!(whole.header("content-length"), "200000");
    let etag = whole.header("etag").to_owned();
    assert_eq!(etag, format!("\"{}\"", sha256(&audio)));

    let part = place.play(&[("range", "bytes=1000-1999")]).await;
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &audio[1000..2000]));
    assert_eq!(part.header("content-range"), "bytes 1000-1999/200000");
    assert_eq!(part.header("content-length"), "1000");
    let tail = place.play(&[("range", "bytes=-5"), ("if-range", &etag)]).await;
    assert_eq!((tail.status.as_u16(), &tail.body[..]), (206, &audio[199_995..]));
    let changed = place.play(&[("range", "bytes=0-4"), ("if-range", "\"other\"")]).await;
    assert_eq!((changed.status.as_u16(), changed.body.len()), (200, 200_000));
    let beyond = place.play(&[("range", "bytes=200000-")]).await;
    beyond.refused(416, "invalid-range");
    assert_eq!(beyond.header("content-range"), "bytes */200000");
    assert_eq!(place.play(&[("if-none-match", &etag)]).await.status, 304);

    let head = Request::head(format!("/storage/recordings/{CALL}/mixed.wav"));
    let head = place.world.send(head.header("range", "bytes=0-99").body(Body::empty()).unwrap()).await;
    assert_eq!((head.status.as_u16(), head.header("content-length"), head.body.len()), (206, "100", 0));
    place.world.get("/storage/recordings/nobody/mixed.wav").await.refused(404, "not-found");
    assert_eq!(place.world.get(&format!("/storage/recordings/{CALL}/meta.json")).await.status, 404);
}

#[tokio::test]
async fn ss_09_a_recording_that_somebody_else_put_there_is_played_and_not_replaced() {
    let place = Place::new("").await;
    fs::create_dir_all(place.root().join(CALL)).unwrap();
    fs::write(place.root().join(CALL).join("mixed.wav"), "RIFF old").unwrap();
    let played = place.play(&[]).await;
    assert_eq!(
        (played.text(), played.header("etag")),
        ("RIFF old", &*format!("\"{}\"", sha256(b"RIFF old")))
    );
    assert_eq!(place.send(b"RIFF old").await.value()["length"], 8);
    place.send(b"RIFF new").await.refused(422, "recording-differs");
}

#[tokio::test]
async fn ss_27_recordings_need_the_token_in_and_out() {
    let place = Place::new("").await;
    let dir = place.root().display().to_string();
    let world = node(&format!("token = \"open-sesame\"\n[recordings]\ndir = {dir:?}\n")).await;
    let body = recording(CALL, RECORDING, b"RIFF", "{}");
    world.send(upload(body.clone())).await.refused(401, "token-missing");
    let path = format!("/storage/recordings/{CALL}/mixed.wav");
    world.get(&path).await.refused(401, "token-missing");
    assert_eq!(place.names(), Vec::<String>::new());
    let mut with = upload(body);
    with.headers_mut().insert(header::AUTHORIZATION, "Bearer open-sesame".parse().unwrap());
    assert_eq!(world.send(with).await.status, 200);
}

#[tokio::test]
async fn ss_09_who_listens_hears_of_a_recording_once() {
    let place = Place::new("").await;
    let mut heard = place.world.context.events.listen();
    place.send(b"RIFF").await;
    place.send(b"RIFF").await;
    let mut told = Vec::new();
    while let Ok(event) = heard.try_recv() {
        if event.name == "recording.stored" {
            told.push(serde_json::from_str::<Value>(&event.data).unwrap());
        }
    }
    assert_eq!(told, [json!({ "callLogId": CALL, "recordingId": RECORDING, "length": 4 })]);
}

/// An upload that brought a byte every few seconds held one of the 32 places for an hour: 33 of them, and nobody could send.
#[tokio::test]
async fn ss_27_an_upload_that_only_trickles_is_ended_and_leaves_nothing() {
    let place = Place::new("").await;
    tokio::time::pause();
    let whole = recording(CALL, RECORDING, &[7; 100_000], "{}");
    let pieces: Vec<Bytes> = whole.chunks(500).map(Bytes::copy_from_slice).collect();
    let trickle = stream::iter(pieces).then(|piece| async {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        Ok::<_, std::io::Error>(piece)
    });
    place.world.send(upload(Body::from_stream(trickle))).await.refused(408, "timeout");
    tokio::time::resume();
    assert_eq!(place.names(), Vec::<String>::new());
    assert_eq!(place.send(b"RIFF").await.status, 200);
}
