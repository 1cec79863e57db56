//! Texts that PostgreSQL cannot hold: the caller is told, on every route, and nothing is called a failure of the node.

use axum::body::Body;
use http::{Request, header};
use syncline_sim::postgres;

use crate::world::{HOST, World};

/// A zero in a query and half a surrogate pair in a payload were answered with 500 on PostgreSQL, and taken on SQLite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_27_no_text_of_a_request_makes_a_node_on_postgres_fail() {
    let database = tokio::task::spawn_blocking(postgres::database).await.unwrap();
    let file = "[[entities]]\nname = \"voicemail\"\nsettings = true\n";
    let world = World::on(&database.url, file, syncline_node::http::app).await;
    let api = world.get("/openapi.json").await.value();
    let bodies = ["", "{}", r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, r#"{"\u0000":1}"#];
    let mut asked = 0;
    for (path, item) in api["paths"].as_object().unwrap() {
        // A stream of events does not end.
        for (method, operation) in item.as_object().unwrap().iter().filter(|_| path != "/api/events") {
            for address in addresses(path, operation) {
                for body in bodies {
                    let request = Request::builder().method(method.to_uppercase().as_str()).uri(&address);
                    let request =
                        request.header(header::HOST, HOST).header(header::CONTENT_TYPE, "application/json");
                    let answer = world.send(request.body(Body::from(body)).unwrap()).await;
                    let status = answer.status.as_u16();
                    assert!(status < 500, "{method} {address} {body}: {answer:?}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 300, "{asked}");
    for payload in [r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, r#"{"a":"\udc00\ud800"}"#] {
        let put = world.json("PUT", "/api/entities/voicemail/a", payload).await;
        put.refused(400, "invalid-argument");
    }
    world.get("/api/recordings?after=%00").await.refused(400, "invalid-argument");
    assert_eq!(world.json("PUT", "/api/entities/voicemail/a", r#"{"a":"\u547c"}"#).await.status, 200);
}

/// The path with a zero in each place where a name goes, and with a zero in each parameter of its query.
fn addresses(path: &str, operation: &serde_json::Value) -> Vec<String> {
    let names = |place: &str| -> Vec<String> {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let placed = parameters.filter(|parameter| parameter["in"] == place);
        placed.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
    };
    let fill = |with: &dyn Fn(&str) -> String| {
        let mut filled = path.replace("{*path}", "x");
        for name in names("path") {
            filled = filled.replace(&format!("{{{name}}}"), &with(&name));
        }
        filled.replace(['{', '}'], "")
    };
    let plain = fill(&|name| if name == "type" { "voicemail".to_owned() } else { "a".to_owned() });
    let mut addresses = vec![plain.clone()];
    for zero in names("path") {
        addresses.push(fill(&|name| match name {
            _ if name == zero => "a%00b".to_owned(),
            "type" => "voicemail".to_owned(),
            _ => "a".to_owned(),
        }));
    }
    addresses.extend(names("query").iter().map(|name| format!("{plain}?{name}=%00")));
    addresses
}
