//! Pages of other sites act by a bearer credential that lists their origin, or not at all.

use axum::body::Body;
use http::{HeaderValue, Request, header};
use syncline_testing::TestKey;

use crate::access::node;
use crate::world::{Answer, World, request};

const SHOP: &str = "https://shop.example";
const OTHER: &str = "https://other.example";
const HOSTILE: &str = "https://hostile.example";

fn from(mut request: Request<Body>, origin: &str) -> Request<Body> {
    request.headers_mut().insert(header::ORIGIN, origin.parse().unwrap());
    request.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
    request.headers_mut().insert("sec-fetch-mode", "cors".parse().unwrap());
    request
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn preflight(path: &str, method: &str) -> Request<Body> {
    let asks = Request::options(path).header("access-control-request-method", method);
    asks.header("access-control-request-headers", "authorization,content-type").body(Body::empty()).unwrap()
}

/// A node with a key for pages of the shop, one for another site's, and one for no page at all.
async fn world() -> (World, TestKey, TestKey, TestKey) {
    let may = ["state:cart:read,write", "lock:cart:hold,see", "kv:cart:read,write"];
    let shop = TestKey::with_origins("shop", &may, &[SHOP]);
    let other = TestKey::with_origins("other", &may, &[OTHER]);
    let server = TestKey::new("server", &may);
    (node("", &[&shop, &other, &server]).await, shop, other, server)
}

fn reader(answer: &Answer) -> &str {
    assert_eq!(answer.header("access-control-allow-credentials"), "", "never cookies across origins");
    answer.header("access-control-allow-origin")
}

#[tokio::test]
async fn ac_06_a_page_of_a_listed_origin_acts_with_its_key() {
    let (world, shop, ..) = world().await;
    let put = || request("PUT", "/api/kv/cart", "{\"value\":\"1\"}");
    for request in
        [put(), get("/api/kv/cart"), get("/api/state/cart"), get("/api/locks"), get("/api/session")]
    {
        let path = request.uri().to_string();
        let answer = world.send(from(shop.shown_by(request), SHOP)).await;
        assert_eq!((answer.status.as_u16(), reader(&answer)), (200, SHOP), "{path}");
        assert_eq!(answer.header("vary"), "origin, authorization", "{path}");
        assert_eq!(answer.header("access-control-expose-headers"), "retry-after, x-request-id", "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "cross-origin", "{path}");
    }
    let events = from(shop.shown_by(get("/api/events?topics=state&space=cart")), SHOP);
    let stream = world.respond(events).await;
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.headers()["access-control-allow-origin"], SHOP);
    // Refusals can be read, too.
    for (request, status, code) in [
        (shop.shown_by(get("/api/state/another")), 403, "forbidden"),
        (shop.shown_by(get("/openapi.json")), 403, "forbidden"),
        (get("/api/state/cart"), 401, "token-missing"),
    ] {
        let answer = world.send(from(request, SHOP)).await;
        answer.refused(status, code);
        assert_eq!(reader(&answer), SHOP, "{code}");
    }
    let mut wrong = get("/api/state/cart");
    wrong.headers_mut().insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer nonsense"));
    let answer = world.send(from(wrong, SHOP)).await;
    answer.refused(401, "token-invalid");
    assert_eq!(reader(&answer), SHOP);
}

#[tokio::test]
async fn ac_06_a_stolen_key_is_of_no_use_on_another_origin() {
    let (world, shop, other, server) = world().await;
    let origins = [HOSTILE, OTHER, "null", "http://shop.example", "https://shop.example.hostile.example", ""];
    for origin in origins {
        for (key, listed) in [(&shop, SHOP), (&server, "")] {
            assert_ne!(origin, SHOP);
            for request in [get("/api/kv/cart"), request("PUT", "/api/kv/cart", "{\"value\":\"1\"}")] {
                let answer = world.send(from(key.shown_by(request), origin)).await;
                answer.refused(403, "foreign-origin");
                assert_eq!(reader(&answer), "", "{origin} {listed}");
                assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
            }
        }
    }
    // Not even where the browser says nothing of sites, as old ones do not.
    let mut bare = shop.shown_by(get("/api/kv/cart"));
    bare.headers_mut().insert(header::ORIGIN, HOSTILE.parse().unwrap());
    world.send(bare).await.refused(403, "foreign-origin");
    world.send(from(other.shown_by(get("/api/kv/cart")), SHOP)).await.refused(403, "foreign-origin");
    // A program is no page, and our own pages are not foreign.
    assert_ne!(world.send(shop.shown_by(get("/api/kv/cart"))).await.status, 403);
    assert!(world.context.kv.list("cart", 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn ac_06_the_owners_token_and_cookie_stay_at_home() {
    let (world, ..) = world().await;
    let token = "canary-token-0123456789";
    let mut owner = get("/api/kv");
    owner.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    world.send(from(owner, SHOP)).await.refused(403, "foreign-origin");
    let signed_in = world.json("POST", "/api/session", &format!("{{\"token\":\"{token}\"}}")).await;
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    for (origin, status, code) in [(SHOP, 401, "token-missing"), (HOSTILE, 403, "foreign-origin")] {
        let mut with_cookie = get("/api/kv");
        with_cookie.headers_mut().insert(header::COOKIE, cookie.parse().unwrap());
        world.send(from(with_cookie, origin)).await.refused(status, code);
        let mut bare = get("/api/kv");
        bare.headers_mut().insert(header::COOKIE, cookie.parse().unwrap());
        bare.headers_mut().insert(header::ORIGIN, origin.parse().unwrap());
        world.send(bare).await.refused(status, code);
    }
    // Nor is anybody signed in from elsewhere.
    let sign_in = request("POST", "/api/session", &format!("{{\"token\":\"{token}\"}}"));
    let answer = world.send(from(sign_in, SHOP)).await;
    assert_eq!((answer.status.as_u16(), answer.header("set-cookie")), (401, ""));
}

/// A node without a token takes whoever shows nothing for its owner: a page of another site must not be among them.
#[tokio::test]
async fn ac_06_on_loopback_no_page_of_another_site_is_the_owner() {
    let shop = TestKey::with_origins("shop", &["state:cart:read"], &[SHOP]);
    let world = World::new(shop.table()).await;
    for origin in [SHOP, HOSTILE] {
        let answer = world.send(from(get("/api/kv"), origin)).await;
        assert!(answer.status == 401 || answer.status == 403, "{origin}: {answer:?}");
        let put = from(request("PUT", "/api/kv/a", "{\"value\":\"1\"}"), origin);
        let answer = world.send(put).await;
        assert!(answer.status == 401 || answer.status == 403, "{origin}: {answer:?}");
    }
    assert_eq!(world.send(from(shop.shown_by(get("/api/state/cart")), SHOP)).await.status, 200);
}

#[tokio::test]
async fn ac_06_a_preflight_of_a_listed_origin_is_answered_for_every_address() {
    let (world, ..) = world().await;
    for (path, method, methods) in [
        ("/api/state/cart", "POST", "GET, POST, DELETE"),
        ("/api/locks/cart/acquire", "POST", "POST"),
        ("/api/events", "GET", "GET"),
        ("/api/kv/a%2Fb", "PUT", "GET, PUT, DELETE"),
    ] {
        for origin in [SHOP, OTHER] {
            let answer = world.send(from(preflight(path, method), origin)).await;
            assert_eq!((answer.status.as_u16(), reader(&answer)), (204, origin), "{path}");
            let mut told: Vec<&str> = answer.header("access-control-allow-methods").split(", ").collect();
            let mut expected: Vec<&str> = methods.split(", ").collect();
            told.sort_unstable();
            expected.sort_unstable();
            assert_eq!(told, expected, "{path}");
            assert_eq!(answer.header("access-control-allow-headers"), "authorization, content-type");
            assert_eq!(answer.header("access-control-max-age"), "7200");
            assert!(answer.header("vary").contains("origin"));
        }
        for origin in [HOSTILE, "null", "http://shop.example", "https://shop.example:8443"] {
            let answer = world.send(from(preflight(path, method), origin)).await;
            answer.refused(403, "foreign-origin");
            assert_eq!(reader(&answer), "", "{origin}");
        }
    }
    let unknown = world.send(from(preflight("/no/such/path", "GET"), SHOP)).await;
    assert_eq!((unknown.status.as_u16(), reader(&unknown)), (204, SHOP), "so that its error can be read");
    let mut elsewhere = from(preflight("/api/state/cart", "POST"), SHOP);
    elsewhere.headers_mut().insert(header::HOST, "evil.example".parse().unwrap());
    world.send(elsewhere).await.refused(421, "unknown-host");
}

#[tokio::test]
async fn ac_06_a_page_beats_from_an_origin_of_its_key_where_the_key_may() {
    let beats = TestKey::with_origins("beats", &["viewer:shop:beat"], &[SHOP]);
    let reads = TestKey::with_origins("reads", &["state:*:read"], &[SHOP]);
    let world = node("", &[&beats, &reads]).await;
    let beat = || request("POST", "/api/viewer", "{\"sessionId\":\"s\"}");
    let answer = world.send(from(beats.shown_by(beat()), SHOP)).await;
    assert_eq!((answer.status.as_u16(), reader(&answer)), (200, SHOP));
    world.send(from(reads.shown_by(beat()), SHOP)).await.refused(403, "forbidden");
    world.send(from(beat(), SHOP)).await.refused(401, "token-missing");
    world.send(from(beat(), HOSTILE)).await.refused(403, "foreign-origin");
    assert_eq!(world.send(beat()).await.status, 200, "no page: as ever");
}
