//! Several receivers, signed webhooks, and a database that was copied.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::shop::{Application, Receiver, SECRET, said};

const ROUTES: &str = r#"
[[routes]]
name = "warehouse"
types = ["order"]
url = "{warehouse}"

[[routes]]
name = "partner"
types = ["order", "visit"]
url = "{partner}/hook"
as = "webhook"
secret_env = "PARTNER_SECRET"
"#;

#[test]
fn ss_35_entries_go_to_each_receiver_that_wants_them_and_one_that_is_down_holds_up_no_other() {
    let (warehouse, partner, front) = (Receiver::start(), Receiver::start(), Receiver::start());
    let application = Application::new();
    application.config(&ROUTES.replace("{warehouse}", &warehouse.url()).replace("{partner}", &partner.url()));
    let front_url = front.url();
    let environment = [("FRONTEND_BASE_URL", front_url.as_str()), ("PARTNER_SECRET", SECRET)];
    warehouse.turn("/down/503");
    application.insert("order", "o1", &json!({ "n": 1, "text": "呼" }));
    application.insert("visit", "v1", &json!(null));
    application.insert("invoice", "i1", &json!({}));
    application.insert("order", "o1", &json!({ "n": 2 }));
    let sent = application.send(&["--once", "--config", "serversync.toml"], &environment);
    assert!(sent.status.code() == Some(1) && said(&sent).contains("503"), "{}", said(&sent));
    // The others have all that is theirs.
    let told = partner.told();
    let hooks: Vec<&Value> = told["hooks"].as_object().unwrap().values().collect();
    assert_eq!((hooks.len(), told["refused"].as_array().unwrap().len()), (3, 0), "{told}");
    let first = hooks.iter().find(|hook| hook["data"]["payload"]["n"] == 1).expect("it came");
    assert_eq!((&first["type"], &first["data"]["entityId"]), (&json!("order"), &json!("o1")), "{first}");
    assert_eq!(first["data"]["payload"]["text"], "呼");
    assert_eq!(front.ids(), ["i1"]);
    assert!(warehouse.ids().is_empty());
    // Each has a progress of its own.
    let pending = |route: &str| application.outbox(&["stats", "--route", route])["pending"].as_u64();
    assert_eq!((pending("warehouse"), pending("partner"), pending("frontend")), (Some(2), Some(0), Some(0)));
    let listed = application.outbox(&["list", "--route", "warehouse"]);
    assert_eq!(listed["entries"][0]["entityId"], "o1", "{listed}");
    warehouse.turn("/up");
    let sent = application.send(&["--drain", "--config", "serversync.toml"], &environment);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    let told = warehouse.told();
    let seen: Vec<&Value> = told["seen"].as_array().unwrap().iter().map(|entry| &entry[2]["n"]).collect();
    assert_eq!(seen, [&json!(1), &json!(2)], "in order, once");
}

#[test]
fn ss_35_a_type_that_no_route_takes_is_a_dead_letter_that_says_which_line_to_add() {
    let receiver = Receiver::start();
    let application = Application::new();
    application.config(&ROUTES.replace("{warehouse}", &receiver.url()).replace("{partner}", &receiver.url()));
    application.insert("invoice", "i1", &json!({}));
    application.insert("order", "o1", &json!({}));
    let sent = application.send(&["--drain", "--config", "serversync.toml"], &[("PARTNER_SECRET", SECRET)]);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let dead = application.outbox(&["list", "--state", "dead"]);
    let why = dead["entries"][0]["lastError"].as_str().unwrap();
    assert!(why.contains("add \"invoice\" to the types of one of the [[routes]]"), "{dead}");
    assert_eq!(receiver.ids(), ["o1"]);
    // Poison of one receiver is its own dead letter.
    let wrong = application.send(&["--check", "--config", "serversync.toml"], &[]);
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
    assert!(
        said(&wrong).contains("routes[1].secret_env: the variable PARTNER_SECRET is not set"),
        "{}",
        said(&wrong)
    );
}

/// Two boxes from one SD card image had one sender, and so had a box that was restored from its backup: what was new there was
/// refused, and nothing could be done about it.
#[test]
fn ss_37_a_copied_database_is_recognised_and_gets_a_new_sender() {
    let node = syncline_testing::process::Node::start("jobs = []\n[[entities]]\nname = \"order\"\n");
    let application = Application::new();
    let url = node.url();
    let environment = [("FRONTEND_BASE_URL", url.as_str()), ("SYNC_MAX_ATTEMPTS", "1")];
    application.send(&["--once"], &environment);
    application.database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(application.folder.path().join("shop.db"), copy.path().join("shop.db")).unwrap();
    application.insert("order", "first", &json!({ "of": "the first" }));
    assert_eq!(application.send(&["--drain"], &environment).status.code(), Some(0));

    let database = Connection::open(copy.path().join("shop.db")).unwrap();
    let clone = Application { folder: copy, database };
    clone.insert("order", "second", &json!({ "of": "the copy" }));
    let sent = clone.send(&["--drain"], &environment);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let dead = clone.outbox(&["list", "--state", "dead"]);
    assert!(
        dead["entries"][0]["lastError"].as_str().unwrap().contains("syncline outbox sender --new"),
        "{dead}"
    );
    let before = clone.outbox(&["sender"]);
    let after = clone.outbox(&["sender", "--new"]);
    assert_ne!(before["sender"], after["sender"]);
    assert_eq!(clone.outbox(&["sender"]), after);
    clone.outbox(&["retry", "--dead"]);
    let sent = clone.send(&["--drain"], &environment);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    assert_eq!(node.get("/api/entities/order/second")["payload"], json!({ "of": "the copy" }));
}

/// All that an application of its own wrote goes to three receivers that share no code: ours, one of the plain contract, and one that
/// checks webhooks with the package of Standard Webhooks.
#[test]
fn ss_35_a_drained_outbox_is_at_our_receiver_at_a_plain_one_and_at_one_of_standard_webhooks() {
    let node = syncline_testing::process::Node::start("jobs = []\n[[entities]]\nname = \"order\"\n");
    let (plain, hooks) = (Receiver::start(), Receiver::of_webhooks());
    let application = Application::new();
    application.config(&format!(
        "[[routes]]\nname = \"ours\"\ntypes = [\"order\"]\nurl = \"{}\"\n\
         [[routes]]\nname = \"plain\"\ntypes = [\"*\"]\nurl = \"{}\"\n\
         [[routes]]\nname = \"hooks\"\ntypes = [\"order\"]\nurl = \"{}/in?from=shop\"\nas = \"webhook\"\nsecret_env = \"HOOKS\"\n",
        node.url(),
        plain.url(),
        hooks.url()
    ));
    for n in 0..250 {
        application.insert("order", &format!("o{n}"), &json!({ "n": n, "text": "Grüße, 呼, \u{1f4de}" }));
    }
    // The old secret and the new one at once, as while they are changed.
    let both = format!("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA {SECRET}");
    let sent = application.send(&["--drain", "--config", "serversync.toml"], &[("HOOKS", &both)]);
    assert!(said(&sent).contains("750 sent, 0 failed attempts, 0 given up"), "{}", said(&sent));
    assert_eq!(plain.ids().len(), 250);
    let told = hooks.told();
    let verified = told["seen"].as_object().unwrap();
    assert_eq!(
        (verified.len(), told["refused"].as_array().unwrap().len()),
        (250, 0),
        "{:?}",
        told["refused"]
    );
    assert!(verified.values().all(|event| event["data"]["payload"]["text"] == "Grüße, 呼, \u{1f4de}"));
    assert_eq!(node.get("/api/entities/order/o249")["payload"]["n"], 249);
    // A receiver with another secret takes nothing, and nothing is given up: the entries wait.
    application.insert("order", "forged", &json!({}));
    let wrong = [("HOOKS", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")];
    let sent = application.send(&["--once", "--config", "serversync.toml"], &wrong);
    assert!(said(&sent).contains("401"), "{}", said(&sent));
    assert_eq!(application.outbox(&["stats", "--route", "hooks"])["pending"], 1);
}

/// A file of which two receivers wanted a copy was removed after the first one's receipt, and the second never heard of it.
#[test]
fn ss_35_a_file_goes_to_one_receiver_and_a_route_that_is_gone_is_told_of() {
    let receiver = Receiver::start();
    let application = Application::new();
    let url = receiver.url();
    let route = |name: &str, types: &str| {
        format!("[[routes]]\nname = \"{name}\"\ntypes = {types}\nurl = \"{url}\"\n")
    };
    let photos = "[[files]]\nentity_type = \"photo_file\"\nfolder = \"/tmp\"\nfile = \"{entityId}.jpg\"\nupload_path = \"/photos\"\n";
    application.config(&format!("{}{}{photos}", route("a", "[\"photo_file\"]"), route("b", "[\"*\"]")));
    for arguments in
        [&["--check", "--config", "serversync.toml"][..], &["--once", "--config", "serversync.toml"]]
    {
        let refused = application.send(arguments, &[]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains("a and b both take it"), "{}", said(&refused));
    }
    receiver.turn("/down/503");
    application.config(&route("a", "[\"*\"]"));
    application.insert("order", "o1", &json!({}));
    application.send(&["--once", "--config", "serversync.toml"], &[]);
    application.config(&route("other", "[\"*\"]"));
    let told = application.send(&["--once", "--config", "serversync.toml"], &[]);
    assert!(
        said(&told).contains("entries wait for a route that is not in the configuration"),
        "{}",
        said(&told)
    );
    receiver.turn("/up");
    application.config(&route("a", "[\"*\"]"));
    let sent = application.send(&["--drain", "--config", "serversync.toml"], &[]);
    assert_eq!((sent.status.code(), receiver.ids()), (Some(0), vec!["o1".to_owned()]), "{}", said(&sent));
}
