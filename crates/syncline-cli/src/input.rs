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
pub(crate) struct Keys {
    /// Each a word of its own, or - for standard input, one a line.
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// A file with one a line; empty lines and lines that begin with # are passed over.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Keys {
    /// All of them, in order. There may be none.
    pub(crate) fn read(self) -> anyhow::Result<Vec<String>> {
        let mut keys = Vec::new();
        if let Some(path) = &self.file {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            keys.extend(lines(file).with_context(|| format!("cannot read {}", path.display()))?);
        }
        for key in self.keys {
            match key.as_str() {
                "-" => keys.extend(lines(io::stdin()).context("cannot read standard input")?),
                _ => keys.push(key),
            }
        }
        Ok(keys)
    }

    /// All of them, at least one.
    pub(crate) fn some(self, what: &str) -> anyhow::Result<Vec<String>> {
        let keys = self.read()?;
        if keys.is_empty() {
            return Err(WrongUse(format!("there is no {what}: name some, or use --file FILE or -")).into());
        }
        Ok(keys)
    }
}

fn lines(source: impl Read) -> anyhow::Result<Vec<String>> {
    let mut text = String::new();
    source.take(INPUT_MAX_BYTES + 1).read_to_string(&mut text).context("it is not text")?;
    anyhow::ensure!(text.len() as u64 <= INPUT_MAX_BYTES, "it is larger than {INPUT_MAX_BYTES} bytes");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_line_by_line_without_remarks() {
        let list = "# my shelf\n9784990000004\r\n\n  978-4-00-000007-9  \n";
        assert_eq!(lines(list.as_bytes()).unwrap(), ["9784990000004", "978-4-00-000007-9"]);
        assert!(lines(&b"\xff"[..]).is_err());
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
