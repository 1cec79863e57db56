//! A few processes that live and die together.
//!
//! Guarantees: each line of their output is shown with the name of its process; nothing outlives the [`World`]; a
//! process that dies is named with its last lines. Each runs in a process group of its own, so that Ctrl-C reaches
//! this program alone, which then stops the others in order.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use console::style;
use rustix::process::{Pid, Signal, kill_process};

use crate::{command, screen};

/// How long a process may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a process may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// What to start, and how to see that it is ready.
pub(super) struct Process {
    pub(super) name: &'static str,
    /// Its first line of output must be `listening on <address>`, if it has a path to ask.
    pub(super) command: Command,
    /// The path that answers 200 when it is ready; without one it is ready at once, and has no address.
    pub(super) ready_path: Option<&'static str>,
}

pub(super) struct World {
    running: Vec<Running>,
    interrupts: Receiver<()>,
}

struct Running {
    name: &'static str,
    child: Child,
    last: Arc<Mutex<VecDeque<String>>>,
}

/// Why waiting ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Reached,
    Interrupted,
}

impl World {
    /// An empty world that Ctrl-C ends.
    pub(super) fn new() -> Result<World> {
        Ok(World { running: Vec::new(), interrupts: command::interrupts()? })
    }

    /// Starts a process and waits until it is ready; its address, or `None` when the user interrupted.
    pub(super) fn start(&mut self, process: Process) -> Result<Option<String>> {
        let Process { name, mut command, ready_path } = process;
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{}`", command::line(&command)))?;
        let last = Arc::default();
        let (first, first_line) = mpsc::channel();
        show(name, child.stdout.take(), &last, Some(first));
        show(name, child.stderr.take(), &last, None);
        self.running.push(Running { name, child, last });

        let Some(ready_path) = ready_path else { return Ok(Some(String::new())) };
        let mut address = None;
        let deadline = Instant::now() + START_LIMIT;
        let ended = self.until(|| {
            address = address.take().or_else(|| first_line.try_recv().ok());
            let ready = address.as_deref().is_some_and(|line| answers(listening(line), ready_path));
            if !ready && Instant::now() >= deadline {
                bail!("{name} was not ready after {} s", START_LIMIT.as_secs());
            }
            Ok(ready)
        })?;
        Ok(match ended {
            Ended::Reached => address.map(|line| format!("http://{}", listening(&line))),
            Ended::Interrupted => None,
        })
    }

    /// Lets everything run until the user interrupts; a process that dies is an error.
    pub(super) fn until_stopped(mut self) -> Result<()> {
        self.until(|| Ok(false)).map(drop)
    }

    fn until(&mut self, mut reached: impl FnMut() -> Result<bool>) -> Result<Ended> {
        loop {
            match self.interrupts.recv_timeout(POLL) {
                Ok(()) => return Ok(Ended::Interrupted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
            }
            for running in &mut self.running {
                if let Some(status) = running.child.try_wait().context("cannot look after a process")? {
                    bail!(running.obituary(status));
                }
            }
            if reached()? {
                return Ok(Ended::Reached);
            }
        }
    }
}

impl Drop for World {
    /// In reverse order, so that nobody loses what it depends on before it has ended itself.
    fn drop(&mut self) {
        for running in self.running.iter_mut().rev() {
            running.stop(&self.interrupts);
        }
    }
}

impl Running {
    fn stop(&mut self, interrupts: &Receiver<()>) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        screen::note(&format!("stopping {}", self.name));
        // A failure means that it ended in this very moment, which is what was wanted.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) {
            // Who presses Ctrl-C again wants out.
            if Instant::now() >= deadline || interrupts.try_recv().is_ok() {
                screen::note(&format!("{} did not stop in time and is killed", self.name));
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(POLL);
        }
    }

    fn obituary(&self, status: ExitStatus) -> String {
        // Its last words may still be on their way through the pipe.
        thread::sleep(POLL);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let words: String = last.iter().map(|line| format!("\n    {line}")).collect();
        format!("{} ended ({status}); its last lines:{words}", self.name)
    }
}

/// Shows what a process prints, remembers the end of it, and hands over its first line.
fn show(
    name: &'static str,
    pipe: Option<impl Read + Send + 'static>,
    last: &Arc<Mutex<VecDeque<String>>>,
    mut first: Option<Sender<String>>,
) {
    let Some(pipe) = pipe else { return };
    let last = Arc::clone(last);
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            println!("{} {line}", style(format!("{name:>6} |")).dim());
            if let Some(first) = first.take() {
                // Nobody waits for it any more when the start was given up.
                let _ = first.send(line.clone());
            }
            command::remember(&mut last.lock().unwrap_or_else(PoisonError::into_inner), line);
        }
    });
}

/// The address in `listening on http://127.0.0.1:3000`; anything else has none, and is never ready.
fn listening(line: &str) -> &str {
    line.trim().strip_prefix("listening on http://").unwrap_or_default()
}

/// Whether `GET path` is answered with 200.
fn answers(address: &str, path: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status)?;
        Ok(status)
    };
    ask().is_ok_and(|status| status.starts_with("HTTP/1.1 200"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A world that is interrupted through the returned sender instead of a key.
    fn world() -> (World, Sender<()>) {
        let (interrupt, interrupts) = mpsc::channel();
        (World { running: Vec::new(), interrupts }, interrupt)
    }

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process { name: "shell", command, ready_path: Some("/readyz") }
    }

    /// Answers every request with 503 at first and with 200 from the third on, as a starting server does.
    fn slow_starter() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let mut reader = BufReader::new(stream);
                let mut request = String::new();
                while reader.read_line(&mut request).is_ok_and(|read| read > 2) {}
                assert!(request.starts_with("GET /readyz HTTP/1.1\r\n"), "{request}");
                let status = if number < 2 { "503 Service Unavailable" } else { "200 OK" };
                write!(reader.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
        });
        address
    }

    #[test]
    fn a_process_is_ready_when_it_says_so_over_http() {
        let (mut world, _interrupt) = world();
        let address = slow_starter();
        let started =
            world.start(shell(&format!("echo listening on http://{address}; exec sleep 1000"))).unwrap();
        assert_eq!(started, Some(format!("http://{address}")));
    }

    #[test]
    fn a_process_that_dies_is_named_with_its_last_words() {
        let (mut world, _interrupt) = world();
        let error =
            world.start(shell("echo starting; echo 'no room left' >&2; exit 2")).unwrap_err().to_string();
        assert!(error.starts_with("shell ended (exit status: 2)"), "{error}");
        assert!(error.contains("no room left"), "{error}");
    }

    #[test]
    fn an_interrupt_stops_every_process_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (mut world, interrupt) = world();
        for name in ["first", "second"] {
            let address = slow_starter();
            let trap = format!("trap 'echo {name} >> {}/ends; exit 0' TERM", folder.path().display());
            let script = format!("{trap}; echo listening on http://{address}; while :; do sleep 0.05; done");
            world.start(shell(&script)).unwrap();
        }
        interrupt.send(()).unwrap();
        world.until_stopped().unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("ends")).unwrap(), "second\nfirst\n");
    }

    #[test]
    fn a_second_interrupt_kills_who_does_not_stop() {
        let (mut world, interrupt) = world();
        let address = slow_starter();
        world
            .start(shell(&format!(
                "trap '' TERM; echo listening on http://{address}; while :; do sleep 0.05; done"
            )))
            .unwrap();
        let pid = Pid::from_child(&world.running[0].child);
        interrupt.send(()).unwrap();
        interrupt.send(()).unwrap();
        world.until_stopped().unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err(), "it must be gone");
    }

    #[test]
    fn only_a_line_in_the_agreed_form_holds_an_address() {
        assert_eq!(listening("listening on http://127.0.0.1:41234\n"), "127.0.0.1:41234");
        assert_eq!(listening("Listening at 3000"), "");
    }
}
