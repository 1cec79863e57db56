//! The configuration file of `serversync`: `[[files]]`, a table for each kind of file, and `[[routes]]`, one for each receiver.
//!
//! Guarantees that every kind it answers with passes [`FileKind::check`], that every route has what it needs, and that nothing is
//! declared twice. A key that means nothing is an error with its line.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::super::kind::FileKind;
use super::super::route::{FRONTEND, Route};
use crate::config::{Place, Problem};

/// Largest configuration file: beyond this it is some other file.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// Most kinds of files.
const KINDS_MAX: usize = 64;

/// Most routes.
const ROUTES_MAX: usize = 32;

/// What a file declares.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default)]
    pub(super) files: Vec<FileKind>,
    #[serde(default)]
    pub(super) routes: Vec<Route>,
}

/// Reads the variables that a route names; what is wrong with it, by its keys.
pub(super) type Complete<'a> = &'a dyn Fn(&mut Route) -> Vec<(&'static str, String)>;

/// What a file declares, or everything that is wrong with it.
pub(super) fn read(path: &Path, complete: Complete<'_>) -> Result<Document, Vec<Problem>> {
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
    parse(path, &text, complete)
}

fn parse(path: &Path, text: &str, complete: Complete<'_>) -> Result<Document, Vec<Problem>> {
    let problem = |(line, column), key: String, what: String| {
        let place = Place::File { path: path.to_owned(), line, column };
        Problem { place, key, what, hint: None }
    };
    let mut document: Document = toml::from_str(text).map_err(|error| {
        let at = position(text, error.span().map_or(0, |span| span.start));
        vec![problem(at, String::new(), error.message().replace('\n', "; "))]
    })?;
    let tables = opening_lines(text, "[[files]]");
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
    let tables = opening_lines(text, "[[routes]]");
    let mut known = BTreeSet::from([FRONTEND.to_owned()]);
    for (n, route) in document.routes.iter_mut().enumerate() {
        let at = (tables.get(n).copied().unwrap_or(1), 1);
        let mut note =
            |key: &str, what: String| problems.push(problem(at, format!("routes[{n}].{key}"), what));
        for (key, what) in complete(route) {
            note(key, what);
        }
        if !known.insert(route.name.clone()) {
            note("name", format!("{:?} is taken; {FRONTEND:?} is FRONTEND_BASE_URL's", route.name));
        }
        if n == ROUTES_MAX {
            note("name", format!("at most {ROUTES_MAX} routes are allowed"));
        }
    }
    if problems.is_empty() { Ok(document) } else { Err(problems) }
}

/// Line and column of a place in a text, counted from one.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1)
}

/// The lines on which `table` stands.
fn opening_lines(text: &str, table: &str) -> Vec<usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with(table));
    lines.map(|(n, _)| n + 1).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::super::kind::AfterReceipt;
    use super::*;

    fn complete(route: &mut Route) -> Vec<(&'static str, String)> {
        let environment = |name: &str| match name {
            "HOOK" => Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()),
            "WEAK" => Some("whsec_c2hvcnQ=".to_owned()),
            _ => None,
        };
        route.complete(&environment, &|url| super::super::route_address(url, false))
    }

    fn problems(text: &str) -> String {
        let found = parse(Path::new("serversync.toml"), text, &complete).unwrap_err();
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
        let kinds = parse(Path::new("x"), text, &complete).unwrap().files;
        let file = super::super::super::Template::parse("{photoId}.jpg").unwrap();
        assert_eq!(kinds, [FileKind::new("photo_file", PathBuf::from("/srv/photos"), file, "/api/photos")]);
        assert_eq!(
            kinds[0].after_receipt,
            AfterReceipt::Keep,
            "nothing is removed unless the operator says so"
        );
        assert_eq!(parse(Path::new("x"), "", &complete).unwrap(), Document::default());
    }

    #[test]
    fn ss_35_a_table_declares_a_route_and_every_mistake_is_named_with_its_place() {
        let text = "[[routes]]\nname = \"hooks\"\nurl = \"https://h.example/in?x=1\"\ntypes = [\"order\"]\nas = \"webhook\"\n\
                    secret_env = \"HOOK\"\n";
        let read = parse(Path::new("x"), text, &complete).unwrap().routes;
        assert!(read[0].keys.is_some() && read[0].takes("order") && !read[0].takes("orders"));
        for (wrong, right, expected) in [
            ("name = \"hooks\"", "name = \"Hooks\"", "serversync.toml:1:1: routes[0].name: expected 1 to 24"),
            ("name = \"hooks\"", "name = \"frontend\"", "is FRONTEND_BASE_URL's"),
            ("types = [\"order\"]", "types = []", "routes[0].types: expected at least one"),
            ("types = [\"order\"]", "types = [\"An Order\"]", "can be no entity type"),
            ("https://h", "http://h", "routes[0].url: must begin with https"),
            ("\"HOOK\"", "\"NONE\"", "the variable NONE is not set"),
            ("\"HOOK\"", "\"WEAK\"", "the variable WEAK must hold whsec_"),
            ("as = \"webhook\"", "as = \"batch\"", "is for webhooks"),
            ("as = \"webhook\"", "as = \"letter\"", "unknown variant `letter`"),
            ("secret_env = \"HOOK\"", "", "secret_env: is missing: webhooks are signed"),
        ] {
            let found = problems(&text.replace(wrong, right));
            assert!(found.contains(expected) && !found.contains("c2hvcnQ"), "{expected}: {found}");
        }
        assert!(
            problems(&format!("{text}{text}"))
                .contains("serversync.toml:7:1: routes[1].name: \"hooks\" is taken")
        );
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
