//! A folder held open by its handle, and what may be done beneath it, one name at a time.
//!
//! Guarantees that nothing outside is ever touched, whatever is renamed, linked or swapped meanwhile: every step goes from a
//! handle to one plain name in it, a symbolic link is an error and never a way, and only regular files are opened.
//! What the names mean is left to others.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Longest tree that is removed: what is deeper is not ours.
const DEPTH_MAX: usize = 8;

const FOLDER_MODE: Mode = Mode::from_raw_mode(0o750);
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
}

impl Folder {
    /// Opens the folder at `path` and makes it where it is missing. The way to it is the operator's: links on it are followed.
    pub fn at(path: &Path) -> io::Result<Folder> {
        std::fs::create_dir_all(path)?;
        Folder::open(path)
    }

    /// Opens the folder at `path`, which must be there. Links on the way are followed.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder { handle: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Opens a folder in this one.
    pub fn folder(&self, name: &str) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Folder { handle: rustix::fs::openat(&self.handle, plain(name)?, flags, Mode::empty())? })
    }

    /// Makes a folder in this one, or opens it if it is there.
    pub fn make_folder(&self, name: &str) -> io::Result<Folder> {
        match rustix::fs::mkdirat(&self.handle, plain(name)?, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => self.folder(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file to read it. Anything else of that name, a pipe for one, is an error and does not block.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.handle, plain(name)?, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{name} is no regular file")));
        }
        Ok(file)
    }

    /// Makes a file that was not there.
    pub fn make_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.handle, plain(name)?, flags, FILE_MODE)?.into())
    }

    /// Moves the folder `name` to `target` under a new name. A target that is there and not empty is an error and stays.
    pub fn move_folder(&self, name: &str, target: &Folder, new_name: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, plain(name)?, &target.handle, plain(new_name)?)?)
    }

    /// Returns when the names in this folder are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.handle)?)
    }

    /// Marks the folder as in use by this process for as long as it is open; `false` if another process has.
    pub fn claim(&self) -> io::Result<bool> {
        match rustix::fs::flock(&self.handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The names in this folder.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Removes `name` and, if it is a folder, all that is in it. A link is removed itself; what it points to stays.
    /// Removing what is not there is no error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.remove_within(name, DEPTH_MAX)
    }

    fn remove_within(&self, name: &str, depth: usize) -> io::Result<()> {
        let name = plain(name)?;
        let kind = match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let flags = if kind.is_dir() {
            if depth == 0 {
                return Err(io::Error::other(format!("folders are nested too deeply below {name}")));
            }
            // If it was swapped for a link since, this fails and nothing is removed.
            let inner = self.folder(name)?;
            for inside in inner.names()? {
                let inside = inside.to_str().ok_or_else(|| io::Error::other("a name is no text"))?.to_owned();
                inner.remove_within(&inside, depth - 1)?;
            }
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        match rustix::fs::unlinkat(&self.handle, name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A name that stays in its folder.
fn plain(name: &str) -> io::Result<&str> {
    let stays = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    stays.then_some(name).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn world() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("outside")).unwrap();
        fs::write(place.path().join("outside/victim"), "kept").unwrap();
        let root = Folder::at(&place.path().join("root")).unwrap();
        (place, root)
    }

    #[test]
    fn ss_27_no_name_leads_out_of_a_folder() {
        let (place, root) = world();
        for name in ["", ".", "..", "../outside", "/etc", "a/b", "a\0b", "outside/victim"] {
            assert!(root.folder(name).is_err(), "{name:?}");
            assert!(root.make_folder(name).is_err(), "{name:?}");
            assert!(root.file(name).is_err(), "{name:?}");
            assert!(root.make_file(name).is_err(), "{name:?}");
            assert!(root.remove(name).is_err() || name == "outside/victim", "{name:?}");
        }
        assert_eq!(fs::read_to_string(place.path().join("outside/victim")).unwrap(), "kept");
        assert!(root.names().unwrap().is_empty());
    }

    #[test]
    fn ss_27_links_are_never_followed_and_only_removed_themselves() {
        let (place, root) = world();
        let inside = place.path().join("root");
        symlink(place.path().join("outside"), inside.join("link")).unwrap();
        symlink(place.path().join("outside/victim"), inside.join("file")).unwrap();
        fs::create_dir(inside.join("call")).unwrap();
        symlink(place.path().join("outside"), inside.join("call/deep")).unwrap();
        assert!(root.folder("link").is_err());
        assert!(root.make_folder("link").is_err());
        assert!(root.file("file").is_err());
        assert!(root.make_file("file").is_err());
        for name in ["link", "file", "call"] {
            root.remove(name).unwrap();
        }
        assert!(root.names().unwrap().is_empty());
        assert_eq!(fs::read_to_string(place.path().join("outside/victim")).unwrap(), "kept");
    }

    #[test]
    fn ss_27_a_pipe_in_place_of_a_file_is_refused_at_once() {
        let (place, root) = world();
        let pipe = place.path().join("root/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, FILE_MODE, 0).unwrap();
        assert!(root.file("pipe").unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn a_folder_is_moved_onto_nothing_and_never_over_something() {
        let (_place, root) = world();
        for name in ["one", "two"] {
            root.make_folder(name).unwrap().make_file("f").unwrap();
        }
        root.move_folder("one", &root, "kept").unwrap();
        assert!(root.move_folder("two", &root, "kept").is_err());
        root.folder("two").unwrap().file("f").unwrap();
    }

    #[test]
    fn a_folder_is_claimed_by_one() {
        let (_place, root) = world();
        let first = root.make_folder("a").unwrap();
        let second = root.folder("a").unwrap();
        assert!(first.claim().unwrap());
        assert!(!second.claim().unwrap());
        drop(first);
        assert!(second.claim().unwrap());
    }
}
