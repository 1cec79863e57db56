//! The stand-ins are asked with the bookshelf's own requests and read with its own readers: what they say must mean what
//! the catalogue holds, and what they count must be what was done to them.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::time::Duration;

use syncline_books::answer::{Answer, Error};
use syncline_books::ndl::{self, End, Page, Paging, Search, Step};
use syncline_books::rakuten::ApplicationId;
use syncline_books::request::{Base, Request};
use syncline_books::{Book, Isbn13, google, rakuten};
use syncline_core::time::Timestamp;
use syncline_stand_ins::{
    Api, Call, Catalogue, Figures, Flaky, Held, Pace, RetryAfter, Settings, Shares, Upstreams,
};

const ANY_PACE: Pace = Pace { interval: Duration::ZERO, at_once: 0 };

struct World {
    upstreams: Upstreams,
    http: reqwest::Client,
    origin: String,
}

struct Got {
    status: u16,
    retry_after: Option<String>,
    content_type: Option<String>,
    body: Vec<u8>,
}

impl Got {
    fn answer(&self) -> Answer<'_> {
        Answer {
            status: self.status,
            retry_after: self.retry_after.as_deref(),
            content_type: self.content_type.as_deref(),
            body: &self.body,
        }
    }
}

impl World {
    async fn start(settings: Settings) -> World {
        // Whoever was first has chosen the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let upstreams = Upstreams::start("127.0.0.1:0".parse().unwrap(), settings).await.unwrap();
        let origin = format!("http://{}", upstreams.address());
        World { upstreams, http: reqwest::Client::new(), origin }
    }

    fn catalogue(&self) -> &Catalogue {
        self.upstreams.catalogue()
    }

    fn base(&self, name: &str) -> Base {
        let environment = self.upstreams.environment();
        Base::parse(&environment.iter().find(|(variable, _)| *variable == name).unwrap().1).unwrap()
    }

    async fn send(&self, request: &Request) -> Got {
        let method = request.method.as_str().parse().unwrap();
        let response = self.http.request(method, &request.url).send().await.unwrap();
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        Got {
            status: response.status().as_u16(),
            retry_after: header("retry-after"),
            content_type: header("content-type"),
            body: response.bytes().await.unwrap().into(),
        }
    }

    async fn page(&self, search: &Search, start: u32) -> Result<Page, Error> {
        let got = self.send(&search.request(&self.base("NDL_BASE_URL"), start, 200).unwrap()).await;
        ndl::read_page(search, &got.answer(), Timestamp::ZERO)
    }

    async fn google(&self, isbn: Isbn13) -> Result<Option<Book>, Error> {
        let got = self.send(&google::request(&self.base("GOOGLE_BOOKS_BASE_URL"), isbn)).await;
        google::read(isbn, &got.answer(), Timestamp::ZERO)
    }

    async fn rakuten(&self, isbn: Isbn13) -> Result<Option<Book>, Error> {
        let id = ApplicationId::parse("demo").unwrap();
        let got = self.send(&rakuten::request(&self.base("RAKUTEN_BASE_URL"), &id, isbn)).await;
        rakuten::read(isbn, &got.answer(), Timestamp::ZERO)
    }

    async fn thumbnail(&self, isbn: Isbn13) -> Result<bool, Error> {
        let got = self.send(&ndl::thumbnail_request(&self.base("NDL_THUMBNAIL_BASE_URL"), isbn)).await;
        ndl::read_thumbnail(&got.answer(), Timestamp::ZERO)
    }

    fn figures(&self, api: Api) -> Figures {
        self.upstreams.stats().apis[api as usize].clone()
    }
}

fn as_fast_as_you_like() -> Settings {
    Settings { paces: [ANY_PACE; Api::ALL.len()], ..Settings::default() }
}

#[tokio::test]
async fn bk_04_every_stand_in_says_what_the_catalogue_holds() {
    let world = World::start(as_fast_as_you_like()).await;
    for isbn in world.catalogue().isbns(100) {
        let entry = world.catalogue().entry(isbn);
        let page = world.page(&Search::of_isbn(isbn), 1).await.unwrap();
        let expected: Vec<Book> = entry.in_library.then_some(entry.book.clone()).into_iter().collect();
        assert_eq!((page.books, page.next), (expected, None), "{isbn}");
        assert_eq!(world.thumbnail(isbn).await.unwrap(), entry.in_library && entry.thumbnail, "{isbn}");
        for (book, held) in [
            (world.google(isbn).await.unwrap(), entry.google),
            (world.rakuten(isbn).await.unwrap(), entry.rakuten),
        ] {
            let what = book
                .as_ref()
                .map_or(Held::Nothing, |book| if book.cover.is_some() { Held::Picture } else { Held::Data });
            assert_eq!(what, held, "{isbn}");
            let Some(book) = book else { continue };
            let of = |book: &Book| {
                (book.title.clone(), book.authors.clone(), book.publisher.clone(), book.published)
            };
            assert_eq!(of(&book), of(&entry.book), "{isbn}");
        }
    }
    for api in [Api::Ndl, Api::Thumbnail, Api::Google, Api::Rakuten] {
        let figures = world.figures(api);
        assert_eq!((figures.calls, figures.keys, figures.asked_again, figures.too_many), (100, 100, 0, 0));
    }
}

#[tokio::test]
async fn bk_03_the_cover_that_is_expected_is_a_picture_that_can_be_fetched() {
    let world = World::start(as_fast_as_you_like()).await;
    let mut from = std::collections::BTreeMap::new();
    for isbn in world.catalogue().isbns(60) {
        let entry = world.catalogue().entry(isbn);
        let Some(cover) = world.catalogue().cover(isbn, &world.origin) else {
            assert!(!entry.thumbnail && entry.google != Held::Picture && entry.rakuten != Held::Picture);
            continue;
        };
        if !entry.in_library {
            continue;
        }
        let response = world.http.get(cover.as_str()).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "image/svg+xml", "{cover:?}");
        let svg = response.text().await.unwrap();
        assert!(is_closed(&svg) && svg.contains(&entry.book.title[..3]), "{svg}");
        let source =
            cover.as_str().strip_prefix(&world.origin).unwrap().split('/').nth(1).unwrap().to_owned();
        *from.entry(source).or_insert(0) += 1;
    }
    assert_eq!(from.keys().collect::<Vec<_>>(), ["google", "ndl", "rakuten"], "{from:?}");
}

/// Good enough to see that the markup is closed: browsers refuse the rest.
fn is_closed(svg: &str) -> bool {
    svg.starts_with("<svg ")
        && svg.ends_with("</svg>")
        && svg.matches("<text").count() == svg.matches("</text>").count()
}

#[tokio::test]
async fn bk_02_a_search_by_words_comes_in_pages_that_end() {
    let world = World::start(Settings { page_records: 20, ..as_fast_as_you_like() }).await;
    for search in [
        Search { title: Some("灯台".into()), ..Search::default() },
        Search { creator: Some("潮田".into()), ndc: Some("4".into()), ..Search::default() },
        Search {
            any: Some("港".into()),
            from: syncline_books::book::Published::parse("2000"),
            ..Search::default()
        },
    ] {
        let (mut paging, mut books) = (Paging::new(ndl::Cap::default()), Vec::new());
        let total = loop {
            let page = world.page(&search, paging.start_record()).await.unwrap();
            assert!(page.records <= 20 && page.skipped == 0, "{page:?}");
            books.extend(page.books);
            match paging.after(page.next, page.records) {
                Step::Next { .. } => {}
                Step::Done(end) => break (end, page.total),
            }
        };
        assert_eq!(total, (End::Complete, Some(books.len() as u32)), "{search:?}");
        assert!(books.len() > 3, "{search:?} finds too little to be of use: {}", books.len());
        for book in &books {
            assert_eq!(*book, world.catalogue().entry(book.isbn).book);
            let holds =
                |term: &Option<String>, text: &str| term.as_ref().is_none_or(|term| text.contains(term));
            assert!(holds(&search.title, &book.title) && holds(&search.creator, &book.authors.join("/")));
        }
    }
    let nothing = Search { title: Some("\"no\" such \\ title".into()), ..Search::default() };
    assert_eq!(world.page(&nothing, 1).await.unwrap().books, []);
    let url = format!("{}/ndl/api/sru?query=colour%3D%22red%22", world.origin);
    let text = world.http.get(url).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("Unsupported index"), "{text}");
}

#[tokio::test]
async fn qu_22_who_asks_too_fast_gets_429_with_and_without_retry_after() {
    let mut settings = Settings::default();
    settings.set_interval("google=3600000").unwrap();
    let world = World::start(settings).await;
    let isbns = world.catalogue().isbns(4);
    assert!(world.google(isbns[0]).await.is_ok());
    let mut named = Vec::new();
    for isbn in &isbns[1..] {
        match world.google(*isbn).await.unwrap_err() {
            Error::TooManyRequests { retry_after } => named.push(retry_after),
            other => panic!("{other}"),
        }
    }
    // A date is read against the clock it was written by; here it was read against 1970.
    assert_eq!(named[..2], [None, Some(Duration::from_secs(1))]);
    assert!(named[2].is_some());
    let figures = world.figures(Api::Google);
    assert_eq!((figures.calls, figures.too_many, figures.asked_again), (4, 3, 0));
    let url = format!("{}/calls/google", world.origin);
    let listed: serde_json::Value = world.http.get(url).send().await.unwrap().json().await.unwrap();
    let calls: Vec<Call> = serde_json::from_value(listed["calls"].clone()).unwrap();
    assert_eq!(calls.iter().map(|call| call.status).collect::<Vec<_>>(), [200, 429, 429, 429]);
}

#[tokio::test]
async fn bk_04_misbehaviour_comes_in_the_shares_that_were_asked_for() {
    let flaky = Flaky { too_many: 0.2, failing: 0.2, slow: 0.2, broken: 0.2 };
    let settings = Settings {
        flaky,
        slow: Duration::ZERO,
        retry_after: RetryAfter::Never,
        shares: Shares { google: 1.0, ..Shares::default() },
        ..as_fast_as_you_like()
    };
    let world = World::start(settings).await;
    let mut seen = [0; 4];
    for isbn in world.catalogue().isbns(300) {
        let kind = match world.google(isbn).await {
            Ok(Some(_)) => 0,
            Err(Error::TooManyRequests { .. }) => 1,
            Err(Error::Unavailable { status: 500, .. }) => 2,
            Err(Error::Malformed { .. }) => 3,
            other => panic!("{other:?}"),
        };
        seen[kind] += 1;
    }
    // Two in five are answered, slowly or not; the draws depend on nothing but the seed.
    for (count, expected) in seen.into_iter().zip([120_i32, 60, 60, 60]) {
        assert!((count - expected).abs() < 30, "{seen:?}");
    }
    let figures = world.figures(Api::Google);
    assert_eq!((figures.too_many, figures.failed), (seen[1] as u64, (seen[2] + seen[3]) as u64));
    let stats = world.upstreams.stop().await;
    assert_eq!(stats.apis[Api::Google as usize], figures);
}
