//! Room that is kept for bad times.
//!
//! On a full disk not even "this was sent" can be written, so nothing that would make room could be finished. A file of
//! [`RESERVE_BYTES`] is kept beside the data and given up when the disk is almost full: with what it leaves the worker goes
//! on, sends, removes files, and takes the reserve back once there is room again. Long before that it warns.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// Size of the reserve: some thousand marks of what was sent, and their journal.
pub(super) const RESERVE_BYTES: u64 = 32 * 1024 * 1024;

/// Less free space than this is worth a warning.
pub(super) const LOW_BYTES: u64 = 512 * 1024 * 1024;

/// The reserve is taken where this much is free: on a small disk too, and not again with what it has just left.
const TAKEN_BYTES: u64 = 4 * RESERVE_BYTES;

/// Less free space than this is an emergency.
const SHORT_BYTES: u64 = 16 * 1024 * 1024;

const NAME: &str = ".serversync-reserve";

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Enough.
    Enough,
    /// Less than [`LOW_BYTES`].
    Low,
    /// Hardly any: the reserve is given up, or was before.
    Short,
}

/// A file that takes room until it is needed.
pub(super) struct Reserve {
    folder: PathBuf,
    held: bool,
    room: Room,
}

impl Reserve {
    /// On the disk under `folder`. A reserve that another process left there is taken over.
    pub(super) fn new(folder: &Path) -> Reserve {
        let held = folder.join(NAME).exists();
        Reserve { folder: folder.to_owned(), held, room: Room::Enough }
    }

    /// Looks at the disk, takes or gives up the reserve, says what changed, and tells how many bytes are free.
    pub(super) fn look(&mut self) -> io::Result<u64> {
        let disk = statvfs(&self.folder)?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        let room = room(free_bytes);
        if room == Room::Short {
            self.give_up()?;
        } else if free_bytes >= TAKEN_BYTES && !self.held {
            self.take()?;
        }
        if room != self.room {
            tell(room, free_bytes, &self.folder);
            self.room = room;
        }
        Ok(free_bytes)
    }

    /// Gives the room back, because a write found none.
    pub(super) fn give_up(&mut self) -> io::Result<()> {
        if self.held {
            std::fs::remove_file(self.path())?;
            self.held = false;
            tracing::error!(
                folder = %self.folder.display(),
                "the disk is full: gave up the reserve to go on sending; make room"
            );
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<()> {
        let taken = fill(&self.path());
        if taken.is_err() {
            // Half a reserve is no reserve, and takes room for nothing.
            let _ = std::fs::remove_file(self.path());
        }
        self.held = taken.is_ok();
        taken
    }

    fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }
}

/// Where to keep the reserve: beside the database if that is a file, otherwise in the first folder with files, if any.
pub(super) fn place(database_url: &str, files: Option<&Path>) -> Option<PathBuf> {
    let file = database_url.strip_prefix("sqlite:").map(|path| path.trim_start_matches("//"));
    let file = file.map(|path| path.split('?').next().unwrap_or(path)).filter(|path| !path.starts_with(':'));
    match file.map(|path| Path::new(path).parent().unwrap_or(Path::new(""))) {
        Some(folder) if folder.as_os_str().is_empty() => Some(PathBuf::from(".")),
        Some(folder) => Some(folder.to_owned()),
        None => files.map(Path::to_owned),
    }
}

fn room(free_bytes: u64) -> Room {
    match free_bytes {
        0..SHORT_BYTES => Room::Short,
        SHORT_BYTES..LOW_BYTES => Room::Low,
        _ => Room::Enough,
    }
}

fn tell(room: Room, free_bytes: u64, folder: &Path) {
    let (free_mib, folder) = (free_bytes / (1024 * 1024), folder.display());
    match room {
        Room::Enough => tracing::info!(free_mib, %folder, "there is room on the disk again"),
        Room::Low => {
            tracing::warn!(free_mib, %folder, "the disk is almost full: make room before writes fail");
        }
        Room::Short => tracing::error!(free_mib, %folder, "the disk is full"),
    }
}

/// Makes a file whose blocks are really taken.
fn fill(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
        Ok(()) => {}
        // Not every file system can; writing does the same more slowly.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            for _ in 0..RESERVE_BYTES / ZEROS.len() as u64 {
                file.write_all(&ZEROS)?;
            }
        }
        Err(error) => return Err(error.into()),
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn ss_29_the_disk_is_called_low_long_before_it_is_short() {
        let table = [
            (0, Room::Short),
            (SHORT_BYTES - 1, Room::Short),
            (SHORT_BYTES, Room::Low),
            (LOW_BYTES - 1, Room::Low),
            (LOW_BYTES, Room::Enough),
            (u64::MAX, Room::Enough),
        ];
        for (free_bytes, expected) in table {
            assert_eq!(room(free_bytes), expected, "{free_bytes}");
        }
        const { assert!(RESERVE_BYTES > SHORT_BYTES, "what is given up ends the emergency") };
        const { assert!(TAKEN_BYTES > RESERVE_BYTES + SHORT_BYTES, "and is not taken again at once") };
    }

    #[test]
    fn the_reserve_is_on_the_disk_of_the_database_or_of_the_files() {
        let table = [
            ("sqlite:box.db", "."),
            ("sqlite:data/box.db?mode=rwc", "data"),
            ("sqlite:///var/lib/box/box.db", "/var/lib/box"),
            ("sqlite::memory:", "files"),
            ("postgres://db/box", "files"),
        ];
        for (url, expected) in table {
            assert_eq!(place(url, Some(Path::new("files"))), Some(PathBuf::from(expected)), "{url}");
        }
        assert_eq!(place("postgres://db/box", None), None);
    }

    #[test]
    fn ss_29_the_reserve_takes_real_room_is_given_up_and_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::new(folder.path());
        reserve.take().unwrap();
        let file = folder.path().join(NAME);
        assert!(file.metadata().unwrap().blocks() * 512 >= RESERVE_BYTES, "its blocks are taken");
        let mut next = Reserve::new(folder.path());
        assert!(next.held, "a restart knows it");
        next.give_up().unwrap();
        assert!(!file.exists() && !next.held);
        next.give_up().unwrap();
    }
}
