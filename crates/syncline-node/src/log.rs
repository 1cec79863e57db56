//! The log: one line per event on standard error, for eyes on a terminal and as JSON anywhere else.
//!
//! Secrets are kept out by type ([`crate::secret::Secret`]); the writer here is the last gate, which also covers
//! what other crates put into their messages.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::TryInitError;

use crate::config::{Log, LogFormat};
use crate::secret::REDACTED;

/// Texts shorter than this are not searched for: they would hide half of every line and protect nothing.
const SECRET_MIN_BYTES: usize = 6;

/// Starts logging for the whole process, without `secrets`, panics included. To be called once, before anything else starts.
pub fn start(log: &Log, secrets: Vec<String>) -> Result<(), TryInitError> {
    use tracing_subscriber::util::SubscriberInitExt;

    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, "a panic, which is a bug in this program: {what}");
    }));
    let terminal = io::stderr().is_terminal();
    let json = match log.format {
        LogFormat::Auto => !terminal,
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let writer = Redacting::new(io::stderr, secrets);
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    if json {
        builder.json().flatten_event(true).with_ansi(false).finish().try_init()
    } else {
        let colours = terminal && std::env::var_os("NO_COLOR").is_none();
        builder.with_ansi(colours).with_target(false).finish().try_init()
    }
}

/// Writes lines with every known secret replaced.
struct Redacting<W> {
    inner: W,
    secrets: Arc<[String]>,
}

impl<W> Redacting<W> {
    fn new(inner: W, secrets: Vec<String>) -> Redacting<W> {
        let long = secrets.into_iter().filter(|secret| secret.len() >= SECRET_MIN_BYTES);
        // A JSON line has the escaped form of a secret with quotes or backslashes in it.
        let spellings = long.flat_map(|secret| {
            let escaped = serde_json::Value::from(secret.as_str()).to_string();
            let escaped = escaped[1..escaped.len() - 1].to_owned();
            if escaped == secret { vec![secret] } else { vec![secret, escaped] }
        });
        Redacting { inner, secrets: spellings.collect() }
    }
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Redacting<W> {
    type Writer = RedactingLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactingLine { inner: self.inner.make_writer(), secrets: Arc::clone(&self.secrets) }
    }
}

/// One line: the formatter hands each event over in one piece.
struct RedactingLine<W> {
    inner: W,
    secrets: Arc<[String]>,
}

impl<W: Write> Write for RedactingLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        if self.secrets.iter().any(|secret| text.contains(secret.as_str())) {
            let clean = self
                .secrets
                .iter()
                .fold(text.into_owned(), |text, secret| text.replace(secret.as_str(), REDACTED));
            self.inner.write_all(clean.as_bytes())?;
        } else {
            self.inner.write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_line_shows_a_secret_whoever_wrote_it() {
        let memory = Memory::default();
        let sink = memory.clone();
        let writer = Redacting::new(
            move || sink.clone(),
            vec!["canary-\"quoted\"".into(), "canary-plain".into(), "a".into()],
        );
        let subscriber = tracing_subscriber::fmt().json().with_writer(writer).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(url = "https://x/?k=canary-plain", "a call with canary-\"quoted\" failed");
            tracing::info!("a harmless line");
        });
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(!written.contains("canary"), "{written}");
        assert_eq!(written.matches(REDACTED).count(), 2, "{written}");
        assert!(written.contains("a harmless line"), "{written}");
    }
}
