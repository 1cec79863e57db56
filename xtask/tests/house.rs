//! Keeps what the documents say about the house true, and the house as its style asks.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file. A longer one hides a second concept.
const LINES_MAX: usize = 600;

#[test]
fn architecture_lists_every_crate_with_the_crates_it_knows() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `syncline-")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let knows =
            cells[3].split(", ").filter(|name| *name != "nothing").map(|name| format!("syncline-{name}"));
        listed.insert(cells[1].trim_matches('`').to_owned(), knows.collect());
    }
    let real: BTreeMap<_, _> =
        packages().into_iter().map(|(name, folder)| (name, product_dependencies(&folder))).collect();
    assert_eq!(listed, real, "the table in ARCHITECTURE.md and the manifests differ");
}

#[test]
fn readme_maps_every_crate_and_folder() {
    let text = read(&root().join("README.md"));
    for folder in packages().values().filter(|folder| folder.matches('/').count() == 1) {
        assert!(text.contains(&format!("`{folder}`")), "README.md does not map {folder}");
    }
    for folder in ["examples/", "web/", "bench/", "deploy/", "docs/", "xtask/"] {
        assert!(text.contains(&format!("`{folder}`")), "README.md does not map {folder}");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let documents = tracked(&["*.md"]);
    assert!(documents.len() >= 8, "too few documents found: {documents:?}");
    let mut checked = 0;
    for document in &documents {
        let text = read(document);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            let place = document.parent().unwrap().join(path);
            assert!(place.exists(), "{}: {target} leads nowhere", document.display());
            checked += 1;
        }
    }
    assert!(checked >= 8, "only {checked} links were checked");
}

#[test]
fn source_files_say_what_they_are_and_hold_one_concept() {
    let sources = tracked(&["*.rs"]);
    assert!(sources.len() >= 50, "too few sources found: {}", sources.len());
    for source in sources {
        let text = read(&source);
        assert!(text.starts_with("//!"), "{} does not open with //!", source.display());
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", source.display());
    }
    for script in tracked(&["*.js", "*.mjs", "*.ts", "*.css"]) {
        let lines = read(&script).lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", script.display());
    }
}

/// The frame of a node: what knows no part by name.
const FRAME: [&str; 9] = [
    "crates/syncline-node/src/node.rs",
    "crates/syncline-node/src/http.rs",
    "crates/syncline-node/src/http/",
    "crates/syncline-node/src/config.rs",
    "crates/syncline-node/src/config/",
    "crates/syncline-node/src/events.rs",
    "crates/syncline-node/src/part.rs",
    "crates/syncline-node/src/part/",
    "crates/syncline-store/src/migration",
];

/// A part of which the frame knew the name could not be left out, and a stranger's could not be put in.
#[test]
fn hs_02_the_frame_names_no_part() {
    let systems = ["lock", "queue", "viewer", "state", "inbox", "outbox", "schedule"];
    let mut seen = 0;
    for source in tracked(&["crates/syncline-node/src/**/*.rs", "crates/syncline-node/src/*.rs"]) {
        let path = source.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if !FRAME.iter().any(|part| path.starts_with(part)) || path.ends_with("tests.rs") {
            continue;
        }
        seen += 1;
        let text = read(&source);
        let product = text.split("#[cfg(test)]").next().unwrap();
        for system in systems {
            for use_of in [format!("crate::{system}::"), format!("mod {system};"), format!("/api/{system}")] {
                assert!(!product.contains(&use_of), "{path} names a part: {use_of}");
            }
        }
    }
    assert!(seen > 15, "only {seen} files of the frame were found");
}

/// Words of applications, and where in the platform they still stand: each with the reason. The list only gets shorter.
const APPLICATION_WORDS: [&str; 11] = [
    "isbn",
    "bookshelf",
    "shelf",
    "recording",
    "call_log",
    "ivr",
    "gallery",
    "picture",
    "theme_token",
    "rakuten",
    "fetchndl",
];
const STILL_THERE: &[(&str, &str)] = &[
    ("crates/syncline-cli/src/parts.rs", "the one list of apps; no other file of the programs may name them"),
    ("crates/syncline-cli/tests/all_parts.rs", "walks over a node with everything that the program has"),
    ("crates/syncline-cli/tests/process/parts.rs", "an app that is off leaves nothing behind"),
    ("crates/syncline-store/src/parts.rs", "steps that rename what earlier builds called otherwise"),
    ("crates/syncline-store/tests/fixtures/", "a database of an earlier build"),
    ("crates/syncline-store/tests/conformance/guest.rs", "takes over that database"),
];

#[test]
fn hs_01_the_platform_does_not_know_the_applications() {
    let mut speaking = Vec::new();
    for source in tracked(&["crates/*.rs", "crates/*.sql", "crates/*/js/*"]) {
        let path = source.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let text = read(&source).to_lowercase();
        let line = text.lines().find(|line| APPLICATION_WORDS.iter().any(|word| line.contains(word)));
        speaking.extend(line.map(|line| (path, line.to_owned())));
    }
    for (path, line) in &speaking {
        let allowed = STILL_THERE.iter().any(|(place, _)| path.starts_with(place));
        assert!(allowed, "{path} speaks of an application: {line}");
    }
    for (place, reason) in STILL_THERE {
        let needed = speaking.iter().any(|(path, _)| path.starts_with(place));
        assert!(needed, "{place} speaks of no application any more, so it needs no exception: {reason}");
    }
}

/// An app that the platform depended on could not be left out.
#[test]
fn hs_01_only_the_programs_depend_on_apps() {
    let packages = packages();
    let is_app = |name: &String| packages.get(name).is_some_and(|folder| folder.starts_with("apps/"));
    for (name, folder) in packages.iter().filter(|(_, folder)| folder.starts_with("crates/")) {
        let apps: Vec<_> = product_dependencies(folder).into_iter().filter(is_app).collect();
        assert!(apps.is_empty() || name == "syncline-cli", "{name} depends on {apps:?}");
    }
}

/// Private names for roles that have a name everywhere else: the word, and the one to take instead.
const FABLES: [(&str, &str); 28] = [
    ("Air", "a name of what is shared, such as ReleaseNotices"),
    ("Bell", "Waiter"),
    ("Board", "a feed, such as a status feed"),
    ("Carries", "a connection, such as OutboxConnection"),
    ("Clerk", "Worker or Writer"),
    ("Crew", "RunControl"),
    ("Desk", "a registry, such as QueueRegistry"),
    ("Ears", "waiters, such as ReleaseWaiters"),
    ("Express", "AfterHead"),
    ("Fly", "send"),
    ("Grip", "HeldLease"),
    ("Hear", "listen"),
    ("Landed", "an outcome, such as BatchOutcome"),
    ("Leaver", "an update, such as KeyUpdate"),
    ("Newcomers", "a rate limit, such as AddressRate"),
    ("Occasion", "Firing"),
    ("Pledge", "a report, such as OwnReport"),
    ("Rationed", "LogThrottle"),
    ("Roster", "a table, such as SessionTable"),
    ("Seat", "a handle, such as JobHandle"),
    ("Sentence", "a row, such as SettleRow"),
    ("Spot", "Position"),
    ("Surroundings", "dependencies, such as SchedulerDeps"),
    ("Talk", "Unacked"),
    ("Turnstile", "a guard, such as PacerGuard"),
    ("Untold", "PendingNotices"),
    ("Voice", "a broadcast, such as ChangeBroadcast"),
    ("Wish", "an acquisition, or its options"),
];

/// Whoever looks for a registry or a waiter finds it by that word, as a type, a function or a file.
#[test]
fn hs_09_roles_have_the_industrys_words() {
    let sources = ["crates/*/src/*.rs", "crates/*/js/*.js", "apps/*/src/*.rs", "apps/*/pages/*.js"];
    let sources = tracked(&sources);
    assert!(sources.len() > 300, "only {} sources were found", sources.len());
    for source in sources {
        let path = source.strip_prefix(root()).unwrap().display().to_string();
        let text = read(&source);
        let names = declared(&text);
        let file = source.file_stem().unwrap().to_str().unwrap();
        // An app may know people who have a voice.
        let words = FABLES.iter().filter(|(word, _)| *word != "Voice" || path.starts_with("crates/"));
        for (word, better) in words {
            let snake = word.to_lowercase();
            let is_named = file.split(['-', '_']).any(|part| part == snake);
            let is_declared = names.contains(word) || names.contains(snake.as_str());
            assert!(!is_named && !is_declared, "{path} has something called {word}; better is {better}");
        }
    }
}

/// The names of types, modules, functions and classes that a text declares.
fn declared(text: &str) -> BTreeSet<&str> {
    let keywords = ["struct", "enum", "trait", "type", "mod", "fn", "class", "function"];
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        names.extend(words.windows(2).filter(|pair| keywords.contains(&pair[0])).map(|pair| pair[1]));
    }
    names
}

/// What is done in one place only: what it is, how it can be told, and the files that may have it.
const ONCE: [(&str, &[&str], &str); 6] = [
    (
        "a date of `Retry-After` is read",
        &["\"Jan\"", "httpdate::parse"],
        "crates/syncline-core/src/queue/retry_after.rs",
    ),
    (
        "the header `Retry-After` is taken from a reply",
        &["text(header::RETRY_AFTER)"],
        "crates/syncline-node/src/outbound.rs",
    ),
    ("a foreign text is cut", &[".chars().take("], "crates/syncline-core/src/text.rs"),
    ("delays grow", &["pub struct Policy"], "crates/syncline-core/src/retry.rs"),
    (
        "a test waits until something holds",
        &["fn until(", "fn until_some", "fn until_blocking", "fn eventually"],
        "crates/syncline-sim/src/wait.rs",
    ),
    ("heartbeats have rules of their own", &["\"/api/viewer\""], "crates/syncline-node/src/viewer/http.rs"),
];

/// Two readers of `Retry-After` disagreed, and four functions cut a foreign text at three lengths.
#[test]
fn hs_11_what_everybody_needs_is_written_once() {
    let is_of_tests = |path: &str| {
        path.contains("/tests/") || path.ends_with("tests.rs") || path.starts_with("crates/syncline-testing/")
    };
    for (what, patterns, place) in ONCE {
        let waits = what.starts_with("a test");
        let mut found = 0;
        for source in tracked(&["crates/*.rs", "apps/*.rs", "examples/*.rs"]) {
            let path = source.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            let text = read(&source);
            // What tests do is their own business, except waiting.
            let product = text.split("#[cfg(test)]").next().unwrap();
            let text = if waits { text.as_str() } else { product };
            if (is_of_tests(&path) && !waits) || !patterns.iter().any(|pattern| text.contains(pattern)) {
                continue;
            }
            assert_eq!(path, place, "it has one place where {what}");
            found += 1;
        }
        assert_eq!(found, 1, "{place} is where {what}");
    }
}

/// Two types of one name become one schema in the description of the API, and the one silently replaces the other.
#[test]
fn schemas_of_the_api_have_names_of_their_own() {
    let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
    for source in tracked(&[
        "crates/syncline-node/src/**/*.rs",
        "crates/syncline-node/src/*.rs",
        "apps/*/src/*.rs",
        "apps/*/src/**/*.rs",
    ]) {
        let text = read(&source);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if !(line.trim_start().starts_with("#[derive(") && line.contains("ToSchema")) {
                continue;
            }
            // The name that its description has, where it is not its own.
            let mut given = None;
            let item = loop {
                let line = lines.next().unwrap();
                if let Some((_, rest)) = line.split_once("schema(as = ") {
                    given = rest.split([',', ')']).next();
                }
                if line.contains("struct ") || line.contains("enum ") {
                    break line;
                }
            };
            let words: Vec<&str> = item.split([' ', '<', '(', '{', ';']).collect();
            let at = words.iter().position(|word| matches!(*word, "struct" | "enum")).unwrap();
            let name = given.unwrap_or(words[at + 1]);
            if let Some(other) = seen.insert(name.to_owned(), source.clone()) {
                panic!("{name} is a schema in {} and in {}", other.display(), source.display());
            }
        }
    }
    assert!(seen.len() > 40, "only {} schemas were found", seen.len());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Our packages by name, each with its folder: the platform's and the apps'.
fn packages() -> BTreeMap<String, String> {
    let manifests = tracked(&["crates/*/Cargo.toml", "apps/*/Cargo.toml", "apps/*/*/Cargo.toml"]);
    let found = manifests.into_iter().map(|manifest| {
        let text = read(&manifest);
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let folder = manifest.parent().unwrap().strip_prefix(root()).unwrap();
        (name.unwrap().to_owned(), folder.to_str().unwrap().to_owned())
    });
    found.collect()
}

/// The crates of ours under `[dependencies]`: what tests use is their business.
fn product_dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&root().join(folder).join("Cargo.toml"));
    let section =
        manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split([' ', '.', '=']).next());
    names.filter(|name| name.starts_with("syncline-")).map(str::to_owned).collect()
}

/// Files in git that match, as they are in the working tree.
fn tracked(patterns: &[&str]) -> Vec<PathBuf> {
    let output = Command::new("git").arg("ls-files").args(patterns).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "git ls-files failed");
    let listed = String::from_utf8(output.stdout).unwrap();
    listed.lines().map(|line| root().join(line)).filter(|path| path.is_file()).collect()
}
