//! What can be wrong with a configuration, said so that it can be put right: where, which key, what was expected.
//!
//! All problems of a file are reported together. No message repeats the value of a secret setting.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why there is no configuration to start with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that was named cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Settings that do not mean anything, all of them.
    #[error("{}", join(.0))]
    Invalid(Vec<Problem>),
    /// The node would be open to the network with nothing to prove who calls.
    #[error(
        "refusing to listen on {listen} without a token: set SYNCLINE_TOKEN to a long random text (`openssl rand -hex 32` makes one), or listen on 127.0.0.1"
    )]
    TokenRequired {
        /// The address asked for.
        listen: SocketAddr,
    },
    /// The node would be open to the network with a token that can be guessed.
    #[error(
        "refusing to listen on {listen} with a token of fewer than {min} characters: make one with `openssl rand -hex 32`, or listen on 127.0.0.1"
    )]
    TokenShort {
        /// The address asked for.
        listen: SocketAddr,
        /// The fewest characters.
        min: usize,
    },
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub place: Place,
    /// The setting it is about, with its path: `jobs[1].cron`.
    pub key: String,
    /// What was expected and what was found.
    pub what: String,
    /// What to write instead, where that can be guessed.
    pub hint: Option<String>,
}

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A flag of the command, such as `--listen`.
    Flag(&'static str),
    /// A variable of the environment, such as `SYNCLINE_LISTEN`.
    Environment(&'static str),
    /// A place in a file; lines and columns count from one, columns in characters.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Flag(name) => write!(f, "flag {name}"),
            Place::Environment(name) => write!(f, "environment {name}"),
            Place::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Place::Default => write!(f, "default"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The known word closest to `word`, if one is close enough to have been meant.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const CLOSE_ENOUGH: f64 = 0.84;
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= CLOSE_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
