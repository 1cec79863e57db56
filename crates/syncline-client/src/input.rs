//! Keys from the command line, from a file, or from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::Context;

use crate::output::WrongUse;

/// Longest list that is read. A key a line, this is about a million keys.
const INPUT_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Where the keys come from.
#[derive(clap::Args)]
pub struct Keys {
    /// Each a word of its own, or - for standard input, one a line.
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// A file with one a line; empty lines and lines that begin with # are passed over.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Keys {
    /// All of them, in order. There may be none.
    pub fn read(self) -> anyhow::Result<Vec<String>> {
        self.read_checked(|_| Ok(()))
    }

    /// All of them if `check` takes each; otherwise which one it does not take, by its line, and why.
    fn read_checked(self, check: impl Fn(&str) -> Result<(), String>) -> anyhow::Result<Vec<String>> {
        let mut keys = Vec::new();
        let mut take = |key: String, place: &dyn Fn() -> String| match check(&key) {
            Ok(()) => {
                keys.push(key);
                Ok(())
            }
            Err(reason) => Err(WrongUse(format!("{}: {reason}", place()))),
        };
        if let Some(path) = &self.file {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let read = lines(file).with_context(|| format!("cannot read {}", path.display()))?;
            for (line, key) in read {
                take(key, &|| format!("{}:{line}", path.display()))?;
            }
        }
        for key in self.keys {
            if key == "-" {
                for (line, key) in lines(io::stdin()).context("cannot read standard input")? {
                    take(key, &|| format!("line {line}"))?;
                }
            } else {
                take(key.clone(), &|| format!("{key:?}"))?;
            }
        }
        Ok(keys)
    }

    /// All of them, at least one, if `check` takes each.
    pub fn some_checked(
        self,
        what: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> anyhow::Result<Vec<String>> {
        let keys = self.read_checked(check)?;
        if keys.is_empty() {
            return Err(none(what).into());
        }
        Ok(keys)
    }

    /// All of them, at least one.
    pub fn some(self, what: &str) -> anyhow::Result<Vec<String>> {
        let keys = self.read()?;
        if keys.is_empty() {
            return Err(none(what).into());
        }
        Ok(keys)
    }
}

fn none(what: &str) -> WrongUse {
    WrongUse(format!("there is no {what}: name some, or use --file FILE or -"))
}

/// The keys of a list, each with the number of its line.
fn lines(source: impl Read) -> anyhow::Result<Vec<(usize, String)>> {
    let mut text = String::new();
    source.take(INPUT_MAX_BYTES + 1).read_to_string(&mut text).context("it is not text")?;
    anyhow::ensure!(text.len() as u64 <= INPUT_MAX_BYTES, "it is larger than {INPUT_MAX_BYTES} bytes");
    let lines = text.lines().map(str::trim).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    Ok(keys.map(|(at, key)| (at + 1, key.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_line_by_line_without_remarks() {
        let list = "# my words\ntide\r\n\n  ebb and flow  \n";
        let keys = [(2, "tide".to_owned()), (4, "ebb and flow".to_owned())];
        assert_eq!(lines(list.as_bytes()).unwrap(), keys);
        assert!(lines(&b"\xff"[..]).is_err());
    }

    /// Of thirty thousand lines one was too long: half of them had been added, and nobody said which line it was.
    #[test]
    fn a_list_with_a_wrong_line_is_refused_whole_and_the_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, "# words\na\nlong\nb").unwrap();
        let keys = Keys { keys: vec![], file: Some(path) };
        let check = |key: &str| if key.len() > 1 { Err("is too long".to_owned()) } else { Ok(()) };
        let refused = keys.some_checked("key", check).unwrap_err();
        assert!(
            refused.is::<WrongUse>() && refused.to_string().ends_with("list:3: is too long"),
            "{refused}"
        );
    }

    #[test]
    fn a_file_and_words_are_taken_together_and_nothing_is_wrong_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, "a\nb").unwrap();
        let keys = Keys { keys: vec!["c".into()], file: Some(path) };
        assert_eq!(keys.some("key").unwrap(), ["a", "b", "c"]);
        let none = Keys { keys: vec![], file: None }.some("key").unwrap_err();
        assert!(none.is::<WrongUse>());
        let missing = Keys { keys: vec![], file: Some(folder.path().join("none")) };
        assert!(missing.read().is_err());
    }
}
