//! Holds the published crates to what crates.io and docs.rs need: metadata, a tested README, and nothing from outside their
//! own folder.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn hs_12_published_crates_say_what_they_are() {
    let published = published();
    assert!(published.contains_key("syncline-core"), "{published:?}");
    for (name, folder) in &published {
        let manifest = read(&folder.join("Cargo.toml"));
        let documentation = format!("documentation = \"https://docs.rs/{name}\"");
        for line in
            ["description = ", "readme = ", "keywords = ", "categories = ", "[package.metadata.docs.rs]"]
        {
            assert!(manifest.contains(line), "{name}: no {line} in its manifest");
        }
        assert!(manifest.contains(&documentation), "{name}: no {documentation}");
        let readme = read(&folder.join("README.md"));
        assert!(readme.contains("```rust"), "{name}: its README has no example");
        let lib = read(&folder.join("src/lib.rs"));
        assert!(lib.contains("include_str!(\"../README.md\")"), "{name}: its README is not tested");
    }
}

/// A crate that is not published has no version here: so Cargo leaves it out of the tests' dependencies of one that is, and
/// refuses it among the others.
#[test]
fn hs_12_published_crates_depend_on_published_ones_of_this_version() {
    let workspace = read(&root().join("Cargo.toml"));
    let version = workspace.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    let published = published();
    for line in workspace.lines().filter(|line| line.starts_with("syncline-")) {
        let name = line.split(' ').next().unwrap();
        let has_version = line.contains(&format!("version = {version}"));
        assert_eq!(
            has_version,
            published.contains_key(name),
            "{line}: published with the workspace's version?"
        );
    }
    for (name, folder) in &published {
        let manifest = read(&folder.join("Cargo.toml"));
        let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]"));
        for line in section.unwrap_or_default().lines().filter(|line| line.starts_with("syncline-")) {
            let used = line.split([' ', '.']).next().unwrap();
            assert!(published.contains_key(used), "{name} depends on {used}, which is not published");
        }
    }
}

/// What lies outside a crate's folder is not in its package, and the crate would not compile from there.
#[test]
fn hs_12_published_crates_include_nothing_from_outside() {
    for (name, folder) in published() {
        let mut sources = vec![folder.join("build.rs")];
        collect(&folder.join("src"), &mut sources);
        for source in sources.iter().filter(|path| path.exists()) {
            let text = read(source);
            let includes = text.lines().filter(|line| line.contains("include_") || line.contains("#[folder"));
            for line in includes {
                let depth = source.strip_prefix(&folder).unwrap().components().count() - 1;
                let outside = "../".repeat(depth + 1);
                let from_manifest = line.contains("CARGO_MANIFEST_DIR") && line.contains("../");
                assert!(
                    !line.contains(&outside) && !from_manifest,
                    "{name}: {} includes {line}",
                    source.display()
                );
            }
        }
    }
    for folder in ["console", "pkg"] {
        let link = root().join("crates/syncline-node/web").join(folder);
        assert!(link.is_symlink(), "{} leads to what the node embeds", link.display());
    }
}

/// The crates that are published, by name, each with its folder.
fn published() -> BTreeMap<String, PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let published = crates.filter(|folder| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line == "publish = true")
    });
    published.map(|folder| (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder)).collect()
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            sources.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
