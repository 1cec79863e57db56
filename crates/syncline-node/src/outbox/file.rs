//! The file that an entry stands for: found beneath its kind's folder and nowhere else.
//!
//! Guarantees: of what a payload says only names are used, one step at a time, never a path; no symbolic link is followed,
//! neither to read nor to remove; a file is removed only while it is the very one that was sent.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::kind::{self, ATTACHMENT_MAX_BYTES, AfterReceipt, FileKind};
use super::template::{NoValue, Template, Values};
use crate::folder::Folder;
use crate::inbox::{DEPTH_MAX, is_deep};

/// Bytes that are hashed at a time.
const HASHED_AT_ONCE_BYTES: usize = 64 * 1024;

/// Why a file cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsendable {
    /// It never can: the entry does not name a file of its kind.
    #[error("{0}")]
    Refused(String),
    /// It cannot now.
    #[error("{0}")]
    Failed(String),
    /// It is not there: it was sent under another entry, or never written.
    #[error("there is no {0}")]
    Gone(String),
    /// No file of the kind can be sent: their folder is not there, as when its disk is not mounted.
    #[error("{0}")]
    NoFolder(String),
}

/// What an entry asks to be sent.
#[derive(Debug, Clone)]
pub(super) struct UploadJob {
    pub(super) kind: Arc<FileKind>,
    /// The file's id.
    pub(super) id: String,
    /// The names from the kind's folder to the file.
    path: Vec<String>,
    attachments: Vec<Vec<String>>,
    /// Text fields of the form.
    pub(super) fields: Vec<(String, String)>,
    values: Values,
}

/// An open file, ready to be sent.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) identity: FileIdentity,
    pub(super) attachments: Vec<OpenAttachment>,
}

/// An attachment, read.
#[derive(Debug)]
pub(super) struct OpenAttachment {
    pub(super) part: String,
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) content: Vec<u8>,
}

/// Recognises a file: another one of the same name, or the same with other content, differs in something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device_and_inode: (u64, u64),
    pub(super) length: u64,
    modified: (i64, i64),
}

impl UploadJob {
    /// Reads an entry of the kind.
    pub(super) fn read(
        kind: &Arc<FileKind>,
        entity_id: &str,
        payload: &str,
    ) -> Result<UploadJob, Unsendable> {
        let refused = |what: String| Unsendable::Refused(format!("the entry names no file: {what}"));
        let no_value = |error: NoValue| refused(error.to_string());
        let values = Values::read(entity_id, payload)
            .map_err(|error| Unsendable::Refused(format!("the payload names no file: {error}")))?;
        let path = |file: &Template, beside: Option<&str>| path(file, &values, beside).map_err(refused);
        let file = path(&kind.file, None)?;
        let name = file.last().map(String::as_str);
        let field = |(name, value): (&String, &Template)| {
            Ok((name.clone(), value.expand(&values).map_err(no_value)?))
        };
        let job = UploadJob {
            id: kind.id.expand(&values).map_err(no_value)?,
            attachments: kind
                .attachments
                .iter()
                .map(|attachment| path(&attachment.file, name))
                .collect::<Result<_, _>>()?,
            path: file,
            fields: kind.fields.iter().map(field).collect::<Result<_, Unsendable>>()?,
            kind: Arc::clone(kind),
            values,
        };
        // A value that the receipt needs is asked for before anything is sent.
        job.receipt_columns("", 0, "")?;
        Ok(job)
    }

    /// The names from the kind's folder to the file.
    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    /// The file's own name.
    pub(super) fn file_name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// The columns that a receipt sets, and their values; `None` where a receipt changes nothing.
    pub(super) fn receipt_columns(
        &self,
        file_url: &str,
        length: u64,
        sha256: &str,
    ) -> Result<Option<Vec<(String, String)>>, Unsendable> {
        let Some(rule) = &self.kind.receipt else { return Ok(None) };
        let values = self.values.clone().with("fileUrl", file_url);
        let values = values.with("length", &length.to_string()).with("sha256", sha256);
        let column = |(name, value): (&String, &Template)| Ok((name.clone(), value.expand(&values)?));
        let columns = rule.set.iter().map(column).collect::<Result<_, NoValue>>();
        columns
            .map(Some)
            .map_err(|error| Unsendable::Refused(format!("the receipt cannot be stored: {error}")))
    }

    /// Opens what is to be sent.
    pub(super) fn open(&self) -> Result<OpenFile, Unsendable> {
        let file = self.open_at(&self.path)?;
        let attachments = self.kind.attachments.iter().zip(&self.attachments).map(|(attachment, path)| {
            let content = self.read_attachment(path, &attachment.content_type)?;
            let name = path.last().cloned().unwrap_or_default();
            let (part, content_type) = (attachment.part.clone(), attachment.content_type.clone());
            Ok(OpenAttachment { part, name, content_type, content })
        });
        let attachments = attachments.collect::<Result<_, Unsendable>>()?;
        let identity = FileIdentity::of(&file).map_err(|error| unsendable(&self.path, &error))?;
        Ok(OpenFile { file, identity, attachments })
    }

    /// Opens the file once more; `None` if it is gone.
    pub(super) fn open_again(&self) -> Result<Option<File>, Unsendable> {
        match self.open_at(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(Unsendable::Gone(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Does after the receipt what the kind says, if the file is still the one that was sent. A file that is gone is gone.
    pub(super) fn clean_up(&self, sent: Option<FileIdentity>) -> Result<(), Unsendable> {
        if self.kind.after_receipt == AfterReceipt::Keep {
            return Ok(());
        }
        if let Some(file) = self.open_again()? {
            let found = FileIdentity::of(&file).map_err(|error| unsendable(&self.path, &error))?;
            if sent.is_some_and(|sent| sent != found) {
                return Err(Unsendable::Failed(format!("{} changed while it was sent", self.path.join("/"))));
            }
        }
        match self.kind.after_receipt {
            AfterReceipt::Keep => Ok(()),
            AfterReceipt::RemoveFile => {
                [&self.path].into_iter().chain(&self.attachments).try_for_each(|path| self.remove(path))
            }
            // The rest of a folder that was being removed when the process died is removed, too.
            AfterReceipt::RemoveFolder => self.remove(&self.path[..self.path.len() - 1]),
        }
    }

    /// Removes what is at `path`, and all that is in it. What is not there is no error.
    fn remove(&self, path: &[String]) -> Result<(), Unsendable> {
        let Some((name, folders)) = path.split_last() else { return Ok(()) };
        match self.folder(folders) {
            Ok(folder) => {
                let removed = folder.remove(name).and_then(|()| folder.sync());
                removed.map_err(|error| unsendable(path, &error))
            }
            Err(Unsendable::Gone(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    fn open_at(&self, path: &[String]) -> Result<File, Unsendable> {
        let Some((name, folders)) = path.split_last() else {
            return Err(Unsendable::Refused("the entry names no file".to_owned()));
        };
        self.folder(folders)?.file(name).map_err(|error| unsendable(path, &error))
    }

    fn read_attachment(&self, path: &[String], content_type: &str) -> Result<Vec<u8>, Unsendable> {
        // The application may write it later, or again.
        let failed = |reason: String| Unsendable::Failed(format!("{} {reason}", path.join("/")));
        let file = self.open_at(path).map_err(|error| match error {
            Unsendable::Gone(what) => Unsendable::Failed(format!("there is no {what}")),
            other => other,
        })?;
        let mut content = Vec::new();
        let read = file.take(ATTACHMENT_MAX_BYTES as u64 + 1).read_to_end(&mut content);
        read.map_err(|error| unsendable(path, &error))?;
        check_attachment(&content, content_type).map_err(failed)?;
        Ok(content)
    }

    /// A folder beneath the kind's. It is looked for and never made: what is missing may be a disk.
    fn folder(&self, names: &[String]) -> Result<Folder, Unsendable> {
        let mut folder = open_root(&self.kind)?;
        for (depth, name) in names.iter().enumerate() {
            folder = folder.folder(name).map_err(|error| unsendable(&names[..=depth], &error))?;
        }
        Ok(folder)
    }
}

impl FileIdentity {
    pub(super) fn of(file: &File) -> io::Result<FileIdentity> {
        let data = file.metadata()?;
        Ok(FileIdentity {
            device_and_inode: (data.dev(), data.ino()),
            length: data.len(),
            modified: (data.mtime(), data.mtime_nsec()),
        })
    }
}

/// The length of a file and its SHA-256.
pub(super) fn measure(mut file: File) -> io::Result<(u64, String)> {
    let (mut hash, mut length, mut buffer) = (Sha256::new(), 0, vec![0; HASHED_AT_ONCE_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((length, hex(hash))),
            read => {
                hash.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
}

/// A hash in hexadecimal.
pub(super) fn hex(hash: Sha256) -> String {
    format!("{:x}", bytes::Bytes::copy_from_slice(&hash.finalize()))
}

/// The names from the kind's folder to a file; if a value is no name, why. `beside` is the name of the file that an attachment
/// belongs to: a path in the payload ends in that one.
fn path(file: &Template, values: &Values, beside: Option<&str>) -> Result<Vec<String>, String> {
    let steps = kind::steps(file)?;
    let (last, folders) = steps.split_last().ok_or("it has no name")?;
    let name = last.expand(values).map_err(|error| error.to_string())?;
    let folders = folders.iter().map(|step| step.expand_beside(values, beside.or(Some(&name))));
    let mut path = folders.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    path.push(name);
    match path.iter().find(|name| !kind::is_name(name)) {
        Some(name) => Err(format!("{name:?} is no name in a folder")),
        None => Ok(path),
    }
}

fn open_root(kind: &FileKind) -> Result<Folder, Unsendable> {
    let (folder, entity_type) = (kind.folder.display(), &kind.entity_type);
    Folder::open(&kind.folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let remedy = match kind.folder_variable {
                Some(variable) => format!("set {variable}"),
                None => format!("correct `folder` of {entity_type}"),
            };
            Unsendable::NoFolder(format!("the folder {folder} is not there: mount its disk, or {remedy}"))
        }
        _ => Unsendable::Failed(format!("the folder {folder} of {entity_type}: {error}")),
    })
}

/// Whether an attachment can be sent; if not, why.
fn check_attachment(content: &[u8], content_type: &str) -> Result<(), String> {
    if content.len() > ATTACHMENT_MAX_BYTES {
        return Err(format!("has more than {ATTACHMENT_MAX_BYTES} bytes"));
    }
    if content_type != "application/json" {
        return Ok(());
    }
    let text = std::str::from_utf8(content).map_err(|_| "is not UTF-8".to_owned())?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| format!("is no JSON: {error}"))?;
    if is_deep(text) { Err(format!("is nested more than {DEPTH_MAX} deep")) } else { Ok(()) }
}

fn unsendable(path: &[String], error: &io::Error) -> Unsendable {
    let what = path.join("/");
    match (error.kind(), error.raw_os_error().map(Errno::from_raw_os_error)) {
        (io::ErrorKind::NotFound, _) => Unsendable::Gone(what),
        (_, Some(Errno::NOTDIR | Errno::LOOP)) => {
            Unsendable::Refused(format!("{what} is a link or not what it should be: nothing was touched"))
        }
        // A refusal of our own, not the system's.
        (io::ErrorKind::Other, None) => Unsendable::Refused(format!("{what}: {error}")),
        _ => Unsendable::Failed(format!("{what}: {error}")),
    }
}

#[cfg(test)]
mod tests;
