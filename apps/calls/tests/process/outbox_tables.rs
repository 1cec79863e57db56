//! The application's own database: looked at without being changed, refused in words that help, and never made by a typo.

use std::fs;

use syncline_testing::process::serversync;

use crate::call_box::{CallBox, Frontend};
use crate::frontend::Plain;
use crate::node;
use crate::outbox::{count, enqueue, said};
use crate::outbox_receipts::sql;

const PLAIN: &str = "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY, entity_type TEXT, entity_id TEXT, payload TEXT, \
     created_at TEXT DEFAULT CURRENT_TIMESTAMP, processed_at TEXT); \
     INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('order', 'o1', '{\"n\":1}')";

/// `syncline outbox stats` used to alter the table that it was asked to count, and a mistyped path made an empty database.
#[test]
fn ss_34_commands_that_look_change_nothing_and_make_nothing() {
    let of = CallBox::new(None);
    sql(&of, PLAIN);
    let file = of.folder.path().join("box.db");
    let before = fs::read(&file).unwrap();
    for arguments in
        [&["outbox", "stats"][..], &["outbox", "list"], &["outbox", "show", "1"], &["outbox", "settings"]]
    {
        let looked = of.syncline(arguments);
        assert_eq!(looked.status.code(), Some(1), "{}", said(&looked));
        assert!(said(&looked).contains("syncline migrate"), "{}", said(&looked));
    }
    let frontend = Plain::start();
    let checked = of.send(&frontend.url(), &["--check"], &[]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    assert_eq!(fs::read(&file).unwrap(), before, "not a byte of it");
    assert_eq!(of.send(&frontend.url(), &["--once"], &[]).status.code(), Some(0));
    assert_eq!(count(&of.stats(), "delivered"), 1, "once prepared, it is counted");
}

/// A wrong parameter was found by nobody but the start, which ended with 1, so that a service manager tried for ever.
#[test]
fn ss_34_check_finds_what_a_start_would_and_wrong_settings_end_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let run = |url: &str, arguments: &[&str]| {
        let mut command = serversync(folder.path(), arguments);
        let done =
            command.env("DATABASE_URL", url).env("FRONTEND_BASE_URL", "http://127.0.0.1:9").output().unwrap();
        (done.status.code(), said(&done))
    };
    let wrong = [
        ("postgres://127.0.0.1:1/db?target_session_attrs=standby", "say `read-write`"),
        ("postgres://127.0.0.1:1/db?connect_timeout=5", "unknown parameter `connect_timeout`"),
        ("sqlite:box.db?mode=ro", "takes no parameter"),
        ("sqlite:box.db?cache=shared", "takes no parameter"),
        ("postgres://one/db?host=one,two", "several hosts"),
    ];
    for (url, words) in wrong {
        for arguments in [&["--check"][..], &["--once"]] {
            let (code, said) = run(url, arguments);
            assert_eq!(code, Some(2), "{url} {arguments:?}: {said}");
            assert!(said.contains(words), "{url}: {said}");
        }
    }
    let (code, said) = run("sqlite:typo/box.db", &["--check"]);
    assert!(code == Some(2) && said.contains("does not exist"), "{said}");
    let (code, said) = run("sqlite:typo/box.db", &["--once"]);
    assert!(code == Some(1) && said.contains("mode=rwc"), "{said}");
    assert!(!folder.path().join("typo").exists(), "nothing was made");
    assert_eq!(run("sqlite:new/box.db?mode=rwc", &["--check"]).0, Some(0));
    assert!(!folder.path().join("new").exists());
    assert_eq!(run("sqlite:new/box.db?mode=rwc", &["--once"]).0, Some(0));
    assert!(folder.path().join("new/box.db").exists(), "whoever asks for it gets it");
    // A server that is not there may be right and only not be there now.
    assert_eq!(run("postgres://127.0.0.1:1/db", &["--check"]).0, Some(1));
}

/// Switched off, `--drain` said "0 sent" and ended well, with everything still waiting.
#[test]
fn ss_25_a_run_that_is_switched_off_says_so_and_fails() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    of.take_calls(1, &["--without-recording"]);
    of.json(&["outbox", "settings", "--enabled", "false", "--json"]);
    for argument in ["--once", "--drain"] {
        let ran = of.send(&frontend.url(), &[argument], &[]);
        assert_eq!(ran.status.code(), Some(1), "{}", said(&ran));
        assert!(said(&ran).contains("switched off"), "{}", said(&ran));
    }
    assert_eq!(count(&of.stats(), "pending"), 1);
}

#[test]
fn ss_35_an_unknown_type_is_refused_with_the_line_to_add_and_the_log_says_why() {
    let node = node::start("");
    let of = CallBox::new(None);
    of.take_calls(1, &["--without-recording"]);
    enqueue(&of, &[("order", "o1", serde_json::json!({ "n": 1 }))]);
    let sent = of.send(&Frontend::Node(&node), &["--once"], &[]);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let told = said(&sent);
    assert!(told.contains("unknown entity type 'order'") && told.contains("[[entities]]"), "{told}");
}

/// The guide's insert named columns that the box beside it does not have.
#[test]
fn ss_38_the_guides_insert_can_be_pasted_into_the_guides_box() {
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serversync.md")).unwrap();
    let section = guide.split("## In an application").nth(1).unwrap();
    let pasted = section.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let frontend = Plain::start();
    let of = CallBox::new(None);
    of.take_calls(1, &["--without-recording"]);
    sql(&of, pasted);
    let sent = of.send(&frontend.url(), &["--drain"], &[]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    assert_eq!(frontend.seen()["entities"]["call_log"]["c1"]["id"], "c1");
}
