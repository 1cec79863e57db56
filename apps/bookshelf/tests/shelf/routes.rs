//! The routes of the bookshelf. Nothing is looked up here: what is scanned stays as it was scanned.

use serde_json::{Value, json};
use syncline_testing::walk;

use crate::world::node;

#[tokio::test]
async fn bk_01_every_way_to_write_an_isbn_is_the_same_book_and_the_rest_is_refused() {
    let world = node("").await;
    let scan = async |body: Value| world.json("POST", "/api/shelf/scan", &body.to_string()).await;
    let one = scan(json!({ "isbn": "978-4-00-000007-9" })).await;
    assert_eq!(one.status, 202);
    assert_eq!(
        one.value(),
        json!({ "scans": [{ "isbn": "9784000000079", "state": "searching" }], "refused": [] })
    );
    let several = scan(
        json!({ "isbns": ["4000000071", "９７８４０００００００９３", "9784000000070", "1920193018009"] }),
    )
    .await;
    assert_eq!(several.status, 202, "{several:?}");
    let several = several.value();
    assert_eq!(several["scans"][0], json!({ "isbn": "9784000000079", "state": "searching" }));
    let reasons: Vec<&str> = several["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| refused["reason"].as_str().unwrap())
        .collect();
    assert_eq!(several["refused"][0]["input"], "9784000000070");
    assert!(
        reasons[0].contains("check digit") && reasons[1].contains("upper of the two barcodes"),
        "{reasons:?}"
    );

    let wrong = scan(json!({ "isbn": "9784000000070" })).await;
    wrong.refused(400, "invalid-isbn");
    assert!(wrong.value()["error"].as_str().unwrap().contains("check digit"), "{wrong:?}");
    scan(json!({ "isbn": "1920193018009" })).await.refused(400, "invalid-isbn");
    for body in [
        json!({}),
        json!({ "isbn": "1", "isbns": [] }),
        json!({ "isbns": [] }),
        json!({ "isbns": vec!["1"; 1_001] }),
    ] {
        scan(body).await.refused(400, "invalid-body");
    }
}

#[tokio::test]
async fn bk_07_a_scan_is_on_the_shelf_and_in_the_queue_when_it_is_answered() {
    let world = node("").await;
    for isbn in ["9784000000017", "9784000000024", "9784000000031"] {
        world.json("POST", "/api/shelf/scan", &json!({ "isbn": isbn }).to_string()).await;
    }
    let shelf = world.get("/api/shelf/books?limit=2").await.value();
    assert_eq!((&shelf["total"], shelf["books"].as_array().unwrap().len()), (&json!(3), 2));
    let book = &shelf["books"][0];
    assert_eq!(
        (&book["isbn"], &book["state"], &book["cover"], &book["cover_state"], &book["title"]),
        (&json!("9784000000031"), &json!("searching"), &Value::Null, &json!("waiting"), &json!(""))
    );
    for after in [shelf["next"].as_str().unwrap(), "9784000000024"] {
        let rest = world.get(&format!("/api/shelf/books?limit=2&after={after}")).await.value();
        assert_eq!((&rest["books"][0]["isbn"], &rest["next"]), (&json!("9784000000017"), &Value::Null));
    }
    assert_eq!(world.get("/api/queues/scanner").await.value()["counts"]["waiting"], 3);
    assert_eq!(world.get("/api/shelf/books/9784000000017").await.value()["state"], "searching");

    let gone = world.json("DELETE", "/api/shelf/books/9784000000017", "").await.value();
    assert_eq!(gone, json!({ "isbn": "9784000000017", "deleted": true }));
    assert_eq!(world.get("/api/queues/scanner").await.value()["counts"]["waiting"], 2);
    world.get("/api/shelf/books/9784000000017").await.refused(404, "not-found");
    world.get("/api/shelf/books?after=9784000000017").await.refused(400, "invalid-after");
    world.get("/api/shelf/books?limit=0").await.refused(400, "invalid-limit");
    world.get("/api/shelf/books/no-isbn").await.refused(400, "invalid-isbn");
}

/// An ISBN, another one for each number.
fn isbn(number: usize) -> String {
    let digits = format!("97840{number:07}");
    let weighed = digits.bytes().zip([1, 3].into_iter().cycle());
    let sum: usize = weighed.map(|(digit, weight)| usize::from(digit - b'0') * weight).sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

#[tokio::test]
async fn bk_07_the_shelf_is_listed_to_its_end_by_short_pages_and_by_long_ones() {
    let world = node("").await;
    let isbns: Vec<String> = (0..200).map(isbn).collect();
    let scanned = world.json("POST", "/api/shelf/scan", &json!({ "isbns": isbns }).to_string()).await;
    assert_eq!(scanned.value()["refused"], json!([]));
    let listed = walk::a_listing_leads_through_everything(&world, "/api/shelf/books?", "books", "isbn").await;
    assert_eq!(listed, 200);
}

#[tokio::test]
async fn bk_02_a_search_is_saved_listed_changed_and_forgotten() {
    let world = node("").await;
    let post = async |body: Value| world.json("POST", "/api/shelf/search", &body.to_string()).await;
    let saved = post(json!({ "title": "港 ", "from": "2020", "publisher": "" })).await;
    assert_eq!(saved.status, 202);
    let id = saved.value()["id"].as_i64().unwrap();
    assert_eq!(saved.value()["search"], json!({ "title": "港", "from": "2020" }));
    assert_eq!(post(json!({ "title": "港", "from": "2020" })).await.value()["id"], id);
    let list = world.get("/api/shelf/searches").await.value();
    assert_eq!(
        (list["searches"].as_array().unwrap().len(), &list["searches"][0]["state"]),
        (1, &json!("searching"))
    );
    let collection = world.get(&format!("/api/shelf/searches/{id}")).await.value();
    assert_eq!(
        (&collection["id"], &collection["count"], &collection["books"]),
        (&json!(id), &json!(0), &json!([]))
    );
    assert_eq!(world.get("/api/queues/ndlSearch").await.value()["counts"]["waiting"], 1);

    let changed = world.json("PUT", &format!("/api/shelf/searches/{id}"), "{\"creator\":\"誰\"}").await;
    assert_eq!((changed.status.as_u16(), &changed.value()["search"]), (202, &json!({ "creator": "誰" })));
    for body in [
        json!({}),
        json!({ "title": "x".repeat(201) }),
        json!({ "from": "soon", "title": "x" }),
        json!({ "title": "字".repeat(200), "any": "字".repeat(200) }),
    ] {
        post(body).await.refused(400, "invalid-search");
    }
    post(json!({ "titel": "x" })).await.refused(400, "invalid-body");
    world.json("PUT", "/api/shelf/searches/99", "{\"title\":\"x\"}").await.refused(404, "not-found");
    let path = format!("/api/shelf/searches/{id}");
    assert_eq!(world.json("DELETE", &path, "").await.value(), json!({ "id": id, "deleted": true }));
    world.get(&path).await.refused(404, "not-found");
}

#[tokio::test]
async fn bk_08_covers_may_come_from_the_sources_and_from_nowhere_else() {
    let world = node("[shelf]\nrakuten_base_url = \"http://127.0.0.1:4000/rakuten\"\n").await;
    let pictures = async |page: &str| {
        let answer = world.get(page).await;
        let policy = answer.header("content-security-policy").to_owned();
        policy.split("; ").find(|part| part.starts_with("img-src")).unwrap().to_owned()
    };
    assert_eq!(
        pictures("/shelf").await,
        "img-src 'self' data: blob: http://127.0.0.1:4000 http://books.google.com https://books.google.com \
         https://ndlsearch.ndl.go.jp"
    );
    assert_eq!(pictures("/").await, "img-src 'self' data: blob:");
}

#[tokio::test]
async fn a_node_without_a_shelf_has_none_of_its_queues() {
    let world = node("apps = []\n").await;
    world.json("POST", "/api/shelf/scan", "{\"isbn\":\"9784000000079\"}").await.refused(404, "not-found");
    assert_eq!(world.get("/api/queues").await.value(), json!({ "queues": [] }));
}

#[tokio::test]
async fn qu_24_the_queues_of_the_shelf_say_how_they_are() {
    let world = node("").await;
    let list = world.get("/api/queues").await.value();
    let pace = |queue: &Value| {
        json!([queue["name"], queue["concurrency"], queue["interval_ms"], queue["retry_delay_ms"]])
    };
    let paces: Vec<Value> = list["queues"].as_array().unwrap().iter().map(pace).collect();
    let expected = json!([
        ["fetchGoogleSearch", 1, 100, 500],
        ["fetchRakutenSearch", 1, 500, 500],
        ["fetchNdlSearch", 1, 50, 1000],
        ["ndlSearch", 2, 0, 1000],
        ["scanner", 1, 0, 1000],
        ["fetchBookImage", 1, 0, 1000],
    ]);
    assert_eq!(Value::from(paces), expected);
    let metrics = world.get("/metrics").await;
    assert!(metrics.text().contains("syncline_queue_running{queue=\"scanner\"} 0"), "{metrics:?}");
}

#[tokio::test]
async fn qu_23_a_queue_of_the_shelf_refuses_keys_that_are_none_of_its_own() {
    let world = node("").await;
    for (queue, key) in [("scanner", "9784000000070"), ("ndlSearch", "{}")] {
        let body = json!({ "kind": "new", "keys": [key] }).to_string();
        world.json("POST", &format!("/api/queues/{queue}"), &body).await.refused(400, "invalid-key");
    }
}
