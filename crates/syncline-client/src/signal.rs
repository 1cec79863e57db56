//! Being asked to stop: Ctrl-C and SIGTERM, once politely. And SIGHUP, which must not end a service.

use std::io::IsTerminal;

use anyhow::Context;
use tokio::signal::unix::Signal;

/// Ends with the first Ctrl-C or SIGTERM. A second one ends the process at once.
///
/// On a terminal SIGHUP means that the terminal was closed, and stops like the others. Elsewhere somebody asks for the
/// configuration to be read again, which only a new start does: the log says so and nothing changes.
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = closed(&mut hangup) => {}
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
async fn closed(hangup: &mut Signal) {
    let on_terminal = std::io::stderr().is_terminal();
    while hangup.recv().await.is_some() && !on_terminal {
        tracing::warn!(
            "SIGHUP changes nothing: the configuration is read at the start; restart to read it again"
        );
    }
}
