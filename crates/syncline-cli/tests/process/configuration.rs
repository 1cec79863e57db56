//! What the program says to settings that cannot be.

use crate::program::run;

#[test]
fn beyond_loopback_without_a_token_a_node_refuses_with_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["serve"], &[("SYNCLINE_LISTEN", "0.0.0.0:0")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("0.0.0.0:0") && said.contains("SYNCLINE_TOKEN"), "{said}");
    assert!(!folder.path().join("data").exists(), "nothing was touched");
}

#[test]
fn a_mistake_in_the_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("syncline.toml"),
        "# settings\nlisten = \"127.0.0.1:0\"\ntokn = \"x\"\n",
    )
    .unwrap();
    for command in ["serve", "doctor"] {
        let output = run(folder.path(), &[command], &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("syncline.toml:3:1: tokn: unknown key; did you mean `token`?"), "{said}");
    }
}

#[test]
fn check_prints_what_all_layers_come_to_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("syncline.toml"),
        "listen = \"127.0.0.1:1\"\n[log]\nlevel = \"warn\"\n",
    )
    .unwrap();
    let environment = [("SYNCLINE_LISTEN", "127.0.0.1:2"), ("SYNCLINE_TOKEN", "canary-token")];
    let output = run(folder.path(), &["serve", "--check", "--data", "elsewhere"], &environment);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    for line in [
        "# listen comes from: environment SYNCLINE_LISTEN",
        "listen = \"127.0.0.1:2\"",
        "data = \"elsewhere\"",
        "database_url = \"sqlite:elsewhere/syncline.db\"",
        "token = \"[redacted]\"",
        "level = \"warn\"",
        "name = \"picture\"",
    ] {
        assert!(printed.lines().any(|found| found == line), "{line}\n{printed}");
    }
    assert!(!printed.contains("canary"), "{printed}");
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn wrong_use_is_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["srve"][..], &["serve", "--lisen", "x"], &["kv"], &["kv", "get"], &[]] {
        assert_eq!(run(folder.path(), arguments, &[]).status.code(), Some(2), "{arguments:?}");
    }
    let missing = run(folder.path(), &["serve", "--config", "none.toml"], &[]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn help_teaches_and_needs_no_node() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["viewers", "--help"],
        &["kv", "--help"],
        &["queue", "--help"],
        &["scan", "--help"],
        &["demo", "--help"],
        &["doctor", "--help"],
    ] {
        let output = run(folder.path(), arguments, &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("Examples:"), "{arguments:?}: {text}");
        assert!(!text.contains('\x1b'), "no colours where no terminal is");
    }
}
