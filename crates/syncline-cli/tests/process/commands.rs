//! The commands that ask a node, and the one that looks for trouble.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use syncline_testing::process::{Node, run, syncline};

fn ask(node: &Node, arguments: &[&str]) -> Output {
    run(node.folder.path(), arguments, &[("SYNCLINE_URL", &node.url())])
}

fn text(output: &Output) -> &str {
    let text = str::from_utf8(&output.stdout).unwrap();
    assert!(!text.contains('\x1b'), "no colours where no terminal is: {text:?}");
    text
}

#[test]
fn keys_are_put_read_listed_and_removed() {
    let node = Node::start("");
    assert_eq!(text(&ask(&node, &["kv", "put", "a/b c", "hello"])), "stored\n");
    assert_eq!(text(&ask(&node, &["kv", "get", "a/b c"])), "hello\n");
    let put = ask(&node, &["kv", "put", "a/ttl", "x", "--ttl", "60", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&put.stdout).unwrap()["ttlMs"], 60_000);
    let listed = ask(&node, &["kv", "list", "a/"]);
    assert_eq!(text(&listed).lines().next(), Some("a/b c"));
    assert!(text(&listed).lines().nth(1).unwrap().starts_with("a/ttl  ("), "{listed:?}");
    assert_eq!(text(&ask(&node, &["kv", "del", "a/b c"])), "removed\n");
    assert_eq!(text(&ask(&node, &["kv", "del", "a/b c"])), "there was no such key\n");
    let missing = ask(&node, &["kv", "get", "a/b c"]);
    assert_eq!((missing.status.code(), text(&missing)), (Some(1), ""), "no value is no result");
    assert_eq!(String::from_utf8_lossy(&missing.stderr), "there is no such key\n");
    let missing = ask(&node, &["kv", "get", "a/b c", "--json"]);
    assert_eq!((missing.status.code(), text(&missing)), (Some(1), "null\n"));
    assert_eq!(String::from_utf8_lossy(&missing.stderr), "there is no such key\n");
    let refused = ask(&node, &["kv", "put", "viewer:x", "1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("heartbeats"), "{refused:?}");
}

#[test]
fn a_value_may_come_from_standard_input() {
    let node = Node::start("");
    let mut put = syncline(node.folder.path(), &["kv", "put", "piped", "-"])
        .env("SYNCLINE_URL", node.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    put.stdin.take().unwrap().write_all("zwölf\nlines".as_bytes()).unwrap();
    assert!(put.wait().unwrap().success());
    assert_eq!(text(&ask(&node, &["kv", "get", "piped"])), "zwölf\nlines\n");
}

#[test]
fn vw_22_viewers_are_shown_once_or_live() {
    let node = Node::start("");
    assert_eq!(text(&ask(&node, &["viewers"])).lines().next(), Some("nobody is watching"));
    node.beat("one");
    node.beat("two");
    let shown = ask(&node, &["viewers"]);
    assert_eq!(text(&shown).lines().next(), Some("2 viewers, 2 with the page in sight"), "{shown:?}");
    let listed: Value = serde_json::from_slice(&ask(&node, &["viewers", "--json"]).stdout).unwrap();
    assert_eq!((&listed["viewers"], &listed["nodes"][0]["viewers"]), (&json!(2), &json!(2)));

    let mut watching = syncline(node.folder.path(), &["viewers", "--watch", "--json"])
        .env("SYNCLINE_URL", node.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let mut next =
        || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["viewers"].clone();
    assert_eq!(next(), 2);
    node.beat("three");
    while next() != 3 {}
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn without_a_node_or_its_token_the_command_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = run(folder.path(), &["viewers"], &[("SYNCLINE_URL", "http://127.0.0.1:9")]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("syncline serve"), "{nobody:?}");

    let node = Node::start("token = \"canary-token-for-commands\"\n");
    let refused = ask(&node, &["kv", "list"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("set SYNCLINE_TOKEN"), "{refused:?}");
    let environment =
        [("SYNCLINE_URL", node.url()), ("SYNCLINE_TOKEN", "canary-token-for-commands".to_owned())];
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert!(run(folder.path(), &["kv", "list"], &environment).status.success());
}

/// A newer `doctor`, run before an upgrade, brought the schema up to date, and the older nodes refused their next start.
#[test]
fn cn_23_doctor_changes_nothing_on_postgres_or_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let database = syncline_sim::postgres::database();
    std::fs::write(folder.path().join("empty.db"), "").unwrap();
    for url in [database.url.as_str(), "sqlite:empty.db"] {
        let arguments = ["doctor", "--listen", "127.0.0.1:0", "--database-url", url];
        let output = run(folder.path(), &arguments, &[]);
        let shown = text(&output);
        assert!(shown.contains("the next start makes its tables"), "{shown}");
    }
    assert_eq!(std::fs::read(folder.path().join("empty.db")).unwrap(), b"");
    let tables = "SELECT 1 / (count(*) = 0)::int FROM pg_tables WHERE schemaname = 'public'";
    database.execute(tables).expect("there is no table");
}

#[test]
fn doctor_tells_each_finding_and_fails_for_what_would_fail() {
    let folder = tempfile::tempdir().unwrap();
    let healthy = run(folder.path(), &["doctor", "--listen", "127.0.0.1:0", "--json"], &[]);
    let found: Value = serde_json::from_slice(&healthy.stdout).unwrap();
    let names: Vec<_> =
        found["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    let all = [
        "configuration",
        "token",
        "data folder",
        "disk space",
        "database",
        "port",
        "open files",
        "clock",
        "browser package",
    ];
    assert_eq!(names, all);
    assert!(healthy.status.success(), "{found}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing behind");

    std::fs::write(folder.path().join("file"), "not a folder").unwrap();
    std::fs::write(folder.path().join("broken.db"), "this is not a database, only text that is long enough")
        .unwrap();
    let arguments =
        ["doctor", "--listen", "192.0.2.1:1", "--data", "file", "--database-url", "sqlite:broken.db"];
    let short = run(folder.path(), &arguments, &[("SYNCLINE_TOKEN", "canary")]);
    assert_eq!((short.status.code(), text(&short)), (Some(2), ""), "a token that can be guessed is refused");
    let ill = run(folder.path(), &arguments, &[("SYNCLINE_TOKEN", "canary-of-sixteen-and-more")]);
    assert_eq!(ill.status.code(), Some(1));
    let shown = text(&ill);
    for start in ["fail  data folder", "fail  database", "fail  port"] {
        assert!(shown.lines().any(|line| line.starts_with(start)), "{start}\n{shown}");
    }
    let at_home = run(folder.path(), &["doctor", "--listen", "127.0.0.1:0"], &[("SYNCLINE_TOKEN", "canary")]);
    assert!(text(&at_home).lines().any(|line| line.starts_with("warn  token")), "{at_home:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn st_23_spaces_are_listed_and_removed() {
    let node = Node::start("");
    assert_eq!(text(&ask(&node, &["state", "list"])), "no spaces\n");
    let missing = ask(&node, &["state", "delete", "list"]);
    assert_eq!((missing.status.code(), text(&missing)), (Some(1), ""));
    assert_eq!(String::from_utf8_lossy(&missing.stderr), "there is no such space\n");
    let change = json!({ "after": 0, "epoch": "new", "changes": [{ "reset": moment() }] }).to_string();
    let json = [("content-type", "application/json")];
    assert_eq!(node.ask("POST", "/api/state/list", &json, &change).0, 200);
    assert!(text(&ask(&node, &["state", "list"])).contains("\nlist "));
    assert_eq!(text(&ask(&node, &["state", "delete", "list"])), "removed\n");
    assert_eq!(text(&ask(&node, &["state", "list"])), "no spaces\n");
}

/// A moment of the past, as devices write it.
fn moment() -> String {
    use syncline_core::state::Stamp;
    use syncline_core::time::Timestamp;
    Stamp::ZERO.after(Timestamp::from_ms(1_700_000_000_000)).text()
}
