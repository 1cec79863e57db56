//! The keeper: a small process between `lock run` and its command, which ends everything the command started.
//!
//! A process that is killed can end nothing any more, and the kernel ends only its direct child for it. So the keeper is
//! there for what is left: it notices that the holder of the lock is gone, finds every process that the command has started,
//! also those that left its group or whose parents have ended, and kills them. On Linux such processes become the
//! keeper's children; elsewhere it knows the command's process group alone.
//!
//! Signals that `lock run` passes on reach the command through the keeper. SIGALRM is for the keeper itself: the time is
//! up. The keeper ends as the command has ended, a signal as 128 plus its number.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getppid, kill_process, kill_process_group, wait,
};
use syncline_client::output;

use super::child::Signals;
use crate::exit::Exit;

/// How often the keeper looks whether the holder is still there: well within the shortest lease.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long processes may take to be gone after they were killed; who cannot be killed by us is complained of.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const KILL_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Runs the command for `holder`, and ends what it started when it has ended, when the holder is gone or says so.
pub(in crate::command::lock) async fn keep(holder: u32, command: &[OsString]) -> anyhow::Result<()> {
    // Listened for before there is a command: none may end the keeper and leave the command behind.
    let mut signals = Signals::listen()?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("cannot be the keeper")?;
    if !is_our_parent(holder) {
        bail!("the holder of the lock is gone");
    }
    let mut kept = Kept::start(command)?;
    let mut look = tokio::time::interval(LOOK_EVERY);
    let ended = loop {
        if let Some(ended) = kept.reap() {
            break Some(ended);
        }
        tokio::select! {
            signal = signals.next() => match signal {
                Signal::ALARM => break None,
                Signal::CHILD => {}
                signal => kept.send(signal),
            },
            _ = look.tick() => {
                if !is_our_parent(holder) {
                    break None;
                }
            }
        }
    };
    kept.end_all().await;
    match ended.map(|status| (status.exit_status(), status.terminating_signal())) {
        Some((Some(0), _)) => Ok(()),
        Some((Some(code), _)) => Err(Exit(u8::try_from(code).unwrap_or(u8::MAX)).into()),
        Some((_, Some(signal))) => Err(Exit(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))).into()),
        _ => Err(Exit(128 + 9).into()),
    }
}

/// The command and all it has started.
struct Kept {
    pid: Pid,
    own_group: bool,
    ended: Option<WaitStatus>,
}

impl Kept {
    fn start(command: &[OsString]) -> anyhow::Result<Kept> {
        // On a terminal only the group in front may read from the keyboard.
        let own_group = !io::stdin().is_terminal();
        let ourselves = std::env::current_exe().context("cannot find this program")?;
        let mut process = std::process::Command::new(ourselves);
        process.args(["lock", "exec", &std::process::id().to_string(), "--"]).args(command);
        if own_group {
            process.process_group(0);
        }
        let process = process.spawn().context("cannot start the command")?;
        let pid = Pid::from_raw(process.id().cast_signed()).context("the command ended before it began")?;
        Ok(Kept { pid, own_group, ended: None })
    }

    /// Passes a signal on. On a terminal the command has got Ctrl-C as the keeper has.
    fn send(&self, signal: Signal) {
        if self.own_group {
            let _ = kill_process_group(self.pid, signal);
        } else if signal != Signal::INT {
            let _ = kill_process(self.pid, signal);
        }
        if signal == Signal::TERM {
            // Stopped, it could not hear that.
            let send = if self.own_group { kill_process_group } else { kill_process };
            let _ = send(self.pid, Signal::CONT);
        }
    }

    /// Takes note of processes that have ended; tells how the command did, once it has.
    fn reap(&mut self) -> Option<WaitStatus> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.ended = Some(status);
            }
        }
        self.ended
    }

    /// Kills everything that is left, and what that starts meanwhile, until nothing is.
    async fn end_all(&mut self) {
        let give_up = Instant::now() + KILL_TIMEOUT;
        if self.own_group {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        loop {
            let left = descendants(std::process::id());
            if left.is_empty() && self.reap().is_some() {
                return;
            }
            if Instant::now() >= give_up {
                let left: Vec<String> = left.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
                output::complain(format_args!(
                    "processes of the command cannot be ended: {}",
                    left.join(", ")
                ));
                return;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL);
            }
            if self.ended.is_none() {
                let _ = kill_process(self.pid, Signal::KILL);
            }
            self.reap();
            tokio::time::sleep(KILL_AGAIN_AFTER).await;
        }
    }
}

fn is_our_parent(holder: u32) -> bool {
    getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) == Some(holder)
}

/// Every living process that `root` or one of its children has started.
fn descendants(root: u32) -> Vec<Pid> {
    let processes: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&of) = found.get(next) {
        found.extend(processes.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect()
}

/// The parent of a process that has not ended.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?, fields.next()?);
    (state != "Z").then(|| parent.parse().ok())?
}
