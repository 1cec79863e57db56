//! File kinds: which entries stand for files, where those files are, how they are sent, and what a receipt changes.
//!
//! A [`FileKind`] is data. An application in Rust fills [`Settings::files`](super::Settings::files); for everybody else
//! `serversync` reads the same fields from `[[files]]` of its configuration file. [`FileKind::check`] finds what could not
//! work before anything is sent. Values of entries are checked one by one when they are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use syncline_core::outbox::EntityType;

use super::file::UploadJob;
use super::template::Template;

/// Entries whose type ends so stand for a file where a kind is declared for the type.
pub const FILE_SUFFIX: &str = "_file";

/// Largest attachment: it is held in memory.
pub const ATTACHMENT_MAX_BYTES: usize = 64 * 1024;

/// Most attachments of a kind.
const ATTACHMENTS_MAX: usize = 8;

/// Most folders between the kind's folder and the file.
const DEPTH_MAX: usize = 8;

/// Longest name of a table or a column, as PostgreSQL has it.
const IDENTIFIER_MAX_BYTES: usize = 63;

/// A kind of file that is sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileKind {
    /// The type of the entries that stand for such a file. It ends in `_file`.
    pub entity_type: String,
    /// The folder beneath which all files of this kind are.
    pub folder: PathBuf,
    /// The variable by which an operator sets the folder, where that is not this declaration.
    #[serde(skip)]
    pub folder_variable: Option<&'static str>,
    /// The file's place beneath the folder: `{photoId}.jpg`, `{orderId}/scan.pdf`. Each step is one name.
    pub file: Template,
    /// The file's own id. Receipts are kept under it, and it finds the row that a receipt changes.
    #[serde(default = "entity_id")]
    pub id: Template,
    /// The path at the receiver to which the file is posted.
    pub upload_path: String,
    /// The name of the file's part in the form.
    #[serde(default = "file_part")]
    pub part: String,
    /// The media type of the file.
    #[serde(default = "octet_stream")]
    pub content_type: String,
    /// Text fields of the form, which come before the file.
    #[serde(default)]
    pub fields: BTreeMap<String, Template>,
    /// Small files that are sent behind the file, in the same form.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// What a receipt changes in the application's own tables.
    pub receipt: Option<ReceiptRule>,
    /// What becomes of the local file after its receipt is stored.
    #[serde(default)]
    pub after_receipt: AfterReceipt,
}

/// A small file that is sent beside the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// The name of its part in the form.
    pub part: String,
    /// Its place beneath the kind's folder.
    pub file: Template,
    /// Its media type. What is said to be `application/json` is checked to be JSON before it is sent.
    #[serde(default = "octet_stream")]
    pub content_type: String,
}

/// What a receipt changes: the columns `set` of the row of `table` whose `id_column` is the file's id. Beside the payload's
/// keys the values may use `{fileUrl}`, `{length}` and `{sha256}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptRule {
    /// The table, with its schema where it has to be named.
    pub table: String,
    /// The column that holds the file's id.
    #[serde(default = "id_column")]
    pub id_column: String,
    /// The columns and their new values.
    pub set: BTreeMap<String, Template>,
}

/// What becomes of the local file after its receipt is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterReceipt {
    /// It stays.
    #[default]
    Keep,
    /// It is removed, and its attachments with it.
    RemoveFile,
    /// The folder that holds it is removed with all that is in it.
    RemoveFolder,
}

/// What an entry comes to under a kind. For tests of declarations: nothing is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The file's id.
    pub id: String,
    /// The file's place beneath the kind's folder.
    pub path: PathBuf,
    /// The text fields of the form.
    pub fields: BTreeMap<String, String>,
}

fn entity_id() -> Template {
    Template::parse("{entityId}").expect("a constant that reads")
}

fn file_part() -> String {
    "file".to_owned()
}

fn octet_stream() -> String {
    "application/octet-stream".to_owned()
}

fn id_column() -> String {
    "id".to_owned()
}

impl FileKind {
    /// A kind with what is required, and for the rest what a declaration without it has.
    pub fn new(entity_type: &str, folder: PathBuf, file: Template, upload_path: &str) -> FileKind {
        FileKind {
            entity_type: entity_type.to_owned(),
            folder,
            folder_variable: None,
            file,
            id: entity_id(),
            upload_path: upload_path.to_owned(),
            part: file_part(),
            content_type: octet_stream(),
            fields: BTreeMap::new(),
            attachments: Vec::new(),
            receipt: None,
            after_receipt: AfterReceipt::default(),
        }
    }

    /// What is wrong with the declaration: each setting with what was expected of it.
    pub fn check(&self) -> Result<(), Vec<(&'static str, String)>> {
        let mut problems = Vec::new();
        let mut require = |key: &'static str, holds: bool, what: String| {
            if !holds {
                problems.push((key, what));
            }
        };
        let entity_type = &self.entity_type;
        let is_type = EntityType::new(entity_type.as_str()).is_ok() && entity_type.ends_with(FILE_SUFFIX);
        let what = format!("expected an entity type that ends in {FILE_SUFFIX}, found {entity_type:?}");
        require("entity_type", is_type, what);
        require("folder", !self.folder.as_os_str().is_empty(), "expected the path of a folder".to_owned());
        let files = self.attachments.iter().map(|attachment| ("attachments", &attachment.file));
        for (key, file) in [("file", &self.file)].into_iter().chain(files) {
            let checked = steps(file).map(|_| ());
            require(key, checked.is_ok(), checked.err().unwrap_or_default());
        }
        let what = "names the same file for every entry: write {entityId} or a key of the payload";
        require("file", self.file.has_value(), what.to_owned());
        let what =
            "remove_folder needs a file such as {entityId}/data.bin, in a folder that is named by its entry";
        let removable = self.after_receipt != AfterReceipt::RemoveFolder || self.has_own_folder();
        require("after_receipt", removable, what.to_owned());
        let what = format!("expected a path such as /api/photos, found {:?}", self.upload_path);
        require("upload_path", is_upload_path(&self.upload_path), what);
        let what = format!("at most {ATTACHMENTS_MAX} attachments are allowed");
        require("attachments", self.attachments.len() <= ATTACHMENTS_MAX, what);
        let types = self.attachments.iter().map(|attachment| &attachment.content_type);
        for content_type in [&self.content_type].into_iter().chain(types) {
            let what = format!("expected a media type such as image/jpeg, found {content_type:?}");
            require("content_type", is_media_type(content_type), what);
        }
        let parts = self.attachments.iter().map(|attachment| &attachment.part);
        let names: Vec<&String> = self.fields.keys().chain([&self.part]).chain(parts).collect();
        let distinct: BTreeSet<&&String> = names.iter().collect();
        let all = names.iter().all(|name| is_part_name(name)) && distinct.len() == names.len();
        let what = "expected names of form fields, each once, without quotes and control characters";
        require("part", all, what.to_owned());
        if let Some(ReceiptRule { table, id_column, set }) = &self.receipt {
            let what = "expected names of a table and its columns: letters, digits and underscores";
            let columns = set.keys().chain([id_column]).all(|column| is_identifier(column));
            require("receipt", is_table(table) && columns, what.to_owned());
            require("receipt.set", !set.is_empty(), "expected at least one column".to_owned());
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Which file an entry of this kind names; if none, why.
    pub fn named_file(&self, entity_id: &str, payload: &str) -> Result<NamedFile, String> {
        let job = UploadJob::read(&Arc::new(self.clone()), entity_id, payload);
        let job = job.map_err(|error| error.to_string())?;
        let path = job.path().iter().collect();
        Ok(NamedFile { id: job.id, path, fields: job.fields.into_iter().collect() })
    }

    /// Whether the file's folder belongs to one entry: removing it takes no other entry's file along.
    fn has_own_folder(&self) -> bool {
        steps(&self.file).is_ok_and(|steps| steps.len() > 1 && steps[steps.len() - 2].has_value())
    }
}

/// The steps from the kind's folder to a file, one template for each name; if that cannot be, why.
pub(super) fn steps(file: &Template) -> Result<Vec<Template>, String> {
    let text = file.to_string();
    let steps: Vec<&str> = text.split('/').collect();
    if steps.len() > DEPTH_MAX + 1 {
        return Err(format!("at most {DEPTH_MAX} folders are allowed, found {text:?}"));
    }
    let step = |step: &&str| match step.starts_with('{') || is_name(step) {
        true => Template::parse(step).map_err(|error| error.to_string()),
        false => Err(format!("expected names with / between them, beneath the folder, found {text:?}")),
    };
    steps.iter().map(step).collect()
}

/// Whether a text can be one name in a folder, and never anything else. Hidden names are the system's and ours.
pub(super) fn is_name(text: &str) -> bool {
    const NAME_MAX_BYTES: usize = 255;
    let fits = (1..=NAME_MAX_BYTES).contains(&text.len());
    fits && !text.starts_with('.') && !text.chars().any(|c| c == '/' || c.is_control())
}

fn is_upload_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !"?#%\\{}".contains(c);
    let steps = path.strip_prefix('/').map(|path| path.trim_end_matches('/').split('/'));
    path.chars().all(plain)
        && steps.is_some_and(|mut steps| steps.all(|step| !matches!(step, "" | "." | "..")))
}

fn is_media_type(text: &str) -> bool {
    reqwest::multipart::Part::text("").mime_str(text).is_ok()
}

fn is_part_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_control() || "\"\\".contains(c))
}

fn is_table(name: &str) -> bool {
    let mut parts = name.splitn(2, '.');
    parts.all(is_identifier)
}

fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    begins && plain && name.len() <= IDENTIFIER_MAX_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo() -> FileKind {
        let file = Template::parse("{album}/{entityId}.jpg").unwrap();
        FileKind::new("photo_file", PathBuf::from("photos"), file, "/api/photos")
    }

    fn problem(change: impl FnOnce(&mut FileKind)) -> Option<&'static str> {
        let mut kind = photo();
        change(&mut kind);
        kind.check().err().map(|problems| problems[0].0)
    }

    fn template(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    #[test]
    fn ss_36_a_declaration_that_could_not_work_is_refused_with_the_setting() {
        assert_eq!(problem(|_| {}), None);
        for name in ["photo", "Photo_file", "", "_file"] {
            assert_eq!(problem(|kind| kind.entity_type = name.to_owned()), Some("entity_type"), "{name}");
        }
        for file in
            ["", "/{entityId}", "../{entityId}", "a//{entityId}", ".{entityId}", "fixed.jpg", "{entityId}/"]
        {
            assert_eq!(problem(|kind| kind.file = template(file)), Some("file"), "{file}");
        }
        for path in ["", "api", "/", "//x", "/a/../b", "/a?b=c", "/a b", "https://f.example/x"] {
            assert_eq!(problem(|kind| kind.upload_path = path.to_owned()), Some("upload_path"), "{path}");
        }
        assert_eq!(problem(|kind| kind.content_type = "sketch".to_owned()), Some("content_type"));
        assert_eq!(problem(|kind| kind.part = "a\"b".to_owned()), Some("part"));
        let twice = ("file".to_owned(), template("{entityId}"));
        assert_eq!(problem(|kind| kind.fields.extend([twice])), Some("part"));
        let rule = |table: &str, column: &str| ReceiptRule {
            table: table.to_owned(),
            id_column: "id".to_owned(),
            set: [(column.to_owned(), template("{fileUrl}"))].into(),
        };
        assert_eq!(problem(|kind| kind.receipt = Some(rule("shop.photos", "url"))), None);
        for (table, column) in [("photos; --", "url"), ("photos", "a = 1, b"), ("", "url"), ("a.b.c", "url")]
        {
            assert_eq!(problem(|kind| kind.receipt = Some(rule(table, column))), Some("receipt"), "{table}");
        }
    }

    #[test]
    fn ss_36_a_folder_is_removed_only_if_it_is_one_entrys_own() {
        for (file, allowed) in [
            ("{entityId}/a.jpg", true),
            ("x/{entityId}/a.jpg", true),
            ("{entityId}.jpg", false),
            ("x/{entityId}", false),
        ] {
            let found = problem(|kind| {
                kind.file = template(file);
                kind.after_receipt = AfterReceipt::RemoveFolder;
            });
            assert_eq!(found.is_none(), allowed, "{file}");
        }
    }

    #[test]
    fn ss_36_a_name_is_one_step_and_may_hold_dots_and_at_signs() {
        for name in ["a84b4c76@pc33.example.com", "a b", "写真", "C:\\x", "~", &"x".repeat(255)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", ".incoming", "a/b", "/etc", "a\0", "a\nb", &"x".repeat(256)] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
