//! Being asked to stop: Ctrl-C and SIGTERM, once politely. And SIGHUP, which must not end a service.

use std::io::IsTerminal;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ends with the first Ctrl-C or SIGTERM. A second one ends the process at once.
///
/// On a terminal SIGHUP means that the terminal was closed, and stops like the others. Elsewhere somebody asks for the
/// configuration to be read again, which only a new start does: the log says so and nothing changes.
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    stopping(false)
}

/// The same for a service that reads its configuration again, for which it listens to [`reload_signal`] itself.
pub fn stop_signal_of_reloading() -> anyhow::Result<impl Future<Output = ()>> {
    stopping(true)
}

/// Tells each time somebody asks for the configuration to be read again: SIGHUP, but on a terminal.
pub fn reload_signal() -> anyhow::Result<impl AsyncFnMut()> {
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    Ok(async move || {
        if std::io::stderr().is_terminal() || hangup.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    })
}

fn stopping(reloads: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = closed(&mut hangup, reloads) => {}
        }
        tracing::info!("stopping; once more to stop at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(1);
        });
    })
}

/// Ends when the terminal was closed.
async fn closed(hangup: &mut Signal, reloads: bool) {
    let on_terminal = std::io::stderr().is_terminal();
    while hangup.recv().await.is_some() && !on_terminal {
        if !reloads {
            tracing::warn!(
                "SIGHUP changes nothing: the configuration is read at the start; restart to read it again"
            );
        }
    }
}
