//! `serversync` as a process: what it says to settings that cannot be.

use std::process::Output;

use syncline_testing::process::serversync;

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> (Output, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let output = serversync(folder.path(), arguments).envs(environment.iter().copied()).output().unwrap();
    let left = std::fs::read_dir(folder.path()).unwrap();
    (output, left.map(|file| file.unwrap().file_name().into_string().unwrap()).collect())
}

#[test]
fn ss_04_missing_or_bad_values_are_one_clear_line_and_exit_code_2_and_nothing_is_started() {
    let url = ("DATABASE_URL", "sqlite:box.db");
    let base = ("FRONTEND_BASE_URL", "http://127.0.0.1:9");
    let cases: [(&[(&str, &str)], &str); 7] = [
        (&[], "DATABASE_URL: is not set"),
        (&[url], "FRONTEND_BASE_URL: is not set"),
        (&[base], "DATABASE_URL: is not set"),
        (
            &[url, ("FRONTEND_BASE_URL", "http://frontend.example")],
            "FRONTEND_BASE_URL: must begin with https://",
        ),
        (&[url, ("FRONTEND_BASE_URL", "https://a:b@frontend.example")], "without credentials"),
        (&[url, base, ("SYNC_BATCH_SIZE", "0")], "SYNC_BATCH_SIZE: expected a whole number from 1 to 1000"),
        (&[url, base, ("SYNC_POLL_INTERVAL_SEC", "soon")], "SYNC_POLL_INTERVAL_SEC: expected a whole number"),
    ];
    for (environment, expected) in cases {
        let (output, left) = run(&[], environment);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{expected}: {said}");
        assert!(output.stdout.is_empty() && left.is_empty(), "{left:?}");
    }
    assert_eq!(run(&["--once", "--drain"], &[url, base]).0.status.code(), Some(2));
}

#[test]
fn ss_04_help_teaches_and_check_shows_the_settings_without_secrets() {
    let (output, _) = run(&["--help"], &[]);
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{help}");
    for word in ["Examples:", "DATABASE_URL", "FRONTEND_BASE_URL", "SYNC_BATCH_SIZE", "--drain", "Exit codes"]
    {
        assert!(help.contains(word), "{word}: {help}");
    }
    let environment = [
        ("DATABASE_URL", "postgres://ann:canary@127.0.0.1:9/box"),
        ("FRONTEND_BASE_URL", "https://frontend.example"),
        ("SYNCLINE_TOKEN", "canary"),
        ("SYNC_BATCH_SIZE", "7"),
    ];
    let (output, left) = run(&["--check"], &environment);
    let printed = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "nobody answers there: {said}");
    assert!(left.is_empty() && !said.contains("canary"), "{said}");
    assert!(printed.contains("SYNC_BATCH_SIZE=7") && printed.contains("SYNC_TIMEOUT_SEC=30"), "{printed}");
    assert!(!printed.contains("canary"), "{printed}");
}
