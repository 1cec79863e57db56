//! Which `Host` is answered and which pages may change things.

use axum::body::Body;
use http::{Request, header};
use serde_json::Value;
use syncline_testing::walk;

use crate::world::{HOST, World, request};

const FILE: &str = "public_base_url = \"https://sync.example\"\nallowed_hosts = [\"extra.example:8443\"]\n";

async fn get_as(world: &World, host: &str) -> crate::world::Answer {
    world.send(Request::get("/healthz").header(header::HOST, host).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_node_answers_to_its_own_hosts_exactly_and_to_no_other() {
    let world = World::new(FILE).await;
    let own = [
        "127.0.0.1:3000",
        "localhost:3000",
        "LocalHost:3000",
        "[::1]:3000",
        "sync.example",
        "sync.example:443",
        "extra.example:8443",
    ];
    for host in own {
        assert_eq!(get_as(&world, host).await.status, 200, "{host}");
    }
    let foreign = [
        "",
        "evil.example",
        "evil.example:3000",
        "localhost",
        "localhost:3001",
        "localhost.:3000",
        "localhost:3000.evil.example",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.2:3000",
        "2130706433:3000",
        "0x7f.1:3000",
        "[::]:3000",
        "[::ffff:127.0.0.1]:3000",
        "192.168.0.7:3000",
        "user@localhost:3000",
        "sync.example:80",
        "sync.example.",
        "extra.example",
        "*",
    ];
    for host in foreign {
        get_as(&world, host).await.refused(421, "unknown-host");
    }
}

#[tokio::test]
async fn a_request_names_exactly_one_host() {
    let world = World::new("").await;
    let none = Request::get("/healthz").body(Body::empty()).unwrap();
    world.send_as_is(none).await.refused(400, "host-missing");
    let two = Request::get("/healthz").header(header::HOST, HOST).header(header::HOST, "evil.example");
    world.send(two.body(Body::empty()).unwrap()).await.refused(421, "unknown-host");
    let differing = Request::get("http://evil.example/healthz").header(header::HOST, HOST);
    world.send(differing.body(Body::empty()).unwrap()).await.refused(421, "unknown-host");
    let in_uri = Request::get(format!("http://{HOST}/healthz")).body(Body::empty()).unwrap();
    assert_eq!(world.send_as_is(in_uri).await.status, 200, "HTTP/2 names the host in the URI");
}

#[tokio::test]
async fn listening_everywhere_any_address_of_our_port_will_do_but_no_name() {
    let world = World::new("listen = \"0.0.0.0:3000\"\ntoken = \"a-token-for-this-test\"\n").await;
    for host in ["192.168.0.7:3000", "10.1.2.3:3000", "[2001:db8::7]:3000", "localhost:3000", "0.0.0.0:3000"]
    {
        assert_eq!(get_as(&world, host).await.status, 200, "{host}");
    }
    for host in ["192.168.0.7:80", "192.168.0.7", "evil.example:3000", "192.168.0.7.evil.example:3000"] {
        get_as(&world, host).await.refused(421, "unknown-host");
    }
}

#[tokio::test]
async fn only_our_own_pages_and_programs_may_change_things() {
    let world = World::new(FILE).await;
    let put = |host: &str, origin: Option<&str>, site: Option<&str>| {
        let mut put = request("PUT", "/api/kv/a", "{\"value\":\"1\"}");
        put.headers_mut().insert(header::HOST, host.parse().unwrap());
        for (name, value) in [("origin", origin), ("sec-fetch-site", site)] {
            if let Some(value) = value {
                put.headers_mut().insert(name, value.parse().unwrap());
            }
        }
        put
    };
    let allowed = [
        (HOST, None, None),
        (HOST, Some("http://127.0.0.1:3000"), Some("same-origin")),
        (HOST, Some("http://127.0.0.1:3000"), None),
        (HOST, None, Some("none")),
        ("sync.example", Some("https://sync.example"), Some("same-origin")),
        ("sync.example:443", Some("https://sync.example"), None),
    ];
    for (host, origin, site) in allowed {
        assert_eq!(world.send(put(host, origin, site)).await.status, 200, "{host} {origin:?} {site:?}");
    }
    let origins = [
        "null",
        "http://evil.example",
        "http://evil.example:3000",
        "http://127.0.0.1",
        "http://127.0.0.1:3001",
        "http://127.0.0.1:3000.evil.example",
        "http://localhost:3000",
        "http://[::1]:3000",
        "https://sync.example",
        "https://sync.example:3000",
        "http://sync.example",
        "file://",
        "chrome-extension://abcdefghijklmnop",
        "127.0.0.1:3000",
        "ftp://127.0.0.1:3000",
        "nonsense",
        "",
    ];
    let sites = [None, Some("same-origin"), Some("same-site"), Some("cross-site"), Some("none"), Some("")];
    let mut refused = 0;
    for origin in origins {
        for site in sites {
            for host in [HOST, "extra.example:8443"] {
                world.send(put(host, Some(origin), site)).await.refused(403, "foreign-origin");
                refused += 1;
            }
        }
    }
    for site in ["cross-site", "same-site", "Same-Origin", ""] {
        world.send(put(HOST, None, Some(site))).await.refused(403, "foreign-origin");
        world.send(put(HOST, Some("http://127.0.0.1:3000"), Some(site))).await.refused(403, "foreign-origin");
        refused += 2;
    }
    assert!(refused >= 200, "{refused}");
}

#[tokio::test]
async fn no_other_site_can_read_anything() {
    let world = World::new("").await;
    for path in ["/", "/api/viewer", "/api/kv", "/openapi.json"] {
        let get =
            Request::get(path).header(header::ORIGIN, "http://evil.example").body(Body::empty()).unwrap();
        let answer = world.send(get).await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{path}");
    }
}

#[tokio::test]
async fn pages_of_named_sites_may_send_heartbeats_and_nothing_else() {
    let world = World::new("[viewer]\nallowed_origins = [\"https://shop.example\"]\n").await;
    let from = |mut request: Request<Body>, origin: &str| {
        request.headers_mut().insert(header::ORIGIN, origin.parse().unwrap());
        request.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
        request
    };
    let beat = || request("POST", "/api/viewer", "{\"sessionId\":\"s\"}");
    let preflight = || {
        let asks = Request::options("/api/viewer").header("access-control-request-method", "POST");
        asks.header("access-control-request-headers", "content-type").body(Body::empty()).unwrap()
    };

    let answer = world.send(from(preflight(), "https://shop.example")).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), "https://shop.example");
    assert_eq!(answer.header("access-control-allow-methods"), "POST");
    assert_eq!(answer.header("access-control-allow-headers"), "authorization, content-type");
    let answer = world.send(from(beat(), "https://shop.example")).await;
    assert_eq!((answer.status.as_u16(), answer.header("vary")), (200, "origin"));
    assert_eq!(answer.header("access-control-allow-origin"), "https://shop.example");
    assert_eq!(answer.header("access-control-allow-credentials"), "");
    let bad = world.send(from(request("POST", "/api/viewer", "{}"), "https://shop.example")).await;
    assert_eq!(bad.header("access-control-allow-origin"), "https://shop.example", "errors can be read too");

    for origin in ["https://evil.example", "http://shop.example", "https://shop.example.evil.example", "null"]
    {
        world.send(from(preflight(), origin)).await.refused(403, "foreign-origin");
        let refused = world.send(from(beat(), origin)).await;
        refused.refused(403, "foreign-origin");
        assert_eq!(refused.value()["success"], Value::Bool(false));
        assert_eq!(refused.header("access-control-allow-origin"), "");
    }
    let put = from(request("PUT", "/api/kv/a", "{\"value\":\"1\"}"), "https://shop.example");
    world.send(put).await.refused(403, "foreign-origin");
}

/// Pages of other sites could send any GET: they saw no answer, but a node without a token did the work.
#[tokio::test]
async fn pages_of_other_sites_read_nothing_but_pages_and_health() {
    let world = World::new("[viewer]\nallowed_origins = [\"https://shop.example\"]\n").await;
    let asked = walk::other_sites_read_nothing(&world, &[]).await;
    assert!(asked > 20, "{asked}");
    let get = async |path: &str, (name, value): (&str, &str)| {
        world.send(Request::get(path).header(name, value).body(Body::empty()).unwrap()).await
    };
    get("/api/kv", ("sec-fetch-site", "cross-site")).await.refused(403, "foreign-origin");
    for path in ["/", "/viewer", "/assets/app.css", "/healthz", "/readyz"] {
        assert_ne!(get(path, ("sec-fetch-site", "cross-site")).await.status, 403, "{path}");
    }
    // An origin that may send heartbeats may do that and nothing else.
    let read = get("/api/viewer", ("origin", "https://shop.example")).await;
    assert_eq!(read.header("access-control-allow-origin"), "");
    let mut beat = request("POST", "/api/viewer", "{\"sessionId\":\"s\"}");
    beat.headers_mut().insert("origin", "https://shop.example".parse().unwrap());
    beat.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
    let beaten = world.send(beat).await;
    assert_eq!(
        (beaten.status.as_u16(), beaten.header("access-control-allow-origin")),
        (200, "https://shop.example")
    );
}
