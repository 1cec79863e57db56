//! A job that starts a program.
//!
//! No shell stands between: the configured words are the arguments. The program gets a process group of its own, which
//! is killed whole when the attempt ends early, so that nothing keeps running after a time-out. It inherits the
//! environment without what may be a secret, unless the job names it. The end of what it printed is kept for the
//! history. When the program itself has ended the attempt has, too: what it left in the background may keep its output
//! open for as long as it likes.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use syncline_core::text::excerpt_of_end;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::work::{Done, Failure, Firing};
use crate::secret::is_secret_variable;

/// How much of each output stream is kept.
const OUTPUT_MAX_BYTES: usize = 4 * 1024;

/// How long after the program's end its last output may take to come.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs the program to its end.
pub(super) async fn run(
    program: &str,
    arguments: &[String],
    env: &[String],
    firing: &Firing,
) -> Result<Done, Failure> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("SYNCLINE_JOB", &firing.job)
        .env("SYNCLINE_BUCKET", firing.bucket.to_string())
        .env("SYNCLINE_VIEWERS", firing.viewers.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if is_secret_variable(&text) && !env.iter().any(|passed| *passed == text) {
            command.env_remove(name);
        }
    }
    let child = command
        .spawn()
        .map_err(|error| Failure::NotStarted { program: program.to_owned(), problem: error.to_string() })?;
    let mut group = Group::new(child);
    let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let ended = {
        let output = async { tokio::join!(tail(stdout, &mut said), tail(stderr, &mut complained)) };
        tokio::pin!(output);
        tokio::select! {
            ended = group.child.wait() => {
                // A program that is left in the background has the same output; it is not waited for.
                let _ = tokio::time::timeout(OUTPUT_TIMEOUT, &mut output).await;
                ended
            }
            _ = &mut output => group.child.wait().await,
        }
    };
    let (stdout, stderr) = (text(&said), text(&complained));
    let ended = ended
        .map_err(|error| Failure::NotStarted { program: program.to_owned(), problem: error.to_string() })?;
    group.ended = true;
    if ended.success() {
        Ok(Done { detail: excerpt_of_end(&stdout) })
    } else {
        let said = if stderr.trim().is_empty() { stdout } else { stderr };
        Err(Failure::Exited { status: ended.to_string(), said: excerpt_of_end(&said) })
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
async fn tail(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = [0; 4 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        let excess = kept.len().saturating_sub(OUTPUT_MAX_BYTES);
        kept.drain(..excess);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
