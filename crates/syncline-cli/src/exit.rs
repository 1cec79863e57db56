//! With which exit code the programs end: 0 done, 1 failed, 2 wrong use or configuration.

use std::process::ExitCode;

use syncline_client::output::{self, Shown, WrongUse};
use syncline_node::StartError;
use syncline_node::config;
use syncline_node::outbox::InvalidSettings;

/// What was run ended with this code, which is passed on in silence.
#[derive(Debug, thiserror::Error)]
#[error("ended with {0}")]
pub(crate) struct Exit(pub(crate) u8);

/// Says why it went wrong and with which code the process ends.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let wrong_use = error.is::<WrongUse>()
        || error.is::<config::Error>()
        || error.is::<InvalidSettings>()
        || error.downcast_ref().is_some_and(is_wrong_setting);
    if let Some(Exit(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if !error.is::<Shown>() {
        output::complain(format_args!("{error:#}"));
    }
    ExitCode::from(if wrong_use { 2 } else { 1 })
}

/// Whether a start failed for a reason that only another setting, or another table, can mend.
fn is_wrong_setting(error: &StartError) -> bool {
    use syncline_store::Error;

    matches!(error, StartError::Store { cause: Error::Address { .. } | Error::Unfit { .. } })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};

    use super::*;

    fn printed(error: impl std::error::Error + Send + Sync + 'static) -> String {
        format!("{:#}", anyhow::Error::from(error))
    }

    /// Every start error said everything twice: the message held its cause, and the cause was printed after it.
    #[test]
    fn no_clause_of_an_error_is_printed_twice() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let store = || "sqlite:box.db".to_owned();
        let errors = [
            printed(StartError::Listen { address: "127.0.0.1:80".parse().unwrap(), cause: denied() }),
            printed(StartError::Data { path: "data".into(), cause: denied() }),
            printed(StartError::from(syncline_store::Error::Missing { store: store() })),
            printed(syncline_store::Error::Denied { store: store(), reason: "no".to_owned() }),
            printed(config::Error::Unreadable { path: "syncline.toml".into(), cause: denied() }),
            printed(WrongUse("so not".to_owned())),
        ];
        for said in errors {
            let clauses: Vec<&str> =
                said.split([':', '(', ')']).map(str::trim).filter(|c| !c.is_empty()).collect();
            let distinct: std::collections::BTreeSet<&&str> = clauses.iter().collect();
            assert_eq!(distinct.len(), clauses.len(), "{said}");
        }
    }

    /// The rule behind it, for every error there is: what a message says of its cause, it does not pass on as its source.
    #[test]
    fn a_message_holds_its_cause_or_passes_it_on_and_never_both() {
        let mut seen = 0;
        for part in ["store", "node", "client", "cli"] {
            let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
                .join(format!("syncline-{part}/src"));
            for file in files(&root) {
                let text = fs::read_to_string(&file).unwrap();
                for variant in text.split("#[error(").skip(1) {
                    seen += 1;
                    let (message, rest) = variant.split_once(")]").unwrap_or((variant, ""));
                    let fields = rest.split("#[error(").next().unwrap_or_default();
                    let fields = fields.split("\n}\n").next().unwrap_or_default();
                    let has_source =
                        ["#[from]", "#[source]", " source:"].iter().any(|mark| fields.contains(mark));
                    let says_it = message.contains("{0}") || message.contains("source");
                    assert!(!(has_source && says_it), "{}: {message}", file.display());
                }
            }
        }
        assert!(seen > 50, "{seen}");
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        let sources = files.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
        sources.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
    }
}
