//! Who may call what, with and without a token.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use serde_json::json;
use syncline_testing::walk;

use crate::world::{Answer, World, request};

const TOKEN: &str = "canary-token-0123456789";

async fn guarded() -> World {
    World::new(&format!("token = {TOKEN:?}\n")).await
}

async fn call(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> StatusCode {
    let mut builder = Request::builder().method(method).uri(path);
    for (name, value) in
        headers.iter().chain(&[("host", crate::world::HOST), ("content-type", "application/json")])
    {
        builder = builder.header(*name, *value);
    }
    // Only the head of the answer is waited for: some are endless.
    let request = builder.body(Body::from("{}")).unwrap();
    tower::ServiceExt::oneshot(world.app.clone(), request).await.unwrap().status()
}

#[tokio::test]
async fn with_a_token_set_everything_needs_it_but_health_heartbeats_and_the_session() {
    let world = guarded().await;
    let asked = walk::every_route_needs_the_token(&world, TOKEN, &walk::OPEN_WITH_ALL_SYSTEMS).await;
    assert!(asked > 30, "{asked}");
    assert_eq!(call(&world, "GET", "/no/such/path", &[]).await, 401, "strangers learn nothing about paths");
    for open in ["/", "/viewer", "/assets/syncline.css"] {
        assert_eq!(call(&world, "GET", open, &[]).await, 200, "pages hold no data: {open}");
    }
}

#[tokio::test]
async fn without_a_token_configured_nobody_is_asked() {
    let world = World::new("").await;
    assert_eq!(world.get("/api/kv").await.status, 200);
    assert_eq!(
        world.get("/api/session").await.value(),
        json!({ "required": false, "authenticated": true, "kind": "owner" })
    );
}

#[tokio::test]
async fn a_refused_caller_is_told_before_its_body_is_read_and_nothing_is_stored() {
    let world = guarded().await;
    let unread = Body::from_stream(futures::stream::poll_fn(
        |_| -> std::task::Poll<Option<Result<Bytes, std::io::Error>>> { panic!("the body was read") },
    ));
    let put =
        Request::put("/api/kv/a").header(header::CONTENT_TYPE, "application/json").body(unread).unwrap();
    let answer = world.send(put).await;
    answer.refused(401, "token-missing");
    assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"syncline\"");
    assert!(!answer.text().contains("canary"));
    let mut refused = 0;
    for number in 0..1_000_u32 {
        let mut wrong = TOKEN.to_owned().into_bytes();
        let at = number as usize % wrong.len();
        wrong[at] ^= 1 << (number as usize / wrong.len() % 5);
        let mut put = request("PUT", "/api/kv/a", "{\"value\":\"1\"}");
        let value = [b"Bearer ".as_slice(), &wrong].concat();
        let Ok(value) = http::HeaderValue::from_bytes(&value) else { continue };
        put.headers_mut().insert(header::AUTHORIZATION, value);
        if wrong != TOKEN.as_bytes() {
            assert_eq!(world.send(put).await.status, 401);
            refused += 1;
        }
    }
    assert!(refused > 900, "{refused}");
    assert!(world.context.kv.list("", 10).await.unwrap().iter().all(|entry| entry.key.as_str() != "a"));
}

#[tokio::test]
async fn a_browser_signs_in_with_the_token_and_goes_on_with_a_cookie() {
    let world = guarded().await;
    let session = async |cookie: Option<&str>| -> Answer {
        let mut get = Request::get("/api/session");
        if let Some(cookie) = cookie {
            get = get.header(header::COOKIE, cookie);
        }
        world.send(get.body(Body::empty()).unwrap()).await
    };
    assert_eq!(session(None).await.value(), json!({ "required": true, "authenticated": false }));
    world.json("POST", "/api/session", "{\"token\":\"wrong\"}").await.refused(401, "token-invalid");
    world.json("POST", "/api/session", "{}").await.refused(400, "invalid-body");
    let large = json!({ "token": "x".repeat(8_000) }).to_string();
    world.json("POST", "/api/session", &large).await.refused(413, "too-large");

    let signed_in = world.json("POST", "/api/session", &json!({ "token": TOKEN }).to_string()).await;
    assert_eq!(signed_in.value(), json!({ "required": true, "authenticated": true, "kind": "owner" }));
    let set = signed_in.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("canary"), "{set}");
    let cookie = set.split(';').next().unwrap();
    assert_eq!(
        session(Some(cookie)).await.value(),
        json!({ "required": true, "authenticated": true, "kind": "owner" })
    );
    assert_eq!(call(&world, "GET", "/api/kv", &[("cookie", cookie)]).await, 200);
    assert_eq!(call(&world, "GET", "/api/kv", &[("cookie", &cookie.replace('a', "b"))]).await, 401);

    // A cookie travels with requests that other sites start; those are still refused.
    let foreign = [("cookie", cookie), ("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")];
    assert_eq!(call(&world, "DELETE", "/api/kv/a", &foreign).await, 403);

    let again = world.json("POST", "/api/session", &json!({ "token": TOKEN }).to_string()).await;
    assert_ne!(again.header("set-cookie"), set, "every browser has a session of its own");
    let sign_out = Request::delete("/api/session").header(header::COOKIE, cookie);
    let signed_out = world.send(sign_out.body(Body::empty()).unwrap()).await;
    assert!(signed_out.header("set-cookie").contains("Max-Age=0"), "{signed_out:?}");
    assert_eq!(call(&world, "GET", "/api/kv", &[("cookie", cookie)]).await, 401, "it is over, kept or not");
    let other = again.header("set-cookie").split(';').next().unwrap();
    assert_eq!(call(&world, "GET", "/api/kv", &[("cookie", other)]).await, 200, "the other one is not");
}

#[tokio::test]
async fn behind_https_the_cookie_stays_off_plain_http() {
    let world = World::new(&format!("token = {TOKEN:?}\npublic_base_url = \"https://sync.example\"\n")).await;
    let signed_in = world.json("POST", "/api/session", &json!({ "token": TOKEN }).to_string()).await;
    assert!(signed_in.header("set-cookie").ends_with("; Secure"), "{signed_in:?}");
}

#[tokio::test]
async fn heartbeats_of_pages_need_no_token() {
    let world = guarded().await;
    assert_eq!(world.json("POST", "/api/viewer", "{\"sessionId\":\"s\"}").await.status, 200);
    assert_eq!(call(&world, Method::GET.as_str(), "/api/viewer", &[]).await, 401);
}

/// Guesses used to be as fast as the network, five thousand a second, and left no line in the log.
#[tokio::test]
async fn ac_12_an_address_that_guesses_is_not_listened_to_for_a_while() {
    let world = guarded().await;
    let ask = async |address: &str, method: &str, path: &str, token: &str| {
        let body = json!({ "token": token }).to_string();
        let mut request = request(method, path, &body);
        let peer = syncline_node::server::Peer(format!("{address}:4000").parse().unwrap());
        request.extensions_mut().insert(peer);
        if method == "GET" {
            request.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        }
        world.send(request).await
    };
    let ways = [("GET", "/api/kv"), ("POST", "/api/session"), ("GET", "/api/session")];
    for (number, (method, path)) in ways.into_iter().enumerate() {
        let (guesser, honest) = (format!("192.0.2.{number}"), format!("198.51.100.{number}"));
        // All at once: the answers are held back, each longer than the one before.
        let guesses: Vec<String> = (0..40).map(|number| format!("guess-{number}")).collect();
        let answers = guesses.iter().map(|guess| ask(&guesser, method, path, guess));
        let answers = futures::future::join_all(answers).await;
        let unread = answers.iter().filter(|answer| answer.status == 429).count();
        assert_eq!(unread, 10, "thirty are looked at, a few mistakes are nobody's attack");
        let answer = ask(&guesser, method, path, TOKEN).await;
        answer.refused(429, "too-many-guesses");
        assert!((1..=60).contains(&answer.header("retry-after").parse::<u64>().unwrap()));
        for (method, path) in ways {
            ask(&guesser, method, path, TOKEN).await.refused(429, "too-many-guesses");
            assert_eq!(ask(&honest, method, path, TOKEN).await.status, 200, "{method} {path}");
        }
    }
    // A session that goes on is not a guess.
    let signed_in = ask("203.0.113.1", "POST", "/api/session", TOKEN).await;
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    let mut with_cookie = Request::get("/api/kv").header(header::COOKIE, cookie).body(Body::empty()).unwrap();
    with_cookie.extensions_mut().insert(syncline_node::server::Peer("192.0.2.0:4000".parse().unwrap()));
    assert_eq!(world.send(with_cookie).await.status, 200);
    let text = world.context.registry.render();
    let counted = text.lines().find_map(|line| line.strip_prefix("syncline_http_credentials_refused_total "));
    assert!(counted.unwrap().parse::<u64>().unwrap() > 90, "{counted:?}");
}

#[tokio::test]
async fn ac_12_each_wrong_answer_to_a_guess_comes_later_than_the_one_before() {
    let world = guarded().await;
    for (number, (method, path)) in
        [("GET", "/api/kv"), ("POST", "/api/session"), ("GET", "/api/session")].into_iter().enumerate()
    {
        let mut late_ms = Vec::new();
        for guess in 0..12 {
            let body = json!({ "token": format!("guess-{guess}") }).to_string();
            let mut request = request(method, path, &body);
            let peer = syncline_node::server::Peer(format!("192.0.2.{number}:4000").parse().unwrap());
            request.extensions_mut().insert(peer);
            if method == "GET" {
                let bearer = format!("Bearer guess-{guess}");
                request.headers_mut().insert(header::AUTHORIZATION, bearer.parse().unwrap());
            }
            // Nothing but the pause takes time: it is counted, not waited for.
            tokio::time::pause();
            let asked = tokio::time::Instant::now();
            let status = world.send(request).await.status;
            late_ms.push(asked.elapsed().as_millis() / 50 * 50);
            tokio::time::resume();
            assert!(status == 401 || path == "/api/session" && method == "GET", "{status}");
        }
        // Strikes wear off by the clock on the wall, so that one or another may count as much as the one before.
        assert_eq!(late_ms[..5], [0; 5], "{method} {path}: people mistype");
        for pair in late_ms[5..].windows(2) {
            let twice = if pair[0] == 0 { 50 } else { (2 * pair[0]).min(2_000) };
            assert!(pair[1] == pair[0] || pair[1] == twice, "{method} {path}: {late_ms:?}");
        }
        assert!(late_ms[11] >= 400, "{method} {path}: {late_ms:?}");
    }
}
