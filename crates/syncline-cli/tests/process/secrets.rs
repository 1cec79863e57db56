//! A canary in every secret, and a search for it in everything that comes out.

use rustix::process::Signal;
use syncline_testing::process::{Node, run};

const FILE: &str = r#"
token = "canary-token-12345"
token_next = "canary-token-67890"
[log]
level = "trace"
[[issuers]]
name = "shop"
issuer = "https://shop.example"
audience = "https://node.example"
keys = [{ kid = "one", secret = "canary-secret-of-the-issuer-0123456789" }]
may = ["state:cart-{sub}:read"]
[[jobs]]
name = "call"
cron = "* * * * *"
gate = "always"
run = { http = { url = "http://ann:canary-password@127.0.0.1:9/?key=canary-query", headers = { authorization = "Bearer canary-header" } } }
"#;

#[test]
fn ac_15_no_secret_is_in_any_log_answer_metric_or_print() {
    let mut node = Node::start(FILE);
    let right = [("authorization", "Bearer canary-token-12345")];
    let next = [("authorization", "Bearer canary-token-67890")];
    let wrong = [("authorization", "Bearer canary-token-12346")];
    // The claims of this one are `{"canary":"1"}`: whoever decodes what was refused must not show it.
    let forged = [("authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOiIxIn0.Y2FuYXJ5")];
    let mut seen = String::new();
    for path in [
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/api/viewer",
        "/api/jobs",
        "/api/kv",
        "/none",
        "/api/keys",
        "/api/issuers",
        "/api/revocations",
        // Last: it has the refusals of all the others.
        "/api/audit",
    ] {
        for headers in [&wrong, &forged, &next, &right] {
            let (_, body) = node.ask("GET", &format!("{path}?token=canary-token-12345"), headers, "");
            seen.push_str(&body);
        }
    }
    for body in
        ["{\"token\":\"canary-token-12345\"}", "{\"token\":\"canary-token-12346\"}", "canary-token-12345"]
    {
        seen.push_str(&node.ask("POST", "/api/session", &[], body).1);
    }
    for environment in [vec![], vec![("DATABASE_URL", "postgres://ann:canary-password@127.0.0.1:9/x")]] {
        for arguments in [&["serve", "--check"][..], &["doctor"], &["doctor", "--json"]] {
            let output = run(node.folder.path(), arguments, &environment);
            seen.push_str(&String::from_utf8_lossy(&output.stdout));
            seen.push_str(&String::from_utf8_lossy(&output.stderr));
        }
    }
    let unreachable = [
        ("DATABASE_URL", "postgres://ann:canary-password@127.0.0.1:9/x"),
        ("SYNCLINE_LISTEN", "127.0.0.1:0"),
    ];
    let output = run(node.folder.path(), &["serve"], &unreachable);
    assert_eq!(output.status.code(), Some(1));
    seen.push_str(&String::from_utf8_lossy(&output.stderr));
    node.signal(Signal::TERM);
    assert!(node.ended().success());
    let log = node.log();
    assert!(log.lines().count() > 20, "a trace of everything was logged");
    assert!(log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "lines of JSON");
    seen.push_str(&log);
    let hit = seen.lines().find(|line| line.contains("canary"));
    assert_eq!(hit, None);
}
