//! The two programs under test, and just enough HTTP to talk to it byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Long enough for any machine; reaching it fails the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with nothing of the tester's own settings, in a folder of its own.
pub(crate) fn syncline(folder: &Path, arguments: &[&str]) -> Command {
    bare(env!("CARGO_BIN_EXE_syncline"), folder, arguments)
}

/// The other program, likewise.
pub(crate) fn serversync(folder: &Path, arguments: &[&str]) -> Command {
    bare(env!("CARGO_BIN_EXE_serversync"), folder, arguments)
}

fn bare(program: &str, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let prefixes = ["SYNCLINE_", "SYNC_", "RAKUTEN_", "RECORDINGS_"];
    let ours = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix)) || name.ends_with("_URL");
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// How often or how many: what the variable says, or the number of the quick run.
pub(crate) fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |number| number.parse().unwrap())
}

/// Runs the program to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    syncline(folder, arguments).envs(environment.iter().copied()).output().unwrap()
}

/// The apps that nodes under test have, unless a test says otherwise.
const APPS: &str = "bookshelf,calls,gallery";

/// A running node.
pub(crate) struct Node {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
}

impl Node {
    /// Starts a node told what `file`, a `syncline.toml`, says.
    pub(crate) fn start(file: &str) -> Node {
        Node::start_in(tempfile::tempdir().unwrap(), file, &[])
    }

    pub(crate) fn start_in(folder: TempDir, file: &str, environment: &[(&str, &str)]) -> Node {
        let mut serve = syncline(folder.path(), &["serve"]);
        serve
            .env("SYNCLINE_LISTEN", "127.0.0.1:0")
            .env("SYNCLINE_APPS", APPS)
            .envs(environment.iter().copied());
        Node::run(serve, folder, file)
    }

    /// Starts a node to which the system gives no more than `memory_kb` of memory for its data.
    pub(crate) fn start_limited(memory_kb: u64, file: &str) -> Node {
        Node::start_by(&format!("ulimit -d {memory_kb} && exec \"$0\" serve"), file)
    }

    /// Starts a node by a shell command in which `"$0" serve` is the node.
    pub(crate) fn start_by(command: &str, file: &str) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let serve = syncline(folder.path(), &["serve"]);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).arg(serve.get_program()).current_dir(folder.path()).stdin(Stdio::null());
        for (name, _) in serve.get_envs() {
            shell.env_remove(name);
        }
        shell.env("SYNCLINE_LISTEN", "127.0.0.1:0").env("SYNCLINE_APPS", APPS);
        Node::run(shell, folder, file)
    }

    fn run(mut serve: Command, folder: TempDir, file: &str) -> Node {
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

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The process's number, as its children see it.
    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// One request on a connection of its own: the status and the body.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        ask(self.address, method, path, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &[], "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) fn beat(&self, id: &str) -> u16 {
        self.ask("POST", "/api/viewer", &[], &format!("{{\"sessionId\":\"{id}\"}}")).0
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Kills it as a power cut would, and keeps its folder.
    pub(crate) fn kill(mut self) -> TempDir {
        self.signal(Signal::KILL);
        self.ended();
        self.into_folder()
    }

    /// What is left of a node that has ended.
    pub(crate) fn into_folder(mut self) -> TempDir {
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    pub(crate) fn log(&self) -> String {
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
pub(crate) fn ask(
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
pub(crate) fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Whether the other side has closed, without waiting for it.
pub(crate) fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0; 1]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}
