//! The bookshelf from a scan to a book with its cover, against the stand-ins and against APIs that misbehave.

use std::time::Duration;

use serde_json::{Value, json};
use syncline_books::Isbn13;
use syncline_stand_ins::{Api, Pace, Settings, Upstreams};
use syncline_testing::{Reply, RunningNode, StubApi, until, until_some};

use crate::world::start;

/// The stand-ins, as fast as anybody asks.
async fn upstreams() -> Upstreams {
    let mut settings = Settings::default();
    Api::ALL.iter().for_each(|api| settings.set_pace(*api, Pace { interval: Duration::ZERO, at_once: 0 }));
    Upstreams::start("127.0.0.1:0".parse().unwrap(), settings).await.unwrap()
}

/// Every queue as fast as it goes: the paces have tests of their own.
const UNPACED: &str = "[[queues]]\nname = \"fetchRakutenSearch\"\ninterval_ms = 1\n\
     [[queues]]\nname = \"fetchGoogleSearch\"\ninterval_ms = 1\n\
     [[queues]]\nname = \"fetchNdlSearch\"\ninterval_ms = 1\nretry_delay_ms = 20\n\
     [[queues]]\nname = \"scanner\"\nretry_delay_ms = 20\n";

async fn books(world: &RunningNode) -> Vec<Value> {
    world.get("/api/shelf/books?limit=1000").await["books"].as_array().unwrap().clone()
}

/// The shelf once nothing on it is waited for.
async fn settled(world: &RunningNode) -> Vec<Value> {
    until_some("the shelf to settle", async || {
        let books = books(world).await;
        let ready = |book: &Value| book["state"] == "found" && book["cover_state"] != "waiting";
        books.iter().all(ready).then_some(books)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_01_bk_03_a_shelf_of_scans_gets_the_books_and_covers_that_there_are() {
    let upstreams = upstreams().await;
    let folder = tempfile::tempdir().unwrap();
    let world = start(folder.path(), UNPACED, &upstreams.environment()).await;
    let isbns = upstreams.catalogue().isbns(60);
    let texts: Vec<String> = isbns.iter().map(ToString::to_string).collect();
    world.post("/api/shelf/scan", &json!({ "isbns": texts })).await;
    let shelf = settled(&world).await;
    let origin = format!("http://{}", upstreams.address());
    for isbn in &isbns {
        let entry = upstreams.catalogue().entry(*isbn);
        let shelved = shelf.iter().find(|book| book["isbn"] == isbn.to_string());
        let Some(shelved) = shelved else {
            assert!(!entry.in_library, "{isbn} is in the library and not on the shelf");
            continue;
        };
        assert!(entry.in_library, "{isbn} is on the shelf and not in the library");
        assert_eq!(shelved["title"], entry.book.title);
        let cover = upstreams.catalogue().cover(*isbn, &origin).map(|url| url.to_string());
        assert_eq!(shelved["cover"].as_str(), cover.as_deref(), "{isbn}");
    }
    let known = world.ended("scanner", &texts[0]).await;
    assert!(known["result"]["title"].is_string() || known["result"].is_null(), "{known}");
    let stats = upstreams.stop().await;
    for figures in &stats.apis {
        assert_eq!(figures.asked_again, 0, "{figures:?}");
    }
    assert_eq!(stats.apis[Api::Ndl as usize].calls, 60);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_07_scans_go_on_after_a_restart_and_a_removed_book_can_be_scanned_again() {
    let upstreams = upstreams().await;
    let folder = tempfile::tempdir().unwrap();
    let isbns: Vec<Isbn13> = upstreams.catalogue().isbns(30);
    let texts: Vec<String> = isbns.iter().map(ToString::to_string).collect();
    let first = start(folder.path(), UNPACED, &upstreams.environment()).await;
    first.post("/api/shelf/scan", &json!({ "isbns": texts })).await;
    until_some("some books", async || {
        books(&first).await.iter().any(|book| book["state"] == "found").then_some(())
    })
    .await;
    first.stop().await;

    let second = start(folder.path(), UNPACED, &upstreams.environment()).await;
    let shelf = settled(&second).await;
    let expected = isbns.iter().filter(|isbn| upstreams.catalogue().entry(**isbn).in_library).count();
    assert_eq!(shelf.len(), expected);

    let isbn = shelf[0]["isbn"].as_str().unwrap();
    let mut events = second.context().events.listen();
    assert_eq!(second.delete(&format!("/api/shelf/books/{isbn}")).await["deleted"], true);
    assert_eq!(books(&second).await.len(), expected - 1);
    second.post("/api/shelf/scan", &json!({ "isbn": isbn })).await;
    let again = settled(&second).await;
    assert_eq!(
        (again.len(), &again[0]["title"], &again[0]["cover"]),
        (expected, &shelf[0]["title"], &shelf[0]["cover"])
    );
    let (mut removed, mut found) = (false, false);
    while !(removed && found) {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await.unwrap().unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        removed |= event.name == "shelf.removed" && data == json!({ "isbn": isbn });
        found |= event.name == "shelf.book" && data["isbn"] == isbn && data["state"] == "found";
    }
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_02_a_saved_search_collects_all_pages_and_is_refreshed_when_saved_again_or_changed() {
    let upstreams = upstreams().await;
    let folder = tempfile::tempdir().unwrap();
    let world = start(folder.path(), UNPACED, &upstreams.environment()).await;
    let word: String = upstreams.catalogue().entry(upstreams.catalogue().isbn(1)).book.publisher.unwrap();
    let saved = world.post("/api/shelf/search", &json!({ "publisher": word })).await;
    let path = format!("/api/shelf/searches/{}?limit=1000", saved["id"]);
    let found = async || {
        until_some("the collection", async || {
            let collection = world.get(&path).await;
            (collection["state"] == "found").then_some(collection)
        })
        .await
    };
    let first = found().await;
    assert_eq!((&first["ending"], &first["count"]), (&json!("complete"), &first["total"]));
    assert_eq!(first["books"].as_array().unwrap().len() as u64, first["count"].as_u64().unwrap());
    assert!(first["books"].as_array().unwrap().iter().all(|book| book["publisher"] == *word));
    let calls = upstreams.stats().apis[Api::Ndl as usize].calls;

    world.post("/api/shelf/search", &json!({ "publisher": word })).await;
    let again = found().await;
    assert!(again["found_at"].as_u64() > first["found_at"].as_u64());
    assert_eq!(again["count"], first["count"]);
    assert_eq!(upstreams.stats().apis[Api::Ndl as usize].calls, 2 * calls, "the library was asked anew");
    until_some("all covers", async || {
        let collection = world.get(&path).await;
        collection["books"].as_array()?.iter().all(|book| book["cover_state"] != "waiting").then_some(())
    })
    .await;
    world.stop().await;
}

/// What the library says for each ISBN when it is not the stand-in.
fn sru(isbn: &str, next: Option<u32>) -> String {
    let next = next.map_or(String::new(), |next| format!("<nextRecordPosition>{next}</nextRecordPosition>"));
    format!(
        "<searchRetrieveResponse xmlns=\"http://www.loc.gov/zing/srw/\"><numberOfRecords>1</numberOfRecords>{next}<records><record>\
         <recordSchema>info:srw/schema/1/dc-v1.1</recordSchema><recordData><dc xmlns:dc=\"http://purl.org/dc/elements/1.1/\" \
         xmlns:dcndl=\"http://ndl.go.jp/dcndl/terms/\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\
         <dc:title>A book</dc:title><dc:identifier xsi:type=\"dcndl:ISBN\">{isbn}</dc:identifier></dc></recordData></record></records>\
         </searchRetrieveResponse>"
    )
}

fn asked_isbn(path: &str) -> String {
    let at = path.find("isbn%3D%22").map_or(0, |at| at + "isbn%3D%22".len());
    path[at..].chars().take(13).collect()
}

fn environment(api: &StubApi) -> Vec<(&'static str, String)> {
    let base = format!("http://{}", api.address);
    ["NDL_BASE_URL", "NDL_THUMBNAIL_BASE_URL", "GOOGLE_BOOKS_BASE_URL", "RAKUTEN_BASE_URL"]
        .map(|name| (name, base.clone()))
        .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_04_odd_answers_stop_no_queue_and_lose_no_scan() {
    const ODD: &str = "9784000000017";
    let api = StubApi::start(|path, before| {
        if path.starts_with("/api/sru") {
            let isbn = asked_isbn(path);
            return match (isbn.as_str(), before) {
                // Twice nonsense, then the truth.
                (ODD, 0) => Reply::new(200, "<html>Sorry"),
                (ODD, 1) => Reply::new(200, "<searchRetrieveResponse>").with("content-type", "text/xml"),
                // A page that names itself as the next.
                _ => Reply::new(200, &sru(&isbn, Some(1))),
            };
        }
        if path.starts_with("/thumbnail/") {
            return Reply::new(200, "<h1>Maintenance").with("content-type", "text/html");
        }
        Reply::new(200, "{\"nothing\": \"of use\"")
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let world = start(folder.path(), UNPACED, &environment(&api)).await;
    let isbns = [ODD, "9784000000024", "9784000000031"];
    world.post("/api/shelf/scan", &json!({ "isbns": isbns })).await;
    let shelf = settled(&world).await;
    assert_eq!(shelf.len(), 3, "{shelf:?}");
    assert!(shelf.iter().all(|book| book["title"] == "A book" && book["cover_state"] == "none"), "{shelf:?}");
    let google = world.ended("fetchGoogleSearch", isbns[1]).await;
    assert_eq!(google["state"], "failed");
    assert!(google["reason"].as_str().unwrap().contains("malformed"), "{google}");
    let asked = api.calls().into_iter().filter(|call| call.path.starts_with("/api/sru")).count();
    assert_eq!(asked, 5, "three for the odd one, one for each of the others, and no page twice");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_01_a_scan_is_kept_while_the_library_is_away_and_leaves_only_when_it_says_no() {
    let api = StubApi::start(|path, before| match (path.starts_with("/api/sru"), before) {
        (true, 0..4) => Reply::new(503, "away"),
        (true, _) => Reply::new(
            200,
            "<searchRetrieveResponse><numberOfRecords>0</numberOfRecords></searchRetrieveResponse>",
        ),
        _ => Reply::new(404, ""),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let world = start(folder.path(), UNPACED, &environment(&api)).await;
    let mut events = world.context().events.listen();
    world.post("/api/shelf/scan", &json!({ "isbn": "9784000000017" })).await;
    until("the library to be asked again", async || {
        let asked = api.calls().len();
        assert!(asked >= 4 || books(&world).await.len() == 1);
        asked >= 4
    })
    .await;
    until("the book to leave", async || books(&world).await.is_empty()).await;
    assert_eq!(world.ended("scanner", "9784000000017").await["result"], Value::Null);
    loop {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await.unwrap().unwrap();
        if event.name == "shelf.removed" {
            break;
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_01_scanning_a_book_again_that_was_given_up_looks_for_it_again() {
    let api = StubApi::start(|path, before| match (path.starts_with("/api/sru"), before) {
        (true, 0..3) => Reply::new(500, "broken"),
        (true, _) => Reply::new(200, &sru("9784000000017", None)),
        _ => Reply::new(404, ""),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let lines = "[[queues]]\nname = \"scanner\"\nmax_attempts = 1\n\
         [[queues]]\nname = \"fetchNdlSearch\"\ninterval_ms = 1\nretry_delay_ms = 20\n";
    let world = start(folder.path(), lines, &environment(&api)).await;
    world.post("/api/shelf/scan", &json!({ "isbn": "9784000000017" })).await;
    let dead = world.ended("scanner", "9784000000017").await;
    assert_eq!(dead["state"], "dead");
    assert!(dead["reason"].as_str().unwrap().contains("status 500"), "{dead}");
    assert_eq!(books(&world).await[0]["state"], "searching");
    let scanned = world.post("/api/shelf/scan", &json!({ "isbn": "9784000000017" })).await;
    assert_eq!(scanned["scans"][0]["state"], "searching");
    assert_eq!(settled(&world).await[0]["title"], "A book");
    world.stop().await;
}

/// One 500 of the picture server and a book had no cover for ever, whatever was asked for afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn bk_03_a_picture_server_that_fails_once_is_asked_again() {
    let isbn = "9784000000079";
    let api = StubApi::start(move |path, before| {
        if path.starts_with("/thumbnail/") {
            let picture = Reply::new(200, "").with("content-type", "image/jpeg");
            return if before == 0 { Reply::new(500, "") } else { picture };
        }
        if path.starts_with("/api/sru") {
            return Reply::new(200, &sru(isbn, None)).with("content-type", "text/xml");
        }
        Reply::new(500, "{}")
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let world = start(folder.path(), UNPACED, &environment(&api)).await;
    world.post("/api/shelf/scan", &json!({ "isbns": [isbn] })).await;
    let shelf = settled(&world).await;
    assert_eq!((shelf.len(), &shelf[0]["cover_state"]), (1, &json!("found")), "{shelf:?}");
}
