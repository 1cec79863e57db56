//! Recordings in a folder: `{call}/mixed.wav`, `{call}/meta.json` and `{call}/receipt.json`.
//!
//! Guarantees that a call's folder is there completely and on the disk, or not at all: an upload is written beside, synced,
//! and moved into place in one step. What is in place is never replaced. What an upload that failed, or a process that
//! died, left behind is removed: at once, or at the next start.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{AUDIO, Error, META, Name, Receipt};
use syncline_node::folder::Folder;

/// Where uploads are written until they are complete. No call can be called that.
const INCOMING: &str = ".incoming";

/// The file that says what is in the others.
const RECEIPT: &str = "receipt.json";

/// Largest receipt that is read: what is larger is none of ours.
const RECEIPT_MAX_BYTES: u64 = 4 * 1024;

const HASHED_AT_ONCE_BYTES: usize = 64 * 1024;

/// The folder with all recordings. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    root: Arc<Folder>,
    incoming: Arc<Folder>,
}

impl Disk {
    /// Opens the folder and removes what uploads of dead processes left in it.
    pub(crate) fn open(path: &Path) -> io::Result<Disk> {
        let root = Folder::at(path)?;
        let incoming = root.make_folder(INCOMING)?;
        sweep(&incoming);
        Ok(Disk { root: Arc::new(root), incoming: Arc::new(incoming) })
    }

    /// Begins an upload.
    pub(super) fn stage(&self) -> Result<Staged, Error> {
        let name = Uuid::new_v4().to_string();
        let folder = self.incoming.make_folder(&name)?;
        folder.claim()?;
        let audio = folder.make_file(AUDIO)?;
        let incoming = Arc::clone(&self.incoming);
        Ok(Staged { incoming, name, folder, audio, hash: Sha256::new(), length: 0 })
    }

    /// Puts an upload in its place, and returns when it is on the disk; `true` if this very recording was there before. A
    /// call that has another one keeps that, and this is an error.
    pub(super) fn keep(&self, mut staged: Staged, call: &Name, receipt: &Receipt) -> Result<bool, Error> {
        staged.audio.sync_all()?;
        staged.write_file(RECEIPT, &serde_json::to_vec(receipt).map_err(io::Error::from)?)?;
        staged.folder.sync()?;
        match self.incoming.move_folder(&staged.name, &self.root, call.as_str()) {
            Ok(()) => {
                staged.name.clear();
                self.root.sync()?;
                Ok(false)
            }
            Err(moving) => match self.receipt(call)? {
                // Who moved it there may have died before it was synced.
                Some(kept) if kept.is_of(receipt) => self.root.sync().map(|()| true).map_err(Error::from),
                Some(kept) => Err(Error::Differs { call: call.clone(), kept }),
                None => Err(moving.into()),
            },
        }
    }

    /// What is kept for a call.
    pub(super) fn receipt(&self, call: &Name) -> Result<Option<Receipt>, Error> {
        let folder = match self.root.folder(call.as_str()) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(read_receipt(&folder)?))
    }

    /// A call's recording, opened, and what it is.
    pub(super) fn audio(&self, call: &Name) -> Result<Option<(File, Receipt)>, Error> {
        let opened = self.root.folder(call.as_str()).and_then(|folder| {
            let audio = folder.file(AUDIO)?;
            Ok((audio, read_receipt(&folder)?))
        });
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// An upload under way. Dropped before it is kept, it leaves nothing behind.
pub(super) struct Staged {
    incoming: Arc<Folder>,
    /// Its folder beside the calls; empty once that is in its place.
    name: String,
    folder: Folder,
    audio: File,
    hash: Sha256,
    length: u64,
}

impl Staged {
    /// Adds to the recording.
    pub(super) fn write(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        for piece in pieces {
            self.audio.write_all(piece)?;
            self.hash.update(piece);
            self.length += piece.len() as u64;
        }
        Ok(())
    }

    /// Writes the description.
    pub(super) fn write_meta(&self, meta: &[u8]) -> io::Result<()> {
        self.write_file(META, meta)
    }

    /// How many bytes the recording has, and their SHA-256.
    pub(super) fn digest(&self) -> (u64, String) {
        (self.length, hex(self.hash.clone()))
    }

    /// The SHA-256 itself.
    pub(super) fn hash(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }

    /// The recording and the description, to be read from their beginning.
    pub(super) fn files(&self) -> io::Result<(File, File)> {
        Ok((self.folder.file(AUDIO)?, self.folder.file(META)?))
    }

    fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.folder.make_file(name)?;
        file.write_all(bytes)?;
        file.sync_all()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        if let Err(error) = self.incoming.remove(&self.name) {
            tracing::warn!(%error, folder = self.name, "an upload that failed could not be removed");
        }
    }
}

/// What is in a call's folder, from its receipt; from the recording itself in a folder that somebody else filled.
fn read_receipt(folder: &Folder) -> io::Result<Receipt> {
    match folder.file(RECEIPT) {
        Ok(file) => {
            let mut text = Vec::new();
            file.take(RECEIPT_MAX_BYTES).read_to_end(&mut text)?;
            Ok(serde_json::from_slice(&text)?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (length, sha256) = measure(folder.file(AUDIO)?)?;
            Ok(Receipt { recording_id: String::new(), length, sha256 })
        }
        Err(error) => Err(error),
    }
}

/// How many bytes are left in a file, and their SHA-256.
pub(crate) fn measure(mut file: File) -> io::Result<(u64, String)> {
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

/// A hash as it is written.
pub(crate) fn hex(hash: Sha256) -> String {
    format!("{:x}", Bytes::copy_from_slice(&hash.finalize()))
}

/// Removes uploads that no living process works on.
fn sweep(incoming: &Folder) {
    let names = match incoming.names() {
        Ok(names) => names,
        Err(error) => return tracing::warn!(%error, "unfinished uploads cannot be listed"),
    };
    for name in names {
        let Some(name) = name.to_str() else { continue };
        let removed = incoming.folder(name).and_then(|folder| match folder.claim()? {
            true => incoming.remove(name).map(|()| true),
            false => Ok(false),
        });
        match removed {
            Ok(true) => tracing::info!(upload = name, "removed an upload that was never finished"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, upload = name, "an unfinished upload could not be removed"),
        }
    }
}
