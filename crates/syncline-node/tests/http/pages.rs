//! Pages, assets and the browser package.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{Request, header};
use syncline_testing::walk;

use crate::world::World;

#[tokio::test]
async fn every_page_is_served_as_html() {
    let world = World::new("").await;
    let pages = walk::every_page_is_whole(&world).await;
    let expected = [
        "/",
        "/access",
        "/audit",
        "/docs",
        "/kv",
        "/lock",
        "/nodes",
        "/outbox",
        "/outbox/entries",
        "/outbox/inbox",
        "/project",
        "/queue",
        "/queue/groups",
        "/queue/keys",
        "/settings",
        "/state",
        "/state/entities",
        "/state/frame",
        "/state/try",
        "/viewer",
        "/viewer/rooms",
    ];
    assert_eq!(pages, BTreeSet::from(expected.map(str::to_owned)));
}

#[tokio::test]
async fn assets_are_asked_for_again_and_sent_only_when_changed() {
    let world = World::new("").await;
    let first = world.get("/assets/syncline.css").await;
    assert_eq!((first.status.as_u16(), first.header("content-type")), (200, "text/css; charset=utf-8"));
    assert_eq!(first.header("cache-control"), "no-cache");
    let etag = first.header("etag").to_owned();
    let again = |tag: String| {
        Request::get("/assets/syncline.css").header(header::IF_NONE_MATCH, tag).body(Body::empty()).unwrap()
    };
    let unchanged = world.send(again(format!("\"other\", {etag}"))).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.body.len()), (304, 0));
    assert_eq!(unchanged.header("etag"), etag);
    assert_eq!(world.send(again("\"other\"".to_owned())).await.status, 200);
}

#[tokio::test]
async fn assets_are_compressed_for_those_who_can_read_that() {
    let world = World::new("").await;
    let plain = world.get("/assets/syncline.css").await;
    let get = Request::get("/assets/syncline.css").header(header::ACCEPT_ENCODING, "br, gzip");
    let small = world.send(get.body(Body::empty()).unwrap()).await;
    assert_eq!(small.header("content-encoding"), "br");
    assert!(small.body.len() < plain.body.len() / 2);
    let api = Request::get("/openapi.json").header(header::ACCEPT_ENCODING, "br");
    assert_eq!(world.send(api.body(Body::empty()).unwrap()).await.header("content-encoding"), "");
}

#[tokio::test]
async fn nothing_outside_the_folders_is_served() {
    let world = World::new("").await;
    for path in [
        "/assets/../../Cargo.toml",
        "/assets/..%2F..%2FCargo.toml",
        "/assets/%2e%2e/%2e%2e/Cargo.toml",
        "/assets/..%5C..%5CCargo.toml",
        "/assets//etc/passwd",
        "/assets/%2Fetc%2Fpasswd",
        "/pkg/../pages/index.html",
        "/pkg/..%2Fpages%2Findex.html",
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_missing_part_of_the_package_says_how_to_build_it() {
    let world = World::new("").await;
    let missing = world.get("/pkg/no-such-file.wasm").await;
    missing.refused(404, "not-found");
    assert!(missing.text().contains("cargo xtask wasm"), "{missing:?}");
}
