//! What the program says to settings that cannot be.

use syncline_testing::process::run;

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
    ] {
        assert!(printed.lines().any(|found| found == line), "{line}\n{printed}");
    }
    assert!(!printed.contains("canary"), "{printed}");
    assert!(!folder.path().join("elsewhere").exists());
}

/// `/etc/syncline/syncline.toml` was not read unless a variable named it: an operator who put it there was ignored.
#[test]
fn the_file_is_found_where_the_service_manager_says_unless_there_is_one_here() {
    let (here, etc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let listen = |folder: &std::path::Path, port: u16| {
        std::fs::write(folder.join("syncline.toml"), format!("listen = \"127.0.0.1:{port}\"\n")).unwrap();
    };
    let shown = |variable: &str| {
        let environment = [(variable, etc.path().to_str().unwrap())];
        let output = run(here.path(), &["serve", "--check"], &environment);
        String::from_utf8(output.stdout).unwrap()
    };
    listen(etc.path(), 4);
    for variable in ["CONFIGURATION_DIRECTORY", "CREDENTIALS_DIRECTORY"] {
        assert!(shown(variable).contains("listen = \"127.0.0.1:4\""), "{variable}");
    }
    listen(here.path(), 5);
    assert!(shown("CONFIGURATION_DIRECTORY").contains("listen = \"127.0.0.1:5\""));
}

#[test]
fn a_file_with_a_secret_that_everybody_can_read_is_pointed_out() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("syncline.toml");
    let said = |text: &str, mode: u32| {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let check = run(folder.path(), &["serve", "--check"], &[]);
        let doctor = run(folder.path(), &["doctor", "--listen", "127.0.0.1:0"], &[]);
        assert!(check.status.success(), "{check:?}");
        let warned = |text: &[u8]| String::from_utf8_lossy(text).contains("everybody on this machine");
        (warned(&check.stderr), warned(&doctor.stdout))
    };
    assert_eq!(said("token = \"canary-0123456789abcdef\"\n", 0o644), (true, true));
    assert_eq!(said("token = \"canary-0123456789abcdef\"\n", 0o640), (false, false));
    assert_eq!(said("jobs = []\n", 0o644), (false, false));
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
