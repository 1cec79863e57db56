//! Front ends to send to: one in another language, and one that answers what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use syncline_testing::process::ask;

use crate::call_box::Frontend;

/// A front end in Python, which knows the contract and nothing of ours.
pub(crate) struct Plain {
    child: Child,
    address: SocketAddr,
}

impl Plain {
    pub(crate) fn start() -> Plain {
        Plain::start_with(&[])
    }

    /// One that states neither length nor SHA-256 of what it stored.
    pub(crate) fn start_without_statements() -> Plain {
        Plain::start_with(&["--file-url-only"])
    }

    fn start_with(arguments: &[&str]) -> Plain {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/plain_frontend.py");
        let mut child =
            Command::new("python3").arg(script).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim_end().strip_prefix("listening on http://").unwrap().parse().unwrap();
        Plain { child, address }
    }

    pub(crate) fn url(&self) -> Frontend<'static> {
        Frontend::Url(format!("http://{}", self.address))
    }

    /// What it has got.
    pub(crate) fn seen(&self) -> Value {
        let (status, body) = ask(self.address, "GET", "/seen", &[], "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers every request by a script: from its path to a status, headers and a body. Bodies are read to their end.
pub(crate) struct Scripted {
    address: SocketAddr,
    paths: Arc<Mutex<Vec<String>>>,
    bytes: Arc<Mutex<u64>>,
}

impl Scripted {
    pub(crate) fn start(
        script: impl Fn(&str) -> (String, String, String) + Send + Sync + 'static,
    ) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (paths, bytes) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<u64>>::default());
        let (script, seen, counted) = (Arc::new(script), Arc::clone(&paths), Arc::clone(&bytes));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, seen, counted) = (Arc::clone(&script), Arc::clone(&seen), Arc::clone(&counted));
                std::thread::spawn(move || {
                    let Some((path, length)) = receive(&stream) else { return };
                    seen.lock().unwrap().push(path.clone());
                    *counted.lock().unwrap() += length;
                    let (status, headers, body) = script(&path);
                    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n", body.len());
                    // Who stopped asking does not want to know.
                    let _ = (&stream).write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes());
                });
            }
        });
        Scripted { address, paths, bytes }
    }

    pub(crate) fn url(&self) -> Frontend<'static> {
        Frontend::Url(format!("http://{}", self.address))
    }

    /// What was asked for.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.paths.lock().unwrap().clone()
    }

    /// The bytes of all bodies.
    pub(crate) fn bytes(&self) -> u64 {
        *self.bytes.lock().unwrap()
    }
}

/// Reads a request to its end: its path, and the length of its body.
fn receive(stream: &TcpStream) -> Option<(String, u64)> {
    let mut reader = BufReader::with_capacity(1024 * 1024, stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().to_ascii_lowercase().strip_prefix("content-length:") {
            Some(number) => length = number.trim().parse().ok()?,
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let read = std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    (read == length).then(|| (first.split(' ').nth(1).unwrap_or_default().to_owned(), length))
}
