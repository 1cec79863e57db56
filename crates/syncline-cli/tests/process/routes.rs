//! `serversync` beside an application that was written by somebody else: poison and outages, several receivers, signed webhooks,
//! and a database that was copied. The receiver is a program in Python that knows nothing of ours.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};
use syncline_sim::until_blocking;
use syncline_testing::process::{ask, serversync, syncline};
use tempfile::TempDir;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

struct Receiver {
    child: Child,
    address: SocketAddr,
}

impl Receiver {
    fn start() -> Receiver {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/receiver.py");
        let mut python = Command::new("python3");
        python.arg(script).env("HOOK_SECRET", SECRET).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim_end().strip_prefix("listening on http://").unwrap().parse().unwrap();
        Receiver { child, address }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn told(&self) -> Value {
        serde_json::from_str(&ask(self.address, "GET", "/seen", &[], "").1).unwrap()
    }

    /// The ids of the entities that came, in order.
    fn ids(&self) -> Vec<String> {
        let told = self.told();
        let seen = told["seen"].as_array().unwrap();
        seen.iter().map(|entry| entry[1].as_str().unwrap().to_owned()).collect()
    }

    fn turn(&self, path: &str) {
        assert_eq!(ask(self.address, "PUT", path, &[], "").0, 200);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An application with its own database.
struct Application {
    folder: TempDir,
    database: Connection,
}

impl Application {
    fn new() -> Application {
        let folder = tempfile::tempdir().unwrap();
        let database = Connection::open(folder.path().join("shop.db")).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        let table = "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, entity_type TEXT NOT NULL, \
                     entity_id TEXT NOT NULL, payload TEXT NOT NULL, created_at TEXT NOT NULL \
                     DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), processed_at TEXT)";
        database.execute_batch(table).unwrap();
        Application { folder, database }
    }

    fn insert(&self, entity_type: &str, id: &str, payload: &Value) {
        let insert = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES (?1, ?2, ?3)";
        self.database.execute(insert, (entity_type, id, payload.to_string())).unwrap();
    }

    fn command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = serversync(self.folder.path(), arguments);
        command.env("DATABASE_URL", "sqlite:shop.db").envs(environment.iter().copied());
        command
    }

    fn send(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        self.command(arguments, environment).output().unwrap()
    }

    fn outbox(&self, arguments: &[&str]) -> Value {
        outbox(self.folder.path(), arguments)
    }

    fn config(&self, text: &str) {
        std::fs::write(self.folder.path().join("serversync.toml"), text).unwrap();
    }
}

fn outbox(folder: &Path, arguments: &[&str]) -> Value {
    let arguments = [&["outbox"], arguments, &["--json"]].concat();
    let output = syncline(folder, &arguments).env("DATABASE_URL", "sqlite:shop.db").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().next().map_or(Value::Null, |line| serde_json::from_str(line).unwrap())
}

/// A worker that is ended with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Thirty entries that made a receiver throw starved everybody else: each round tried ten of them, called the receiver down, and
/// paused; the poisonous ones were due again first. After twelve minutes none of 72 healthy entries had arrived.
#[test]
fn ss_32_hundreds_of_poisonous_entries_hold_up_nobody() {
    let receiver = Receiver::start();
    let application = Application::new();
    for n in 0..300 {
        application.insert("order", &format!("bad{n}"), &json!({ "poison": true }));
    }
    let url = receiver.url();
    let environment = [("FRONTEND_BASE_URL", url.as_str()), ("SYNC_POLL_INTERVAL_SEC", "1")];
    let _worker = Worker(application.command(&[], &environment).stderr(Stdio::null()).spawn().unwrap());
    // Poison has been tried, and is being tried again.
    until_blocking("the receiver has failed on all of them", || {
        receiver.told()["requests"].as_u64().unwrap() > 300
    });
    for n in 0..20 {
        application.insert("order", &format!("good{n}"), &json!({ "n": n }));
        until_blocking("a healthy entry arrives", || receiver.ids().contains(&format!("good{n}")));
    }
    let stats = application.outbox(&["stats"]);
    assert_eq!((stats["pending"].as_u64(), stats["dead"].as_u64()), (Some(300), Some(0)), "{stats}");
}

/// An outage of eighty minutes made dead letters: each answer of 500 was an attempt of a lone entry.
#[test]
fn ss_32_an_outage_makes_no_dead_letter_and_poison_does_become_one() {
    let receiver = Receiver::start();
    let application = Application::new();
    let url = receiver.url();
    // One failure of its own would be the end of an entry.
    let environment = [("FRONTEND_BASE_URL", url.as_str()), ("SYNC_MAX_ATTEMPTS", "1")];
    for status in ["500", "507", "503"] {
        receiver.turn(&format!("/down/{status}"));
        application.insert("order", status, &json!({}));
        application.insert("order", &format!("{status} too"), &json!({}));
        for _ in 0..4 {
            application.send(&["--once"], &environment);
        }
        let stats = application.outbox(&["stats"]);
        assert_eq!((stats["pending"].as_u64(), stats["dead"].as_u64()), (Some(2), Some(0)), "{stats}");
        receiver.turn("/up");
        let sent = application.send(&["--drain"], &environment);
        assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    }
    assert_eq!(receiver.ids().len(), 6);
    // Beside entries that are taken, it is the entry's fault.
    application.insert("order", "bad", &json!({ "poison": true }));
    application.insert("order", "good", &json!({}));
    let sent = application.send(&["--drain"], &environment);
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    let dead = application.outbox(&["list", "--state", "dead"]);
    assert_eq!(dead["entries"][0]["entityId"], "bad", "{dead}");
    assert!(receiver.ids().contains(&"good".to_owned()));
}

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

/// A block of the guide's first section: what stands between the language and the end of the block.
fn guide(language: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serversync.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let section = guide.split("## From an empty application to the first entry").nth(1).unwrap();
    let block = section.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn ss_38_the_guide_leads_from_an_empty_application_to_its_first_entry() {
    let node = syncline_testing::process::Node::start(&format!("jobs = []\n{}", guide("toml")));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.py"), guide("python")).unwrap();
    for (id, total) in [("o1", "250"), ("o2", "7")] {
        let mut python = Command::new("python3");
        let wrote = python.args(["shop.py", id, total]).current_dir(folder.path()).output().unwrap();
        assert!(wrote.status.success(), "{}", said(&wrote));
        let url = node.url();
        let sent = serversync(folder.path(), &["--drain"])
            .envs([("DATABASE_URL", "sqlite:shop.db"), ("FRONTEND_BASE_URL", url.as_str())])
            .output()
            .unwrap();
        assert!(said(&sent).contains("1 sent, 0 failed attempts, 0 given up"), "{}", said(&sent));
    }
    assert_eq!(node.get("/api/entities/order/o1")["payload"], json!({ "id": "o1", "total": 250 }));
}
