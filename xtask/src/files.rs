//! Folders made whole or not at all, and the fingerprints that tell whether anything changed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Makes the folder `place` new: `fill` writes into a folder beside it, which takes its place only when all went well.
///
/// A reader sees the old folder or the new one, never a half-written one; a failure leaves the old one as it was.
pub(crate) fn replace_folder<T>(place: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let (new, old) = (beside(place, "new"), beside(place, "old"));
    remove_folder(&new)?;
    remove_folder(&old)?;
    fs::create_dir_all(&new).with_context(|| format!("cannot create {}", new.display()))?;
    let filled = fill(&new).inspect_err(|_| drop(remove_folder(&new)))?;
    if place.exists() {
        fs::rename(place, &old).with_context(|| format!("cannot move {} away", place.display()))?;
    }
    fs::rename(&new, place).with_context(|| format!("cannot put {} in place", place.display()))?;
    remove_folder(&old)?;
    Ok(filled)
}

/// Waits until no other run of this program works on `subject`; the lock goes with the returned file.
pub(crate) fn exclusive(notes: &Path, subject: &str) -> Result<File> {
    fs::create_dir_all(notes).with_context(|| format!("cannot create {}", notes.display()))?;
    let path = notes.join(format!("{subject}.lock"));
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Copies all files below `from` into `to`, which may exist.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for file in tree(from)? {
        let target = to.join(&file);
        let folder = target.parent().expect("a joined path has a parent");
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::copy(from.join(&file), &target).with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

/// All files below `folder`, relative to it, in a fixed order.
pub(crate) fn tree(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(folder, Path::new(""), &mut files)
        .with_context(|| format!("cannot read {}", folder.display()))?;
    files.sort();
    Ok(files)
}

/// Removes what an earlier run has written, so that it is never taken for what this one should write.
pub(crate) fn forget(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// The SHA-256 of one file, in hexadecimal.
pub(crate) fn sha256(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(hex(&Sha256::digest(bytes)))
}

/// One fingerprint of many things; each is told apart from its neighbours by its length.
#[derive(Default)]
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// Adds the names and contents of all files below `folder`.
    pub(crate) fn add_tree(&mut self, folder: &Path) -> Result<()> {
        for file in tree(folder)? {
            self.add(file.as_os_str().as_encoded_bytes());
            self.add(
                &fs::read(folder.join(&file)).with_context(|| format!("cannot read {}", file.display()))?,
            );
        }
        Ok(())
    }

    pub(crate) fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn beside(place: &Path, suffix: &str) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn collect(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn print_of(folder: &Path) -> String {
        let mut print = Fingerprint::default();
        print.add_tree(folder).unwrap();
        print.hex()
    }

    #[test]
    fn a_folder_is_replaced_as_a_whole() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("pkg");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("stale.js"), "old").unwrap();
        replace_folder(&place, |new| Ok(fs::write(new.join("fresh.js"), "new")?)).unwrap();
        assert_eq!(tree(base.path()).unwrap(), [Path::new("pkg/fresh.js")]);
    }

    #[test]
    fn a_failure_leaves_the_folder_as_it_was() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("pkg");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("kept.js"), "old").unwrap();
        let result = replace_folder(&place, |new| -> Result<()> {
            fs::write(new.join("half.js"), "ne")?;
            bail!("the build broke")
        });
        assert_eq!(result.unwrap_err().to_string(), "the build broke");
        assert_eq!(tree(base.path()).unwrap(), [Path::new("pkg/kept.js")]);
    }

    #[test]
    fn a_fingerprint_changes_with_a_name_and_with_a_byte() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("js")).unwrap();
        fs::write(base.path().join("js/a.js"), "1").unwrap();
        let first = print_of(base.path());
        assert_eq!(first, print_of(base.path()));
        fs::write(base.path().join("js/a.js"), "2").unwrap();
        let second = print_of(base.path());
        fs::rename(base.path().join("js/a.js"), base.path().join("js/b.js")).unwrap();
        let third = print_of(base.path());
        assert!(first != second && second != third && first != third);
    }

    #[test]
    fn a_copied_tree_has_the_same_files() {
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        fs::create_dir_all(from.join("icons")).unwrap();
        fs::write(from.join("manifest.json"), "{}").unwrap();
        fs::write(from.join("icons/16.png"), "png").unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(print_of(&from), print_of(&to));
    }

    #[test]
    fn an_old_report_is_forgotten_and_none_is_no_error() {
        let base = tempfile::tempdir().unwrap();
        let report = base.path().join("junit.xml");
        forget(&report).unwrap();
        fs::write(&report, "old").unwrap();
        forget(&report).unwrap();
        assert!(!report.exists());
        assert!(forget(base.path()).is_err(), "a folder is no report");
    }

    #[test]
    fn sha256_is_the_one_that_sha256sum_prints() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("abc"), "abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&base.path().join("abc")).unwrap(), known);
    }
}
