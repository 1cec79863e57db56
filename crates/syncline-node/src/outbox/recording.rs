//! Which recording an entry is about, and its files: found beneath the recordings folder and nowhere else.
//!
//! Guarantees: of what a payload says only plain names are used, never a path; no symbolic link is followed, neither to read nor
//! to delete; a folder is deleted only while the recording in it is the very one that was sent.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use rustix::io::Errno;
use serde::Deserialize;

use crate::recording::folder::Folder;
use crate::recording::{AUDIO, META, META_MAX_BYTES, Name, check_meta};

/// Why a recording cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsendable {
    /// It never can: what the entry names is no recording of ours.
    #[error("{0}")]
    Refused(String),
    /// It cannot now.
    #[error("{0}")]
    Failed(String),
    /// Its folder is not there: it was sent under another entry, or never written.
    #[error("there is no {0} in the recordings folder")]
    Gone(Name),
    /// None can: the recordings folder itself is not there, as when its disk is not mounted.
    #[error("the recordings folder {0} is not there: mount its disk, or set RECORDINGS_DIR")]
    NoRoot(String),
}

/// What a `recording_file` entry asks to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) call_log: Name,
    pub(super) recording: Name,
    /// The call's folder.
    pub(super) folder: Name,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    #[serde(alias = "call_log_id")]
    call_log_id: String,
    #[serde(alias = "recording_id")]
    recording_id: Option<String>,
    #[serde(alias = "call_id")]
    call_id: Option<String>,
    #[serde(alias = "file_path")]
    file_path: Option<String>,
}

impl Order {
    /// Reads an entry's payload. Without a `recordingId` the entity is the recording; the folder is the call's own name, or the
    /// one that the `filePath` ends in.
    pub(super) fn read(entity_id: &str, payload: &str) -> Result<Order, Unsendable> {
        let read: Payload = serde_json::from_str(payload).map_err(|error| {
            Unsendable::Refused(format!("the payload does not name a recording: {error}"))
        })?;
        let folder = match &read.file_path {
            Some(path) => Some(folder_of(path)?),
            None => read.call_id.as_deref(),
        };
        Ok(Order {
            call_log: name("callLogId", &read.call_log_id)?,
            recording: name("recordingId", read.recording_id.as_deref().unwrap_or(entity_id))?,
            folder: name("the folder", folder.unwrap_or(&read.call_log_id))?,
        })
    }

    /// Opens what is to be sent.
    pub(super) fn open(&self, root: &Path) -> Result<Files, Unsendable> {
        let opened = |what: &str, error: io::Error| unsendable(&self.folder, what, &error);
        let folder = self.folder_in(root)?;
        let audio = folder.file(AUDIO).map_err(|error| opened(AUDIO, error))?;
        let mut meta = Vec::new();
        folder
            .file(META)
            .and_then(|file| file.take(META_MAX_BYTES as u64 + 1).read_to_end(&mut meta))
            .map_err(|error| opened(META, error))?;
        // Whoever wrote it may write it again.
        check_meta(&meta).map_err(|reason| Unsendable::Failed(format!("{}/{META} {reason}", self.folder)))?;
        let is = Is::of(&audio).map_err(|error| opened(AUDIO, error))?;
        Ok(Files { audio, meta, is })
    }

    /// The recording alone, to be read once more; `None` if it is gone.
    pub(super) fn audio(&self, root: &Path) -> Result<Option<File>, Unsendable> {
        let folder = match self.folder_in(root) {
            Ok(folder) => folder,
            Err(Unsendable::Gone(_)) => return Ok(None),
            Err(other) => return Err(other),
        };
        match folder.file(AUDIO) {
            Ok(audio) => Ok(Some(audio)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unsendable(&self.folder, AUDIO, &error)),
        }
    }

    /// The call's folder. It is looked for and never made: what is missing may be a disk.
    fn folder_in(&self, root: &Path) -> Result<Folder, Unsendable> {
        let root = open_root(root)?;
        root.folder(self.folder.as_str()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unsendable::Gone(self.folder.clone()),
            _ => unsendable(&self.folder, "", &error),
        })
    }

    /// Deletes the call's folder if the recording in it is still the one that was sent. A folder that is gone is gone.
    pub(super) fn delete(&self, root: &Path, sent: Option<Is>) -> Result<(), Unsendable> {
        let failed = |error: io::Error| unsendable(&self.folder, "", &error);
        let root = open_root(root)?;
        match root.folder(self.folder.as_str()).and_then(|folder| Is::of(&folder.file(AUDIO)?)) {
            Ok(found) if sent.is_some_and(|sent| sent != found) => {
                return Err(Unsendable::Failed(format!("{}/{AUDIO} changed while it was sent", self.folder)));
            }
            Ok(_) => {}
            // The rest of a folder that was being deleted when the process died, or nothing at all.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        root.remove(self.folder.as_str()).and_then(|()| root.sync()).map_err(failed)
    }
}

/// An open recording.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) audio: File,
    pub(super) meta: Vec<u8>,
    pub(super) is: Is,
}

/// By what a file is known: another one of the same name, or the same with other content, differs in something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Is {
    place: (u64, u64),
    pub(super) length: u64,
    changed: (i64, i64),
}

impl Is {
    pub(super) fn of(file: &File) -> io::Result<Is> {
        let data = file.metadata()?;
        Ok(Is {
            place: (data.dev(), data.ino()),
            length: data.len(),
            changed: (data.mtime(), data.mtime_nsec()),
        })
    }
}

fn open_root(root: &Path) -> Result<Folder, Unsendable> {
    Folder::open(root).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Unsendable::NoRoot(root.display().to_string())
        }
        _ => Unsendable::Failed(format!("the recordings folder {}: {error}", root.display())),
    })
}

fn name(what: &str, text: &str) -> Result<Name, Unsendable> {
    Name::new(text).ok_or_else(|| {
        Unsendable::Refused(format!("{what} {text:?} is no name: 1 to 64 letters, digits, - and _ are"))
    })
}

/// The folder that a path to a recording ends in. The way there is never gone.
fn folder_of(path: &str) -> Result<&str, Unsendable> {
    let path = Path::new(path);
    let climbs = path.components().any(|component| component == Component::ParentDir);
    let file_is_audio = path.file_name().is_some_and(|name| name == AUDIO);
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    match folder {
        Some(folder) if file_is_audio && !climbs => Ok(folder),
        _ => Err(Unsendable::Refused(format!(
            "filePath {:?} does not end in a call's folder and {AUDIO}",
            path.display()
        ))),
    }
}

fn unsendable(folder: &Name, file: &str, error: &io::Error) -> Unsendable {
    let what = if file.is_empty() { folder.to_string() } else { format!("{folder}/{file}") };
    match (error.kind(), error.raw_os_error().map(Errno::from_raw_os_error)) {
        (io::ErrorKind::NotFound, _) => {
            Unsendable::Failed(format!("there is no {what} in the recordings folder"))
        }
        (_, Some(Errno::NOTDIR | Errno::LOOP)) => {
            Unsendable::Refused(format!("{what} is a link or not what it should be: nothing was touched"))
        }
        // What we say ourselves, not the system.
        (io::ErrorKind::Other, None) => Unsendable::Refused(format!("{what}: {error}")),
        _ => Unsendable::Failed(format!("{what}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn order(payload: &str) -> Result<Order, String> {
        Order::read("rec-1", payload).map_err(|error| error.to_string())
    }

    #[test]
    fn ss_07_a_payload_names_call_recording_and_folder_in_either_spelling() {
        let table = [
            (r#"{"callLogId":"c1","recordingId":"r1"}"#, ("c1", "r1", "c1")),
            (r#"{"call_log_id":"c1","recording_id":"r1","more":1}"#, ("c1", "r1", "c1")),
            (r#"{"callLogId":"c1"}"#, ("c1", "rec-1", "c1")),
            (r#"{"callLogId":"c1","callId":"sip-7"}"#, ("c1", "rec-1", "sip-7")),
            (
                r#"{"callLogId":"c1","filePath":"storage/recordings/sip-7/mixed.wav"}"#,
                ("c1", "rec-1", "sip-7"),
            ),
            (r#"{"callLogId":"c1","file_path":"/var/lib/box/sip-7/mixed.wav"}"#, ("c1", "rec-1", "sip-7")),
        ];
        for (payload, expected) in table {
            let read = order(payload).unwrap();
            assert_eq!((read.call_log.as_str(), read.recording.as_str(), read.folder.as_str()), expected);
        }
    }

    #[test]
    fn ss_27_ids_and_paths_that_lead_elsewhere_are_refused() {
        for payload in [
            "not json",
            r#"{"recordingId":"r1"}"#,
            r#"{"callLogId":"../c1"}"#,
            r#"{"callLogId":""}"#,
            r#"{"callLogId":"c1","recordingId":"a/b"}"#,
            r#"{"callLogId":"c1","callId":".."}"#,
            r#"{"callLogId":"c1","filePath":"/etc/passwd"}"#,
            r#"{"callLogId":"c1","filePath":"../../c2/mixed.wav"}"#,
            r#"{"callLogId":"c1","filePath":"storage/../../etc/mixed.wav"}"#,
            r#"{"callLogId":"c1","filePath":"mixed.wav"}"#,
            r#"{"callLogId":"c1","filePath":"/mixed.wav"}"#,
            r#"{"callLogId":"c1","filePath":"a b/mixed.wav"}"#,
        ] {
            assert!(matches!(Order::read("rec-1", payload), Err(Unsendable::Refused(_))), "{payload}");
        }
        assert!(order(r#"{"callLogId":"../c1"}"#).unwrap_err().contains("callLogId \"../c1\" is no name"));
    }

    fn world() -> (tempfile::TempDir, Order) {
        let place = tempfile::tempdir().unwrap();
        for folder in ["outside", "root/c1"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
            fs::write(place.path().join(folder).join(AUDIO), "sound").unwrap();
            fs::write(place.path().join(folder).join(META), "{}").unwrap();
        }
        (place, Order::read("rec-1", r#"{"callLogId":"c1"}"#).unwrap())
    }

    #[test]
    fn ss_28_links_in_place_of_a_folder_or_file_are_refused_and_what_they_point_to_stays() {
        let (place, order) = world();
        let root = place.path().join("root");
        let is_refused = || {
            assert!(matches!(order.open(&root), Err(Unsendable::Refused(_))), "{:?}", order.open(&root));
        };
        fs::remove_file(root.join("c1/mixed.wav")).unwrap();
        symlink(place.path().join("outside/mixed.wav"), root.join("c1/mixed.wav")).unwrap();
        is_refused();
        assert!(order.delete(&root, None).is_err());
        fs::remove_dir_all(root.join("c1")).unwrap();
        symlink(place.path().join("outside"), root.join("c1")).unwrap();
        is_refused();
        assert!(order.delete(&root, None).is_err());
        assert_eq!(fs::read_to_string(place.path().join("outside/mixed.wav")).unwrap(), "sound");
    }

    #[test]
    fn ss_28_a_folder_is_deleted_only_while_its_recording_is_the_one_that_was_sent() {
        let (place, order) = world();
        let root = place.path().join("root");
        let files = order.open(&root).unwrap();
        assert_eq!((files.is.length, files.meta.as_slice()), (5, &b"{}"[..]));
        fs::write(root.join("c1/mixed.wav"), "other sound").unwrap();
        assert!(
            order
                .delete(&root, Some(files.is))
                .unwrap_err()
                .to_string()
                .contains("changed while it was sent")
        );
        assert!(root.join("c1/mixed.wav").exists());
        let files = order.open(&root).unwrap();
        order.delete(&root, Some(files.is)).unwrap();
        assert!(!root.join("c1").exists());
        order.delete(&root, Some(files.is)).unwrap();
        assert!(matches!(order.open(&root), Err(Unsendable::Gone(_))));
    }

    #[test]
    fn ss_28_a_recordings_folder_that_is_not_there_is_told_apart_and_not_made() {
        let (place, order) = world();
        let root = place.path().join("unmounted");
        assert!(matches!(order.open(&root), Err(Unsendable::NoRoot(_))));
        assert!(matches!(order.audio(&root), Err(Unsendable::NoRoot(_))));
        assert!(matches!(order.delete(&root, None), Err(Unsendable::NoRoot(_))));
        assert!(!root.exists());
    }
}
