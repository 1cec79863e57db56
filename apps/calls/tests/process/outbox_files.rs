//! Files of any kind: declared by a file, sent from where they are, received by a program that knows nothing of ours.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use syncline_sim::postgres;
use syncline_testing::process::serversync;

use crate::call_box::{CallBox, Frontend};
use crate::frontend::{Plain, Scripted};
use crate::node;
use crate::outbox::{count, enqueue, recordings, said};
use crate::outbox_receipts::sql;

/// The folder of the guide's photos.
const GUIDE_FOLDER: &str = "/tmp/shop/photos";

/// A block of the guide's section on files: what stands between the language and the end of the block.
fn guide(language: &str) -> String {
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serversync.md")).unwrap();
    let section = guide.split("## Send files of your own").nth(1).unwrap();
    let block = section.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// The guide's receiver at work in a folder.
struct Receiver {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Receiver {
    fn start() -> Receiver {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("receiver.py"), guide("python")).unwrap();
        let mut python = Command::new("python3");
        python.args(["receiver.py", "0"]).current_dir(folder.path());
        let mut child = python.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let url = first.trim_end().strip_prefix("listening on ").unwrap().to_owned();
        Receiver { child, url, folder }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a configuration file for a box.
fn config(of: &CallBox, text: &str) -> String {
    let path = of.folder.path().join("files.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A box of the guide's shop: its folder of photos, and the guide's declaration in a file.
fn shop(database_url: Option<&str>) -> (CallBox, PathBuf, String) {
    let of = CallBox::new(database_url);
    let photos = of.folder.path().join("photos");
    fs::create_dir_all(photos.join("summer")).unwrap();
    let declared = guide("toml");
    assert!(declared.contains(GUIDE_FOLDER));
    let config = config(&of, &declared.replace(GUIDE_FOLDER, photos.to_str().unwrap()));
    (of, photos, config)
}

fn the_guides_photo_arrives(database_url: Option<&str>, paste: impl Fn(&CallBox, &str)) {
    let receiver = Receiver::start();
    let (of, photos, config) = shop(database_url);
    let send =
        |argument: &str| of.send(&Frontend::Url(receiver.url.clone()), &[argument, "--config", &config], &[]);
    assert_eq!(send("--once").status.code(), Some(0), "the first start makes the outbox");
    let picture: Vec<u8> = (0..300_000_u32).map(|n| (n * 31 % 251) as u8).collect();
    fs::write(photos.join("summer/p1.jpg"), &picture).unwrap();
    fs::write(photos.join("summer/p2.jpg"), "not in the outbox").unwrap();
    paste(&of, &guide("sql"));
    let sent = send("--drain");
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    assert!(said(&sent).contains("1 sent, 0 failed attempts, 0 given up"), "{}", said(&sent));
    assert_eq!(fs::read(receiver.folder.path().join("p1.jpg")).unwrap(), picture, "the very bytes");
    assert!(!photos.join("summer/p1.jpg").exists(), "what has arrived is removed");
    assert!(photos.join("summer/p2.jpg").exists(), "its neighbour is not");
    let stats = of.stats();
    assert_eq!((count(&stats, "pending"), count(&stats, "dead")), (0, 0), "{stats}");
    // The receipt has changed the application's row: one that it had not changed would be inserted a second time, and refused.
    paste(
        &of,
        "INSERT INTO photos SELECT * FROM photos WHERE state <> 'uploaded' OR url IS NULL OR url NOT LIKE 'http%'",
    );
}

#[test]
fn ss_36_the_guides_photo_arrives_from_sqlite() {
    the_guides_photo_arrives(None, sql);
}

#[test]
fn ss_36_the_guides_photo_arrives_from_postgres() {
    let database = postgres::database();
    the_guides_photo_arrives(Some(&database.url), |_, text| database.execute(text).unwrap());
}

#[test]
fn ss_36_an_entry_of_a_type_that_no_kind_declares_is_an_ordinary_entry() {
    let frontend = Plain::start();
    let of = CallBox::new(None);
    enqueue(&of, &[("tax_file", "t1", json!({ "year": 2026 })), ("order", "o1", json!({ "n": 1 }))]);
    let sent = of.send(&frontend.url(), &["--drain"], &[]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    let seen = frontend.seen();
    assert_eq!(seen["entities"]["tax_file"]["t1"], json!({ "year": 2026 }), "{seen}");
    assert_eq!(seen["entities"]["order"]["o1"], json!({ "n": 1 }), "{seen}");
}

/// Folder names were taken for identifiers, and the recording of a call with a name of SIP's could not be sent.
#[test]
fn ss_36_the_folder_of_a_sip_call_is_sent_and_removed() {
    let name = "a84b4c76@pc33.example.com";
    let node = node::start("jobs = []\n");
    let of = CallBox::new(None);
    let folder = of.recordings().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mixed.wav"), "RIFF of a call").unwrap();
    fs::write(folder.join("meta.json"), "{}").unwrap();
    enqueue(
        &of,
        &[("recording_file", "r1", json!({ "callLogId": "c1", "recordingId": "r1", "callId": name }))],
    );
    let sent = of.send(&Frontend::Node(&node), &["--drain"], &[]);
    assert_eq!(sent.status.code(), Some(0), "{}", said(&sent));
    let (status, sound) = node.ask("GET", "/storage/recordings/c1/mixed.wav", &[], "");
    assert_eq!((status, sound.as_str()), (200, "RIFF of a call"));
    assert!(!folder.exists() && of.recordings().exists());
}

/// The state of the only entry of a type, and its last error.
fn entry(of: &CallBox, entity_type: &str) -> (String, String) {
    let listed = of.json(&["outbox", "list", "--json", "--limit", "100"]).remove(0);
    let entries = listed["entries"].as_array().unwrap().clone();
    let found = entries.into_iter().find(|entry| entry["entityType"] == entity_type).expect("it waits");
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    (text(&found["state"]), text(&found["lastError"]))
}

#[test]
fn ss_36_a_kind_that_cannot_be_sent_holds_up_no_other_and_kills_no_entry() {
    let frontend = Scripted::start(|path| match path {
        "/photos" => ("404 Not Found".into(), String::new(), "{}".into()),
        "/api/ingest/sync" => ("200 OK".into(), String::new(), "{\"ok\":true}".into()),
        _ => ("200 OK".into(), String::new(), "{\"fileUrl\":\"https://f.example/x\"}".into()),
    });
    for missing in [false, true] {
        let (of, photos, config) = shop(None);
        fs::write(photos.join("summer/p1.jpg"), "light").unwrap();
        if missing {
            fs::rename(&photos, of.folder.path().join("unmounted")).unwrap();
        }
        enqueue(&of, &[("photo_file", "p1", json!({ "album": "summer" }))]);
        of.take_calls(2, &[]);
        let more = [("SYNC_PLAIN_RECEIPTS", "true"), ("SYNC_MAX_ATTEMPTS", "1")];
        let sent = of.send(&frontend.url(), &["--once", "--config", &config], &more);
        assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
        assert_eq!(recordings(&of).len(), 0, "the recordings have arrived: {}", said(&sent));
        let (state, why) = entry(&of, "photo_file");
        let expected = if missing { "`folder` of photo_file" } else { "404 at /photos" };
        assert!(state == "retrying" && why.contains(expected), "{state}: {why}");
        assert!(missing || photos.join("summer/p1.jpg").exists());
    }
}

#[test]
fn ss_36_ss_04_a_declaration_that_is_wrong_is_one_line_with_its_place_and_exit_code_2() {
    let of = CallBox::new(None);
    let wrong = [
        ("[[files]]\nentity_type = \"photo\"\n".to_owned(), "missing field `folder`"),
        (
            guide("toml").replace("photo_file", "photo"),
            "entity_type: expected an entity type that ends in _file",
        ),
        (guide("toml").replace("upload_path", "upload"), "unknown field `upload`"),
        (
            guide("toml").replace("remove_file", "remove_folder").replace("{album}/", ""),
            "after_receipt: remove_folder needs",
        ),
    ];
    for (text, expected) in wrong {
        let config = config(&of, &text);
        let sent = of.send(
            &Frontend::Url("http://127.0.0.1:9".to_owned()),
            &["--once"],
            &[("SYNC_CONFIG", &config)],
        );
        let printed = said(&sent);
        assert_eq!(sent.status.code(), Some(2), "{printed}");
        assert!(printed.contains(expected) && printed.contains("files.toml:"), "{expected}: {printed}");
        assert_eq!(printed.lines().count(), 1, "{printed}");
    }
    let check = |config: &Path| {
        let mut command = serversync(of.folder.path(), &["--check", "--config", config.to_str().unwrap()]);
        command.env("DATABASE_URL", "sqlite:new.db?mode=rwc").env("FRONTEND_BASE_URL", "http://127.0.0.1:9");
        command.output().unwrap()
    };
    let missing = check(&of.folder.path().join("none.toml"));
    assert!(missing.status.code() == Some(2) && said(&missing).contains("none.toml"), "{}", said(&missing));
    let shown = check(Path::new(&config(&of, &guide("toml"))));
    assert_eq!(shown.status.code(), Some(0), "{}", said(&shown));
    for line in
        ["# photo_file: /tmp/shop/photos/{album}/{entityId}.jpg to POST /photos", "# recording_file: "]
    {
        assert!(said(&shown).contains(line), "{line}: {}", said(&shown));
    }
}
