//! Holds the specification and the tests to each other: every id that a test carries is a row in `docs/spec/`, and every row is
//! carried by a test, or stands in the list of what is not finished.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What ids begin with, one for each document.
const SYSTEMS: [&str; 11] = ["HS", "ST", "LK", "SS", "QU", "BK", "VW", "AC", "CN", "RE", "OP"];

#[test]
fn hs_10_every_id_in_a_test_is_a_row_and_every_row_is_tested_or_planned() {
    let rows = rows();
    let planned: BTreeSet<String> = ids(&read("docs/spec/README.md")).collect();
    let tested = tested();
    let unknown: Vec<_> = tested.iter().filter(|(id, _)| !rows.contains(*id)).collect();
    assert!(unknown.is_empty(), "no row in docs/spec/ has these ids: {unknown:?}");
    let untested: BTreeSet<&String> = rows.iter().filter(|row| !tested.contains_key(*row)).collect();
    let forgotten: Vec<_> = untested.iter().filter(|row| !planned.contains(**row)).collect();
    assert!(forgotten.is_empty(), "neither tested nor planned in docs/spec/README.md: {forgotten:?}");
    let strange: Vec<_> = planned.iter().filter(|id| !rows.contains(*id)).collect();
    assert!(strange.is_empty(), "planned in docs/spec/README.md, but no row: {strange:?}");
}

/// The ids of all rows.
fn rows() -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for document in tracked(&["docs/spec/*.md"]).iter().filter(|path| !path.ends_with("README.md")) {
        let text = fs::read_to_string(document).unwrap();
        for row in text.lines().filter_map(|line| line.strip_prefix("| ")) {
            if let Some(id) = ids(row.split(' ').next().unwrap()).next() {
                assert!(rows.insert(id.clone()), "{id} stands twice in docs/spec/");
            }
        }
    }
    assert!(rows.len() > 150, "only {} rows were found", rows.len());
    rows
}

/// The ids in names of tests, which are written `st_20_…`, each with one file that has it.
fn tested() -> BTreeMap<String, PathBuf> {
    let mut tested = BTreeMap::new();
    for source in tracked(&["*.rs", "*.js", "*.mjs", "*.ts"]) {
        let text = fs::read_to_string(&source).unwrap();
        for word in text.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_') {
            let id = word.get(..5).map(|start| start.to_uppercase().replace('_', "-"));
            if word.len() == 5 || word.as_bytes().get(5) == Some(&b'_') {
                for id in id.iter().flat_map(|id| ids(id)) {
                    tested.entry(id).or_insert_with(|| source.clone());
                }
            }
        }
    }
    tested
}

/// Everything in `text` that looks like an id.
fn ids(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter_map(|word| {
        let mut parts = word.split('-');
        let (system, number) = (parts.next()?, parts.next()?);
        let known =
            SYSTEMS.contains(&system) && number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit());
        known.then(|| format!("{system}-{number}"))
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn tracked(patterns: &[&str]) -> Vec<PathBuf> {
    let list = Command::new("git").arg("ls-files").args(patterns).current_dir(root()).output().unwrap();
    String::from_utf8(list.stdout)
        .unwrap()
        .lines()
        .map(|path| root().join(path))
        .filter(|path| path.exists())
        .collect()
}
