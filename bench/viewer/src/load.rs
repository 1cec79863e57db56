//! wrk, pressing one server at a time from a process of its own.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use bench_figures::process;
use serde::{Deserialize, Serialize};

use crate::contender::{Contender, bench_folder};

/// Connections that are always busy: each sends its next heartbeat when the last is answered.
pub(crate) const CONNECTIONS: u32 = 64;

/// What one turn came to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Turn {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Processor time of the server's processes, by request.
    pub(crate) cpu_us: f64,
    /// How busy wrk was, of one core. Near 1 it is wrk that was measured.
    pub(crate) client_share: f64,
    pub(crate) requests: u64,
    pub(crate) dropped: u64,
    pub(crate) timeouts: u64,
    pub(crate) refused: u64,
}

/// The line that `beats.lua` ends with.
#[derive(Deserialize)]
struct Told {
    requests: u64,
    duration_us: u64,
    p50_us: u64,
    p99_us: u64,
    dropped: u64,
    timeouts: u64,
    refused: u64,
}

/// Sends heartbeats of `sessions` pages in so many rooms, or in none, for `seconds`.
pub(crate) fn press(server: &Contender, sessions: u32, rooms: u32, seconds: u32) -> Result<Turn> {
    let (server_before, client_before) = (process::cpu(server.process())?, process::cpu_of_ended_children()?);
    let output = wrk(server, sessions, rooms, seconds).stderr(Stdio::inherit()).output();
    let output = output.context("cannot start wrk")?;
    ensure!(output.status.success(), "wrk failed: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let told = text.lines().find(|line| line.starts_with('{'));
    let told: Told = serde_json::from_str(told.context("wrk told no figures")?)?;
    ensure!(told.requests > 0, "not one heartbeat was answered");
    let server_cpu = process::cpu(server.process())? - server_before;
    let client_cpu = process::cpu_of_ended_children()? - client_before;
    let seconds = told.duration_us as f64 / 1e6;
    Ok(Turn {
        per_second: told.requests as f64 / seconds,
        p50_ms: told.p50_us as f64 / 1e3,
        p99_ms: told.p99_us as f64 / 1e3,
        cpu_us: server_cpu.as_secs_f64() * 1e6 / told.requests as f64,
        client_share: client_cpu.as_secs_f64() / seconds,
        requests: told.requests,
        dropped: told.dropped,
        timeouts: told.timeouts,
        refused: told.refused,
    })
}

/// One thread: it is never the bottleneck here, and with two, one would already send while the other prepares.
pub(crate) fn wrk(server: &Contender, sessions: u32, rooms: u32, seconds: u32) -> Command {
    let mut command = Command::new("wrk");
    command
        .args(["--threads", "1", "--timeout", "10s"])
        .args(["--connections", &CONNECTIONS.to_string()])
        .args(["--duration", &format!("{seconds}s")])
        .arg("--script")
        .arg(bench_folder().join("beats.lua"))
        .arg(format!("http://{}", server.address()))
        .args(["--", &sessions.to_string(), &rooms.to_string()]);
    command.stdin(Stdio::null());
    command
}
