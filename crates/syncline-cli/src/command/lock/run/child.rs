//! The command as a child: started under its keeper, told of our signals, stopped with all it started.
//!
//! Where no terminal is involved keeper and command have process groups of their own, so that what is sent to our group does
//! not reach them by itself, and everything in the command's group is signalled together. On a terminal they stay in
//! ours, because only the group in front may read from the keyboard; then the command itself is signalled, and Ctrl-C
//! reaches it without our doing.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, getppid, kill_process};
use syncline_client::output;
use syncline_core::lock::Name;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::hold::Hold;
use crate::exit::Exit;

/// As shells say it: it could not be started, and it was not found.
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What a command needs to talk to the node itself, and others need not have.
const TOKEN: &str = "SYNCLINE_TOKEN";

/// A running command.
pub(super) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    own_group: bool,
    signals: Signals,
}

/// How a command ended.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    Code(u8),
    Signal(u8),
}

impl Child {
    pub(super) fn start(
        command: &[OsString],
        name: &Name,
        hold: &Hold,
        hides_token: bool,
    ) -> anyhow::Result<Child> {
        // Listened for before there is a child: none may end us and leave it behind.
        let signals = Signals::listen()?;
        let own_group = !io::stdin().is_terminal();
        let ourselves = std::env::current_exe().context("cannot find this program")?;
        let mut process = tokio::process::Command::new(ourselves);
        process.args(["lock", "keep", &std::process::id().to_string(), "--"]).args(command);
        if hides_token {
            process.env_remove(TOKEN);
        }
        process
            .env("SYNCLINE_LOCK_NAME", name.as_str())
            .env("SYNCLINE_LOCK_TOKEN", hold.token().to_string())
            .env("SYNCLINE_LOCK_LEASE", hold.lease().text());
        if own_group {
            process.process_group(0);
        }
        let process = process.spawn().context("cannot start the command")?;
        let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.context("the command ended before it began")?;
        Ok(Child { process, pid, own_group, signals })
    }

    /// Passes signals on until the command has ended.
    pub(super) async fn ended(&mut self) -> anyhow::Result<Ended> {
        loop {
            let signal = tokio::select! {
                ended = self.process.wait() => return Ok(how(ended.context("cannot wait for the command")?)),
                signal = self.signals.next() => signal,
            };
            // On a terminal the command has got this one as we have.
            if signal != Signal::CHILD && (self.own_group || signal != Signal::INT) {
                self.send(signal);
            }
        }
    }

    /// Asks the command to end, and ends it at `kill_at`.
    pub(super) async fn stop(&mut self, kill_at: Instant) -> anyhow::Result<()> {
        self.send(Signal::TERM);
        if tokio::time::timeout_at(kill_at, self.process.wait()).await.is_err() {
            self.send(Signal::ALARM);
            self.process.wait().await.context("cannot wait for the command")?;
        }
        Ok(())
    }

    fn send(&self, signal: Signal) {
        // Gone already is as good as told.
        let _ = kill_process(self.pid, signal);
    }
}

/// Signals that are the command's to judge, and two that are its keeper's.
pub(super) struct Signals {
    listening: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    pub(super) fn listen() -> anyhow::Result<Signals> {
        let kinds = [
            (Signal::INT, SignalKind::interrupt()),
            (Signal::TERM, SignalKind::terminate()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
            (Signal::ALARM, SignalKind::alarm()),
            (Signal::CHILD, SignalKind::child()),
        ];
        let listening = kinds.into_iter().map(|(number, kind)| Ok((number, signal(kind)?)));
        let listening = listening.collect::<io::Result<_>>().context("cannot listen for signals")?;
        Ok(Signals { listening })
    }

    pub(super) async fn next(&mut self) -> Signal {
        let waiting = self.listening.iter_mut().map(|(number, signal)| {
            Box::pin(async move {
                if signal.recv().await.is_none() {
                    std::future::pending::<()>().await;
                }
                *number
            })
        });
        futures::future::select_all(waiting).await.0
    }
}

/// The rest of `lock exec`: from here on this process is the command, and dies with its keeper.
pub(in crate::command::lock) fn become_command(keeper: u32, command: &[OsString]) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot be tied to the keeper")?;
    if getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(keeper) {
        bail!("the keeper of the command is gone");
    }
    let (program, arguments) = command.split_first().context("no command was given")?;
    let error = std::process::Command::new(program).args(arguments).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
    output::complain(format_args!("cannot start {}: {error}", program.display()));
    Err(Exit(code).into())
}

fn how(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Ended::Signal(signal.and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0)),
    }
}
