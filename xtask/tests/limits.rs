//! Keeps the list of limits true: every test it names is in the tree, and no body of a stranger is read without a bound.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file beneath a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_limit_names_a_test_that_exists() {
    let mut tests = HashSet::new();
    for source in ["crates", "apps"].iter().flat_map(|folder| sources(&root().join(folder))) {
        for line in fs::read_to_string(source).unwrap().lines() {
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
            tests.extend(name.map(str::to_owned));
        }
    }
    let text = fs::read_to_string(root().join("docs/limits.md")).unwrap();
    let mut rows = 0;
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "what, limit, default, at the limit, test: {row}");
        let test = cells[4].trim_matches('`');
        assert!(tests.contains(test), "docs/limits.md names {test}, and there is no such test");
        rows += 1;
    }
    assert!(rows > 40, "only {rows} limits were found");
}

/// An answer that was read whole for 300 characters of it took two gigabytes. `outbound` and the client of the commands read
/// with a bound; nobody else reads at all.
#[test]
fn nobody_reads_the_whole_body_of_an_answer_without_a_bound() {
    let whole = [".text().await", ".bytes().await", ".json().await", ".json::<"];
    let mut seen = 0;
    let packages = [
        "crates/syncline-node",
        "crates/syncline-cli",
        "crates/syncline-client",
        "crates/syncline-store",
        "apps/bookshelf",
        "apps/bookshelf/books",
        "apps/calls",
        "apps/gallery",
        "apps/stand-ins",
    ];
    for package in packages {
        for source in sources(&root().join(package).join("src")) {
            let text = fs::read_to_string(&source).unwrap();
            seen += usize::from(text.contains("bytes_stream()"));
            for (number, line) in text.lines().enumerate() {
                // Parts of a form have limits of their own.
                let part = line.contains("part.text().await");
                let bad = whole.iter().any(|call| line.contains(call)) && !part;
                assert!(!bad, "{}:{}: read it with a bound: {line}", source.display(), number + 1);
            }
        }
    }
    assert!(seen >= 3, "only {seen} files read answers: were they found?");
}
