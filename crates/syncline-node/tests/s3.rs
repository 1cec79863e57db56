//! Recordings in a bucket: a node against a server that speaks S3.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use syncline_node::config::Flags;
use syncline_node::{Config, Context, http as api};
use syncline_store::Store;
use tower::ServiceExt;

const BOUNDARY: &str = "----syncline-s3-boundary";
const HOST: &str = "127.0.0.1:3000";

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

struct Node {
    app: Router,
    _folder: tempfile::TempDir,
    _context: Arc<Context>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Node {
    async fn start(endpoint: &str, bucket: &str) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "[recordings]\ndir = {:?}\n[recordings.s3]\nendpoint = {endpoint:?}\nbucket = {bucket:?}\nprefix = \"box/\"\n\
             access_key_id = \"id\"\nsecret_access_key = \"secret\"\n",
            folder.path().display()
        );
        file.write_all(text.as_bytes()).unwrap();
        let flags = Flags { config: Some(file.path().to_owned()), ..Flags::default() };
        let config = Config::load(&flags, &|_| None).unwrap();
        let address = config.listen;
        let context = Context::new(
            config,
            Store::open_with("sqlite::memory:", &syncline_node::node::store_options()).await.unwrap(),
            address,
        );
        Node { app: api::app(&context), _folder: folder, _context: context }
    }

    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Answer {
        let request = request.header(header::HOST, HOST).body(Body::from(body)).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: response.into_body().collect().await.unwrap().to_bytes().to_vec() }
    }

    async fn upload(&self, call: &str, sound: &[u8]) -> Answer {
        let mut body = Vec::new();
        for (name, bytes) in [
            ("callLogId", call.as_bytes()),
            ("recordingId", b"r-1"),
            ("audio", sound),
            ("meta", b"{\"a\":1}"),
        ] {
            body.extend_from_slice(
                format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n").as_bytes(),
            );
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        self.send(Request::post("/api/ingest/recording-file").header(header::CONTENT_TYPE, kind), body).await
    }

    async fn play(&self, call: &str, range: Option<&str>) -> Answer {
        let get = Request::get(format!("/storage/recordings/{call}/mixed.wav"));
        let get = match range {
            Some(range) => get.header(header::RANGE, range),
            None => get,
        };
        self.send(get, Vec::new()).await
    }
}

#[tokio::test]
async fn ss_26_recordings_go_to_a_bucket_and_are_played_from_it_in_ranges() {
    let s3 = S3::start().await;
    let node = Node::start(&s3.url, "calls").await;
    let sound: Vec<u8> = (0..300_000).map(|at| (at * 31 + at / 251) as u8).collect();
    let stored = node.upload("c-1", &sound).await;
    assert_eq!(stored.status, 200, "{}", String::from_utf8_lossy(&stored.body));
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
    assert_eq!(node.play("c-1", None).await.body, b"RIFF one");
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
        let answer = node.send(Request::get("/storage/recordings/call-1/mixed.wav"), Vec::new()).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    }
    let sent = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(sent < 3 * 32 * 1024 * 1024, "{sent} bytes left the storage");
}
