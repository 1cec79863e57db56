//! A job that starts a program.
//!
//! No shell stands between: the configured words are the arguments. The program gets a process group of its own, which
//! is killed whole when the attempt ends early, so that nothing keeps running after a time-out. It inherits the
//! environment without the node's secrets. The end of what it printed is kept for the history.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::work::{Done, Failure, Occasion, ending};

/// How much of each output stream is kept.
const OUTPUT_MAX_BYTES: usize = 4 * 1024;

/// Variables a program has no business with.
const SECRETS: [&str; 2] = ["SYNCLINE_TOKEN", "DATABASE_URL"];

/// Runs the program to its end.
pub(super) async fn run(program: &str, arguments: &[String], occasion: &Occasion) -> Result<Done, Failure> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("SYNCLINE_JOB", &occasion.job)
        .env("SYNCLINE_BUCKET", occasion.bucket.to_string())
        .env("SYNCLINE_VIEWERS", occasion.viewers.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for name in SECRETS {
        command.env_remove(name);
    }
    let child = command
        .spawn()
        .map_err(|error| Failure::NotStarted { program: program.to_owned(), problem: error.to_string() })?;
    let mut group = Group::new(child);
    let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
    let (stdout, stderr, ended) = tokio::join!(tail(stdout), tail(stderr), group.child.wait());
    let ended = ended
        .map_err(|error| Failure::NotStarted { program: program.to_owned(), problem: error.to_string() })?;
    group.ended = true;
    if ended.success() {
        Ok(Done { detail: ending(&stdout) })
    } else {
        let said = if stderr.trim().is_empty() { stdout } else { stderr };
        Err(Failure::Exited { status: ended.to_string(), said: ending(&said) })
    }
}

/// The child and all it started; dropped early, none of them survives.
struct Group {
    child: Child,
    pid: Option<Pid>,
    ended: bool,
}

impl Group {
    fn new(child: Child) -> Group {
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Group { child, pid, ended: false }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let (false, Some(pid)) = (self.ended, self.pid) {
            // Gone already is as good as killed.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Reads a stream to its end and keeps the last [`OUTPUT_MAX_BYTES`] of it.
async fn tail(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut kept: Vec<u8> = Vec::new();
    let mut chunk = [0; 4 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        let excess = kept.len().saturating_sub(OUTPUT_MAX_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
