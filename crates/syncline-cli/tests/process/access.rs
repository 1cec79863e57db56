//! Keys and tokens on the command line, and the guide's lines that make a token on a back end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::mint::token_for;
use syncline_testing::process::{Node, run, serversync, syncline};

const SECRET: &str = "correct-horse-battery-staple-correct";

/// A folder with a configuration that has an issuer with a secret and one with a key pair.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../syncline-node/tests/keys");
    let file = format!(
        "[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\naudience = \"https://node.example\"\n\
         keys = [{{ kid = \"2026-10\", secret = \"{SECRET}\" }}]\nmax_age_sec = 7200\n\
         may = [\"state:cart-{{sub}}:read,write\", \"state:{{tenant}}.*:read\", \"viewer:shop:beat\"]\n\
         [[issuers]]\nname = \"id\"\nissuer = \"https://id.example\"\naudience = \"https://node.example\"\n\
         alg = \"ES256\"\nkeys = [{{ public_key_file = \"{keys}/es256.public.pem\" }}]\nmay = [\"lock:doc:*:hold\"]\n"
    );
    std::fs::write(folder.path().join("syncline.toml"), file).unwrap();
    folder
}

fn ask(folder: &TempDir, arguments: &[&str]) -> Output {
    run(folder.path(), arguments, &[])
}

/// What was printed, if all went well.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().trim_end().to_owned()
}

/// What was said on standard error, if the exit code is this one.
fn said(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn ac_04_a_key_is_shown_once_and_its_table_is_ready_to_paste() {
    let folder = tempfile::tempdir().unwrap();
    let made = ask(&folder, &["key", "add", "box-7", "--may", "ingest:box-7:send"]);
    let table = printed(&made);
    let (_, key) = std::str::from_utf8(&made.stderr).unwrap().trim_end().rsplit_once(' ').unwrap();
    assert!(key.starts_with("slk_") && key.len() == 47, "{key}");
    assert!(!table.contains(key), "the file has its hash alone: {table}");
    std::fs::write(folder.path().join("syncline.toml"), &table).unwrap();
    let checked = printed(&ask(&folder, &["token", "check", key, "--need", "ingest:box-7:send"]));
    assert_eq!(checked, "accepted: the key box-7\n  may ingest:box-7:send\ningest:box-7:send: yes");
    let effective = printed(&ask(&folder, &["serve", "--check"]));
    assert!(effective.contains(&table), "{effective}");
    let other = ask(&folder, &["key", "add", "box-7", "--may", "ingest:box-7:send", "--json"]);
    let other: Value = serde_json::from_str(&printed(&other)).unwrap();
    assert_ne!(other["key"], key);
    let refused = ask(&folder, &["token", "check", other["key"].as_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("(token-invalid)"), "{refused:?}");
}

#[test]
fn ac_04_a_publishable_key_needs_an_origin_and_harmless_verbs() {
    let folder = tempfile::tempdir().unwrap();
    let add = |more: &[&str]| ask(&folder, &[&["key", "add", "menu", "--public"], more].concat());
    let made = add(&["--may", "state:menu:read", "--origin", "https://Shop.example"]);
    assert!(printed(&made).contains("public = true\norigins = [\"https://shop.example\"]"), "{made:?}");
    assert!(String::from_utf8_lossy(&made.stderr).contains("slp_"));
    for (arguments, what) in [
        (&["--may", "state:menu:read"][..], "needs an --origin"),
        (&["--may", "state:menu:write", "--origin", "https://a.example"], "may not have the verb write"),
        (&["--may", "kv:*:read", "--origin", "https://a.example"], "nothing of kv"),
        (&["--may", "state:menu:read", "--origin", "https://a.example/path"], "expected an origin"),
        (&["--may", "state", "--origin", "https://a.example"], "expected system:name:verbs"),
        (&["--may", "state:{sub}:read", "--origin", "https://a.example"], "write the name itself"),
        (&[], "--may"),
    ] {
        let said = said(&add(arguments), 2);
        assert!(said.contains(what) && !said.contains("slp_"), "{arguments:?}: {said}");
    }
    let named = ask(&folder, &["key", "add", "a b", "--may", "kv:*:read"]);
    assert!(said(&named, 2).contains("a name has 1 to 64 letters"));
}

#[test]
fn ac_14_a_token_is_minted_and_checked_and_what_is_missing_is_named() {
    let folder = folder();
    let mint = |more: &[&str]| ask(&folder, &[&["token", "mint", "--issuer", "shop"], more].concat());
    let check = |token: &str, more: &[&str]| ask(&folder, &[&["token", "check", token], more].concat());
    let token = printed(&mint(&["--sub", "7", "--claim", "tenant=north", "--for", "15m"]));
    let shown = check(&token, &["--need", "state:cart-7:write", "--need", "state:north.list:read"]);
    let text = printed(&shown);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("accepted: a token of shop for 7, until 20"), "{text}");
    assert!(text.contains("  may state:north.*:read\n"), "{text}");
    assert!(text.ends_with("state:cart-7:write: yes\nstate:north.list:read: yes"), "{text}");
    let lacking = check(&token, &["--need", "state:cart-8:read"]);
    assert_eq!(lacking.status.code(), Some(1));
    let text = String::from_utf8(lacking.stdout).unwrap();
    assert!(text.ends_with("state:cart-8:read: no, this grant is missing\n"), "{text}");

    let narrow = printed(&mint(&["--sub", "7", "--may", "state:cart-7:read", "--may", "job:*:run"]));
    let lacking = check(&narrow, &["--need", "state:cart-7:write", "--need", "state:cart-7:read", "--json"]);
    assert_eq!(lacking.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&lacking.stdout).unwrap();
    assert_eq!((&answer["subject"], &answer["grants"]), (&"7".into(), &vec!["state:cart-7:read"].into()));
    assert_eq!(
        (&answer["needs"][0]["allowed"], &answer["needs"][1]["allowed"]),
        (&false.into(), &true.into())
    );

    let nothing = mint(&["--sub", "7", "--may", "job:*:run"]);
    assert!(!printed(&nothing).is_empty());
    assert!(said(&nothing, 0).contains("it may do nothing"), "{nothing:?}");
    let forged = format!("{}AA", &token[..token.len() - 2]);
    let refused = check(&forged, &["--json"]);
    let answer: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((refused.status.code(), &answer["code"]), (Some(1), &"token-invalid".into()));
}

#[test]
fn ac_14_a_token_may_come_from_standard_input_and_from_a_private_key() {
    let folder = folder();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../syncline-node/tests/keys");
    let (private, other) = (format!("{keys}/es256.private.pem"), format!("{keys}/eddsa.private.pem"));
    let mint =
        |more: &[&str]| ask(&folder, &[&["token", "mint", "--issuer", "id", "--sub", "7"], more].concat());
    let token = printed(&mint(&["--key-file", &private, "--kid", "1"]));
    let mut check = syncline(folder.path(), &["token", "check", "-", "--need", "lock:doc:1:hold"]);
    let mut check = check.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(format!("{token}\n").as_bytes()).unwrap();
    assert!(printed(&check.wait_with_output().unwrap()).ends_with("lock:doc:1:hold: yes"));
    assert!(said(&mint(&[]), 2).contains("name the private one by --key-file"));
    assert!(said(&mint(&["--key-file", &other]), 2).contains("none for ES256"));
    assert!(said(&mint(&["--key-file", "/nonexistent"]), 1).contains("cannot read /nonexistent"));
}

#[test]
fn ac_14_wrong_use_is_said_with_what_to_do() {
    let folder = folder();
    for (arguments, what) in [
        (&["token", "mint", "--sub", "7"][..], "which issuer? --issuer, one of shop, id"),
        (&["token", "mint", "--issuer", "mall"], "there is no issuer \"mall\", only shop, id"),
        (&["token", "mint", "--issuer", "shop", "--for", "3h"], "count for 7200s at most"),
        (&["token", "mint", "--issuer", "shop", "--for", "soon"], "as in 90s, 15m, 1h or 2d"),
        (&["token", "mint", "--issuer", "shop", "--claim", "exp=1"], "exp is not set this way"),
        (&["token", "mint", "--issuer", "shop", "--may", "state"], "expected system:name:verbs"),
        (&["token", "check", "x", "--need", "state:*:read"], "one verb on one name"),
        (&["token", "check", "x", "--need", "state:a:read,write"], "one verb on one name"),
    ] {
        let said = said(&ask(&folder, arguments), 2);
        assert!(said.contains(what) && !said.contains(SECRET), "{arguments:?}: {said}");
    }
    let bare = tempfile::tempdir().unwrap();
    assert!(said(&ask(&bare, &["token", "mint", "--sub", "7"]), 2).contains("no [[issuers]]"));
    assert!(said(&ask(&bare, &["token", "check", "x"]), 2).contains("neither [[keys]] nor [[issuers]]"));
}

/// The first block of the guide in this language.
fn of_guide(language: &str) -> String {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md")).unwrap();
    let fence = format!("```{language}\n");
    let block = guide.split(&fence).nth(1).unwrap_or_else(|| panic!("the guide has no {language}"));
    block.split("```").next().unwrap().to_owned()
}

/// The configuration of the guide takes the token and gives it what the guide says.
fn is_accepted(token: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = of_guide("toml");
    std::fs::write(folder.path().join("syncline.toml"), file).unwrap();
    let checked = ask(&folder, &["token", "check", token, "--need", "state:cart-7:write"]);
    assert!(printed(&checked).ends_with("state:cart-7:write: yes"), "{checked:?}");
}

fn guide_secret() -> String {
    let file = of_guide("toml");
    file.split("secret = \"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[test]
fn ac_14_the_guides_lines_mint_a_token_in_node() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{}\nconsole.log(tokenFor(\"7\"));\n", of_guide("javascript"));
    let path = folder.path().join("mint.mjs");
    std::fs::write(&path, script).unwrap();
    let output = Command::new("node").arg(&path).env("SHOP_SECRET", guide_secret()).output().unwrap();
    is_accepted(&printed(&output));
}

#[test]
fn ac_14_the_guides_lines_mint_a_token_in_python() {
    let script = format!("{}\nprint(token_for(\"7\"))\n", of_guide("python"));
    let output =
        Command::new("python3").args(["-c", &script]).env("SHOP_SECRET", guide_secret()).output().unwrap();
    is_accepted(&printed(&output));
}

#[test]
fn ac_14_the_guides_lines_mint_a_token_in_rust() {
    let compiled = include_str!("mint.rs").replace("pub(crate) ", "pub ");
    let shown = of_guide("rust");
    assert!(compiled.ends_with(&format!("\n{shown}")), "docs/access.md and mint.rs differ:\n{shown}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    is_accepted(&token_for("7", guide_secret().as_bytes(), now));
}

/// A new key used to need a restart, which drops every stream.
#[test]
fn ac_11_sighup_takes_over_keys_and_keeps_everything_if_the_file_has_a_mistake() {
    let made = |name: &str| {
        let folder = tempfile::tempdir().unwrap();
        let made = ask(&folder, &["key", "add", name, "--may", "state:a:read", "--json"]);
        let made: Value = serde_json::from_str(&printed(&made)).unwrap();
        (made["key"].as_str().unwrap().to_owned(), made["toml"].as_str().unwrap().to_owned())
    };
    let ((old, old_table), (new, new_table)) = (made("old"), made("new"));
    let mut node = Node::start(&old_table);
    let bearer = |key: &str| format!("Bearer {key}");
    let status = |key: &str| node.ask("GET", "/api/state/a", &[("authorization", &bearer(key))], "").0;
    assert_eq!((status(&old), status(&new)), (200, 401));
    let mut stream = node.connect();
    let get = format!(
        "GET /api/events HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\n\r\n",
        node.address,
        bearer(&old)
    );
    stream.write_all(get.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "event: hello"));
    let file = node.folder.path().join("syncline.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{before}\n{new_table}\n[limits]\nevent_streams = 7\n")).unwrap();
    node.signal(Signal::HUP);
    while status(&new) != 200 {
        std::thread::yield_now();
    }
    while !node.log().contains("need a restart") {
        std::thread::yield_now();
    }
    assert!(node.log().contains("key new added") && node.log().contains("limits"), "{}", node.log());
    std::fs::write(&file, format!("{before}\n[[keys]]\nname = \"odd\"\n")).unwrap();
    node.signal(Signal::HUP);
    while !node.log().contains("the configuration was not taken over") {
        assert_eq!((status(&old), status(&new)), (200, 200));
    }
    std::fs::write(&file, &before).unwrap();
    node.signal(Signal::HUP);
    while status(&new) == 200 {
        std::thread::yield_now();
    }
    // The stream of the key that stayed the same has been there all the time.
    node.signal(Signal::TERM);
    assert!(node.ended().success());
    assert!(lines.any(|line| line == "0"), "the stream ended with the node and not before");
}

#[test]
fn ac_13_keys_revocations_and_the_audit_on_the_command_line() {
    let shop = format!(
        "[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\naudience = \"https://node.example\"\n\
         keys = [{{ secret = \"{SECRET}\" }}]\nmay = [\"state:cart-{{sub}}:read\"]\n"
    );
    let node = Node::start(&shop);
    let url = format!("http://{}", node.address);
    let with = |arguments: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &[arguments, &["--url", &url]].concat(), &[])
    };
    let key = printed(&with(&["key", "add", "box", "--may", "state:a:read", "--stored"]));
    assert!(key.starts_with("slk_"), "{key}");
    let bearer = format!("Bearer {key}");
    let status = || node.ask("GET", "/api/state/a", &[("authorization", &bearer)], "").0;
    assert_eq!(status(), 200);
    let listed = printed(&with(&["key", "list"]));
    assert!(
        listed.contains("box  secret, of the node, last used") && listed.contains("  state:a:read"),
        "{listed}"
    );
    assert!(printed(&with(&["key", "remove", "box"])).contains("all nodes refuse it"));
    assert_eq!(status(), 401);
    let revoked = printed(&with(&["token", "revoke", "--subject", "7"]));
    assert!(revoked.contains("everything issued so far for the subject 7 of shop"), "{revoked}");
    let audit = printed(&with(&["audit"]));
    let lines: Vec<&str> = audit.lines().collect();
    assert_eq!(lines.len(), 3, "{audit}");
    assert!(lines[0].contains("owner  key:box:manage") && lines[0].contains("POST /api/keys"), "{audit}");
    assert!(lines[1].contains("DELETE /api/keys/{name}"), "{audit}");
    assert!(lines[2].contains("token:shop subject 7:revoke"), "{audit}");
    let json: Value =
        serde_json::from_str(&printed(&with(&["audit", "--system", "token", "--json"]))).unwrap();
    assert_eq!(
        (json["entries"].as_array().unwrap().len(), &json["entries"][0]["outcome"]),
        (1, &Value::from("done"))
    );
    let wrong = with(&["key", "add", "box", "--may", "sate:a:read"]);
    assert!(said(&wrong, 2).contains("did you mean \"state\"?"), "{wrong:?}");
    let site = with(&["doctor", "--from", "https://site.example"]);
    assert_eq!(site.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&site.stdout).contains("listed by no key and no issuer"), "{site:?}");
}

/// A worker used to send under the id that its outbox gave itself, and a key had to be named after that.
#[test]
fn ac_08_a_box_sends_under_the_name_of_its_key_and_no_other() {
    let node = Node::start_in(
        tempfile::tempdir().unwrap(),
        "[[entities]]\nname = \"order\"\n",
        &[("SYNCLINE_TOKEN", "the-owners-token-0123456789")],
    );
    let owner = [("SYNCLINE_TOKEN", "the-owners-token-0123456789")];
    let folder = tempfile::tempdir().unwrap();
    let url = node.url();
    let add = ["key", "add", "box-7", "--may", "ingest:box-7:send", "--stored", "--url", &url];
    let key = printed(&run(folder.path(), &add, &owner));
    let send = |more: &[(&str, &str)]| {
        let mut command = serversync(folder.path(), &["--once"]);
        command.env("DATABASE_URL", "sqlite:box.db?mode=rwc").env("FRONTEND_BASE_URL", &url);
        command.env("SYNCLINE_TOKEN", key.trim()).envs(more.iter().copied()).output().unwrap()
    };
    assert!(send(&[]).status.success(), "nothing is there to send, and the tables are made");
    let database = rusqlite::Connection::open(folder.path().join("box.db")).unwrap();
    let insert =
        "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('order', 'o-1', '{\"n\":1}')";
    database.execute(insert, []).unwrap();
    // Under the outbox's own id nobody is let in, and no attempt of the entry's is counted.
    let refused = send(&[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the sender must be box-7"), "{refused:?}");
    let sent = send(&[("SYNC_SENDER", "box-7")]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let bearer = [("authorization", "Bearer the-owners-token-0123456789")];
    let (status, read) = node.ask("GET", "/api/entities/order/o-1", &bearer, "");
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(
        (status, &read["sender"], &read["payload"]),
        (200, &Value::from("box-7"), &serde_json::json!({ "n": 1 }))
    );
}

#[test]
fn ac_14_every_configuration_of_the_guide_is_accepted() {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md")).unwrap();
    let blocks: Vec<&str> =
        guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 4, "{}", blocks.len());
    for block in blocks {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("syncline.toml"), block).unwrap();
        printed(&ask(&folder, &["serve", "--check"]));
    }
}
