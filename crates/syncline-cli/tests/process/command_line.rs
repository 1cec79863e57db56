//! What all commands have in common: flags anywhere, completions, manual pages, a configuration to begin with, names that were meant.

use std::process::Output;

use syncline_testing::process::{Node, run};

const FILE: &str = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:9/{key}\"\n\
                    [[jobs]]\nname = \"report\"\ncron = \"0 0 1 1 *\"\nrun = { command = [\"true\"] }\n";

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn cn_23_shells_get_completions_and_man_gets_pages_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (text, _) = said(&run(folder.path(), &["completions", shell], &[]));
        for command in ["queue", "state", "scan"] {
            assert!(text.contains(command), "{shell} does not complete {command}");
        }
    }
    let written = run(folder.path(), &["man", "pages/man1"], &[]);
    assert!(written.status.success(), "{written:?}");
    for name in ["syncline.1", "syncline-queue-add.1", "syncline-scan.1"] {
        let page = std::fs::read_to_string(folder.path().join("pages/man1").join(name)).unwrap();
        assert!(page.contains(".SH") && page.contains("syncline"), "{name}: {page}");
    }
}

#[test]
fn cn_23_the_first_configuration_is_taken_as_it_is_and_with_everything_in_it_switched_on() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &["config", "init"], &[]).status.success());
    let again = run(folder.path(), &["config", "init"], &[]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    let file = folder.path().join("syncline.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(run(folder.path(), &["serve", "--check"], &[]).status.success());
    let on: String = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(on.contains("\n[[queues]]") && on.contains("\nnode = "), "{on}");
    std::fs::write(&file, on).unwrap();
    let shown = run(folder.path(), &["config", "show"], &[]);
    let (text, error) = said(&shown);
    assert!(shown.status.success() && text.contains("name = \"lookups\""), "{text}{error}");
    assert!(!text.contains("what-openssl"), "the token is no part of it: {text}");
}

#[test]
fn cn_23_a_wrong_name_is_answered_with_the_right_one_and_failures_go_to_standard_error() {
    let node = Node::start(FILE);
    let folder = tempfile::tempdir().unwrap();
    let url = node.url();
    let ask = |words: &[&str]| said(&run(folder.path(), &[&["--url", &url][..], words].concat(), &[]));
    let (out, error) = ask(&["queue", "show", "wrods"]);
    assert!(out.is_empty() && error.contains("did you mean \"words\"?"), "{out}{error}");
    let (out, error) = ask(&["jobs", "run", "reprot"]);
    assert!(out.is_empty() && error.contains("did you mean \"report\"?"), "{out}{error}");
    let (out, error) = ask(&["kv", "get", "nosuch"]);
    assert_eq!((out.as_str(), error.as_str()), ("", "there is no such key\n"));
    let (out, error) = ask(&["-q", "kv", "get", "nosuch"]);
    assert_eq!((out.as_str(), error.as_str()), ("", ""));
    let (_, error) = ask(&["kv", "list", "-v"]);
    assert!(error.starts_with("GET http://") && error.contains("200 OK in "), "{error}");
}

/// `lock run` had seconds, `queue results` whole ones up to 60, `queue add` none, and `jobs run` a flag for the opposite.
#[test]
fn cn_23_every_command_that_waits_takes_one_flag_with_a_duration() {
    let file = "[[queues]]\nname = \"slow\"\nworkers = true\n[[jobs]]\nname = \"long\"\ncron = \"0 0 1 1 *\"\nrun = { command = [\"sleep\", \"600\"] }\n";
    let node = Node::start(file);
    let folder = tempfile::tempdir().unwrap();
    let url = node.url();
    let ask = |words: &[&str]| {
        let output = run(folder.path(), &[&["--url", &url][..], words].concat(), &[]);
        (output.status.code().unwrap(), said(&output))
    };
    let (code, (_, error)) = ask(&["queue", "add", "slow", "tide", "--wait", "50ms"]);
    assert_eq!(
        (code, error.as_str()),
        (1, "error: 1 key was without a result when the time to wait was over\n")
    );
    let (code, (out, _)) = ask(&["queue", "results", "slow", "tide", "--wait", "0.05"]);
    assert!(code == 1 && out.contains("tide  waiting"), "{code} {out}");
    let (code, (out, _)) = ask(&["jobs", "run", "long", "--wait", "0"]);
    assert!(code == 0 && out.contains("running"), "{code} {out}");
    assert_eq!(ask(&["jobs", "cancel", "long"]).0, 0);
    syncline_sim::until_blocking("the run to end", || {
        !node.get("/api/jobs")["jobs"][0]["running"].as_bool().unwrap()
    });
    let (code, (out, _)) = ask(&["jobs", "run", "long", "--wait", "50ms", "--json"]);
    assert!(code == 1 && out.contains("\"state\":\"running\""), "{code} {out}");
    for words in [
        &["queue", "add", "slow", "a", "--wait", "soon"][..],
        &["queue", "results", "slow", "a", "--wait", "soon"],
        &["jobs", "run", "long", "--wait", "soon"],
        &["lock", "run", "it", "--wait", "soon", "--", "true"],
    ] {
        let (code, (_, error)) = ask(words);
        assert!(code == 2 && error.contains("write it as 500ms, 30s, 5m, 1h, or forever"), "{code} {error}");
    }
}

#[test]
fn cn_21_cn_23_state_and_entities_are_read_and_written_from_a_terminal() {
    let node = Node::start("[[entities]]\nname = \"note\"\nsettings = true\n");
    let folder = tempfile::tempdir().unwrap();
    let url = node.url();
    let ask = |words: &[&str]| run(folder.path(), &[words, &["--url", &url]].concat(), &[]);
    for (words, expected) in [
        (&["state", "put", "cart", "milk", "{\"n\":1}"][..], "stored\n"),
        (&["state", "get", "cart", "milk"][..], "{\"n\":1}\n"),
        (&["state", "remove", "cart", "milk"][..], "removed\n"),
        (&["state", "delete", "cart"][..], "removed\n"),
        (&["entities", "put", "note", "n-1", "{\"text\":\"hi\"}"][..], "stored\n"),
        (&["entities", "get", "note", "n-1"][..], "{\"text\":\"hi\"}\n"),
        (&["kv", "put", "greeting", "hello"][..], "stored\n"),
        (&["kv", "del", "greeting"][..], "removed\n"),
    ] {
        let output = ask(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert_eq!(said(&output).0, expected, "{words:?}");
    }
    assert_eq!(ask(&["state", "remove", "cart", "milk"]).status.code(), Some(1));
    assert_eq!(ask(&["state", "put", "cart", "milk", "{"]).status.code(), Some(2));
}
