//! Recordings in a bucket: a node against a server that speaks S3.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode, header};
use serde_json::Value;
use syncline_testing::{Answer, HOST, RouterNode};

use crate::form::{recording, upload};
use crate::world::node;

/// The server, with one empty bucket.
struct S3 {
    child: Child,
    url: String,
}

impl S3 {
    async fn start() -> S3 {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("moto/bin/moto_server");
        assert!(program.exists(), "{} is missing: `cargo xtask setup` installs it", program.display());
        let mut child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It says where it listens among other things.
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = said.map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("Running on ")?.1.trim().to_owned())).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let server = S3 { child, url };
        let created = reqwest_put(&format!("{}/calls", server.url)).await;
        assert_eq!(created, StatusCode::OK);
        server
    }
}

/// A bucket can be made by anybody here.
async fn reqwest_put(url: &str) -> StatusCode {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::new().put(url).body("").header(header::CONTENT_LENGTH, 0).send().await.unwrap().status()
}

impl Drop for S3 {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node that keeps recordings in a bucket.
struct Node(RouterNode);

impl Node {
    async fn start(endpoint: &str, bucket: &str) -> Node {
        let file = format!(
            "[recordings.s3]\nendpoint = {endpoint:?}\nbucket = {bucket:?}\nprefix = \"box/\"\n\
             access_key_id = \"id\"\nsecret_access_key = \"secret\"\n"
        );
        Node(node(&file).await)
    }

    async fn upload(&self, call: &str, sound: &[u8]) -> Answer {
        self.0.send(upload(recording(call, "r-1", sound, "{\"a\":1}"))).await
    }

    async fn play(&self, call: &str, range: Option<&str>) -> Answer {
        let mut get = Request::get(format!("/storage/recordings/{call}/mixed.wav"));
        if let Some(range) = range {
            get = get.header(header::RANGE, range);
        }
        self.0.send(get.body(Body::empty()).unwrap()).await
    }
}

#[tokio::test]
async fn ss_26_recordings_go_to_a_bucket_and_are_played_from_it_in_ranges() {
    let s3 = S3::start().await;
    let node = Node::start(&s3.url, "calls").await;
    let sound: Vec<u8> = (0..300_000).map(|at| (at * 31 + at / 251) as u8).collect();
    let stored = node.upload("c-1", &sound).await;
    assert_eq!(stored.status, 200, "{}", stored.text());
    assert_eq!(stored.value()["length"], 300_000);
    assert_eq!(stored.value()["fileUrl"], format!("http://{HOST}/storage/recordings/c-1/mixed.wav"));

    let whole = node.play("c-1", None).await;
    assert_eq!((whole.status.as_u16(), whole.header("content-type")), (200, "audio/wav"));
    assert!(whole.body == sound);
    let part = node.play("c-1", Some("bytes=1000-1999")).await;
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &sound[1000..2000]));
    assert_eq!(part.header("content-range"), "bytes 1000-1999/300000");
    assert_eq!(node.play("c-1", Some("bytes=400000-")).await.status, 416);
    assert_eq!(node.play("nobody", None).await.status, 404);
    // The description is beside it, under the prefix.
    let meta = reqwest::Client::new().get(format!("{}/calls/box/c-1/meta.json", s3.url));
    // The server asks for a signature and does not look at it.
    let signed =
        "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
    let meta = meta.header(header::AUTHORIZATION, signed).send().await.unwrap();
    assert_eq!(meta.text().await.unwrap(), "{\"a\":1}");
}

#[tokio::test]
async fn ss_26_in_a_bucket_too_an_upload_repeats_and_nothing_is_replaced() {
    let s3 = S3::start().await;
    let node = Node::start(&s3.url, "calls").await;
    let first = node.upload("c-1", b"RIFF one").await;
    assert_eq!(node.upload("c-1", b"RIFF one").await.value(), first.value());
    let other = node.upload("c-1", b"RIFF two").await;
    assert_eq!((other.status.as_u16(), &other.value()["code"]), (422, &Value::from("recording-differs")));
    assert_eq!(node.play("c-1", None).await.text(), "RIFF one");
}

#[tokio::test]
async fn ss_26_a_bucket_that_is_missing_or_away_is_a_failure_and_no_receipt() {
    let s3 = S3::start().await;
    let missing = Node::start(&s3.url, "another").await.upload("c-1", b"RIFF").await;
    assert_eq!((missing.status.as_u16(), &missing.value()["code"]), (500, &Value::from("storage")));
    let away = Node::start("http://127.0.0.1:9", "calls").await.upload("c-1", b"RIFF").await;
    assert_eq!((away.status.as_u16(), &away.value()["code"]), (500, &Value::from("storage")));
}

/// A storage that failed with an endless body used to be read to its end, for the 300 characters of it that are logged: two
/// gigabytes in half a minute.
#[tokio::test]
async fn a_storage_that_fails_with_an_endless_body_is_not_read_to_its_end() {
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let endless = move || {
        let counted = Arc::clone(&counted);
        let pieces = futures::stream::repeat_with(move || {
            counted.fetch_add(64 * 1024, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, std::convert::Infallible>(bytes::Bytes::from(vec![b'x'; 64 * 1024]))
        });
        std::future::ready((StatusCode::INTERNAL_SERVER_ERROR, Body::from_stream(pieces)))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(endless)).await });
    let node = Node::start(&url, "calls").await;
    for _ in 0..3 {
        let answer = node.play("call-1", None).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    }
    let sent = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(sent < 3 * 32 * 1024 * 1024, "{sent} bytes left the storage");
}
