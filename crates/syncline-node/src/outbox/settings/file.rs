//! The configuration file of `serversync`: `[[files]]`, a table for each kind of file.
//!
//! Guarantees that every kind it answers with passes [`FileKind::check`] and that no type is declared twice. A key that means
//! nothing is an error with its line.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::super::kind::FileKind;
use crate::config::{Place, Problem};

/// Largest configuration file: beyond this it is some other file.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// Most kinds of files.
const KINDS_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    files: Vec<FileKind>,
}

/// The kinds that a file declares, or everything that is wrong with it.
pub(super) fn read(path: &Path) -> Result<Vec<FileKind>, Vec<Problem>> {
    let unreadable = |what: String| {
        let what = format!("cannot read {}: {what}", path.display());
        let place = Place::Environment("SYNC_CONFIG");
        vec![Problem { place, key: String::new(), what, hint: None }]
    };
    let size = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_MAX_BYTES {
        return Err(unreadable(format!("it has more than {FILE_MAX_BYTES} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Vec<FileKind>, Vec<Problem>> {
    let problem = |(line, column), key: String, what: String| {
        let place = Place::File { path: path.to_owned(), line, column };
        Problem { place, key, what, hint: None }
    };
    let document: Document = toml::from_str(text).map_err(|error| {
        let at = position(text, error.span().map_or(0, |span| span.start));
        vec![problem(at, String::new(), error.message().replace('\n', "; "))]
    })?;
    let tables = opening_lines(text);
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    for (n, kind) in document.files.iter().enumerate() {
        let at = (tables.get(n).copied().unwrap_or(1), 1);
        let mut note =
            |key: &str, what: String| problems.push(problem(at, format!("files[{n}].{key}"), what));
        for (key, what) in kind.check().err().unwrap_or_default() {
            note(key, what);
        }
        if !known.insert(&kind.entity_type) {
            note("entity_type", format!("{:?} is declared twice", kind.entity_type));
        }
        if n == KINDS_MAX {
            note("entity_type", format!("at most {KINDS_MAX} kinds of files are allowed"));
        }
    }
    if problems.is_empty() { Ok(document.files) } else { Err(problems) }
}

/// Line and column of a place in a text, counted from one.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1)
}

/// The lines on which `[[files]]` stands.
fn opening_lines(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("[[files]]"));
    lines.map(|(n, _)| n + 1).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::super::kind::AfterReceipt;
    use super::*;

    fn problems(text: &str) -> String {
        let found = parse(Path::new("serversync.toml"), text).unwrap_err();
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn ss_36_a_table_declares_a_kind_and_what_it_leaves_out_has_a_default() {
        let text = r#"
            [[files]]
            entity_type = "photo_file"
            folder = "/srv/photos"
            file = "{photoId}.jpg"
            upload_path = "/api/photos"
        "#;
        let kinds = parse(Path::new("x"), text).unwrap();
        let file = super::super::super::Template::parse("{photoId}.jpg").unwrap();
        assert_eq!(kinds, [FileKind::new("photo_file", PathBuf::from("/srv/photos"), file, "/api/photos")]);
        assert_eq!(
            kinds[0].after_receipt,
            AfterReceipt::Keep,
            "nothing is removed unless the operator says so"
        );
        assert_eq!(parse(Path::new("x"), "").unwrap(), []);
    }

    #[test]
    fn ss_36_every_mistake_is_one_line_with_its_place() {
        let kind = "entity_type = \"a_file\"\nfolder = \"a\"\nfile = \"{entityId}\"\nupload_path = \"/a\"\n";
        let cases = [
            ("[[files]]\nentity_type = 7\n".to_owned(), "serversync.toml:2:15: "),
            (format!("[[files]]\n{kind}fle = 1\n"), "unknown field `fle`"),
            ("[[files]]\nentity_type = \"a_file\"\n".to_owned(), "missing field `folder`"),
            (format!("[[files]]\n{}", kind.replace("{entityId}", "{entityId")), "brace"),
            (format!("[[files]]\n{kind}after_receipt = \"burn\"\n"), "unknown variant `burn`"),
            (
                format!("# first\n[[files]]\n{}", kind.replace("a_file", "photo")),
                "serversync.toml:2:1: files[0].entity_type: expected",
            ),
            (
                format!("[[files]]\n{kind}[[files]]\n{kind}"),
                "serversync.toml:6:1: files[1].entity_type: \"a_file\" is declared twice",
            ),
            ("[files".to_owned(), "serversync.toml:1:"),
            (
                (0..=KINDS_MAX)
                    .map(|n| format!("[[files]]\n{}", kind.replace("a_file", &format!("a{n}_file"))))
                    .collect(),
                "at most 64 kinds of files are allowed",
            ),
        ];
        for (text, expected) in cases {
            let found = problems(&text);
            assert!(found.contains(expected) && !found.contains('\n'), "{expected}: {found}");
        }
    }
}
