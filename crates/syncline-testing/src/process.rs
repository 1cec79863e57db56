//! The real programs as processes, and just enough HTTP to talk to them byte by byte.
//!
//! [`Node`] is `syncline serve` in a folder of its own, with the systems and those apps that the test's environment
//! names. [`syncline`] and [`serversync`] make commands. All of them begin with none of the tester's own settings.
//!
//! The programs are those that the last build put beside the test's own executable. A run of the whole workspace builds
//! them first; a run of one package does not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Long enough for any machine; reaching it fails the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program is left of the tester's environment: where programs and folders are.
const KEPT: [&str; 6] = ["PATH", "HOME", "TMPDIR", "LANG", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"];

/// `syncline` with nothing of the tester's own settings, in a folder of its own.
pub fn syncline(folder: &Path, arguments: &[&str]) -> Command {
    bare(&program("syncline"), folder, arguments)
}

/// `serversync`, likewise.
pub fn serversync(folder: &Path, arguments: &[&str]) -> Command {
    bare(&program("serversync"), folder, arguments)
}

/// Where a program of this tree is: tests are built into a folder below that of the programs.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join(name);
    let path = program.display();
    assert!(program.exists(), "{path} is missing: run `cargo build --package syncline-cli` first");
    program
}

fn bare(program: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env_clear().envs(kept());
    command
}

fn kept() -> impl Iterator<Item = (&'static str, String)> {
    KEPT.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)))
}

/// How often or how many: what the variable says, or the number of the quick run.
pub fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |number| number.parse().unwrap())
}

/// Runs `syncline` to its end.
pub fn run(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    syncline(folder, arguments).envs(environment.iter().copied()).output().unwrap()
}

/// A node that runs as a process of its own. It is killed when it is dropped.
pub struct Node {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its folder: its file, its log and its data.
    pub folder: TempDir,
}

impl Node {
    /// Starts a node told what `file`, a `syncline.toml`, says.
    pub fn start(file: &str) -> Node {
        Node::start_in(tempfile::tempdir().unwrap(), file, &[])
    }

    /// Starts a node in a folder, which an earlier node may have left, with more environment.
    pub fn start_in(folder: TempDir, file: &str, environment: &[(&str, &str)]) -> Node {
        let mut serve = syncline(folder.path(), &["serve"]);
        serve.env("SYNCLINE_LISTEN", "127.0.0.1:0").envs(environment.iter().copied());
        Node::spawn(serve, folder, file)
    }

    /// Starts a node by a shell command in which `"$0" serve` is the node.
    pub fn start_by(command: &str, file: &str, environment: &[(&str, &str)]) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = bare(Path::new("sh"), folder.path(), &["-c", command]);
        shell
            .arg(program("syncline"))
            .env("SYNCLINE_LISTEN", "127.0.0.1:0")
            .envs(environment.iter().copied());
        Node::spawn(shell, folder, file)
    }

    fn spawn(mut serve: Command, folder: TempDir, file: &str) -> Node {
        std::fs::write(folder.path().join("syncline.toml"), file).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(folder.path().join("log")).unwrap();
        let mut child = serve.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim_end().strip_prefix("listening on http://").map(str::to_owned);
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
        let address = address.unwrap_or_else(|| panic!("the first line is {first:?}\n{}", log()));
        Node { child, address: address.parse().unwrap(), folder }
    }

    /// Its address for commands and other nodes.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The process's number, as its children see it.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// A connection to it.
    pub fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// One request on a connection of its own: the status and the body.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        ask(self.address, method, path, headers, body)
    }

    /// The JSON at a path.
    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &[], "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Sends a heartbeat; its status.
    pub fn beat(&self, id: &str) -> u16 {
        self.ask("POST", "/api/viewer", &[], &format!("{{\"sessionId\":\"{id}\"}}")).0
    }

    /// Waits until so many keys of a queue have ever ended well. A real pace may take longer than any patience, so the
    /// runner's own time-out is the only limit.
    pub fn wait_for_queue(&self, queue: &str, done: u64) {
        while self.get(&format!("/api/queues/{queue}"))["done_total"].as_u64().unwrap() < done {
            // The node has better things to do than to answer this all the time.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Kills it as a power cut would, and keeps its folder.
    pub fn kill(mut self) -> TempDir {
        self.signal(Signal::KILL);
        self.ended();
        self.into_folder()
    }

    /// What is left of a node that has ended.
    pub fn into_folder(mut self) -> TempDir {
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    /// What it has logged, in all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// One request on a connection of its own: the status and the body.
pub fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut stream = connect(address);
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    answer(stream)
}

/// Reads an answer to its end.
pub fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
