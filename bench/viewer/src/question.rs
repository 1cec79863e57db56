//! "Is anybody watching?", asked as the gate asks it, with few and with many sessions.
//!
//! Two figures each: the session table's answer alone, and the whole question with its lock, its clock and the other nodes
//! ([`Viewers::audience`]), which is what every job's minute begins with.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_figures::table::{median, print, thousands};
use serde_json::{Value, json};
use syncline_core::schedule::{Audience, Gate};
use syncline_core::time::Timestamp;
use syncline_core::viewer::{BeatOutcome, SessionId, SessionTable};
use syncline_node::config::Flags;
use syncline_node::viewer::Viewers;
use syncline_node::{Config, Node, Running};
use tempfile::TempDir;

/// Sessions of the rooms that are asked.
const SESSIONS: [u32; 3] = [1, 1_000, 1_000_000];

const ROUNDS: usize = 5;

/// How often a room is asked in each round.
const TABLE_QUESTIONS: u32 = 10_000_000;
const NODE_QUESTIONS: u32 = 200_000;

/// The same sessions in a table by itself and in a node.
struct Room {
    sessions: u32,
    table: SessionTable,
    node: Running,
    _folder: TempDir,
    table_ns: Vec<f64>,
    node_ns: Vec<f64>,
}

pub(crate) async fn measure() -> Result<Value> {
    let mut rooms = Vec::new();
    for sessions in SESSIONS {
        rooms.push(Room::fill(sessions).await?);
    }
    for _ in 0..ROUNDS {
        for room in &mut rooms {
            let table_ns = room.ask_table();
            room.table_ns.push(table_ns);
            let node_ns = ask_node(&viewers(&room.node)).await?;
            room.node_ns.push(node_ns);
        }
    }
    let value = report(&rooms);
    for room in rooms {
        room.node.stop().await;
    }
    Ok(value)
}

/// Who is watching, as the node knows it.
fn viewers(node: &Running) -> Arc<Viewers> {
    node.context().find().expect("the system is on")
}

impl Room {
    async fn fill(sessions: u32) -> Result<Room> {
        let folder = tempfile::tempdir()?;
        let flags = Flags {
            listen: Some("127.0.0.1:0".to_owned()),
            data: Some(folder.path().display().to_string()),
            ..Flags::default()
        };
        let file = folder.path().join("syncline.toml");
        std::fs::write(&file, "[viewer]\nnew_sessions_per_minute = 100000000\n")?;
        let flags = Flags { config: Some(file), ..flags };
        let config = Config::load(&flags, &|_| None, syncline_node::systems())?;
        let node = Node::start(config).await?;
        let mut table = SessionTable::new(sessions as usize, std::hash::RandomState::new());
        for number in 0..sessions {
            let id = SessionId::from_random(u128::from(number).to_be_bytes());
            viewers(&node).beat(&id, true, IpAddr::V4(Ipv4Addr::LOCALHOST)).await?;
            ensure!(matches!(
                table.beat(Timestamp::from_ms(1), &id, true),
                BeatOutcome::Accepted { new: true, .. }
            ));
        }
        Ok(Room { sessions, table, node, _folder: folder, table_ns: Vec::new(), node_ns: Vec::new() })
    }

    fn ask_table(&self) -> f64 {
        let now = Timestamp::from_ms(1) + Duration::from_secs(30);
        let started = Instant::now();
        for _ in 0..TABLE_QUESTIONS {
            black_box(black_box(&self.table).has_active(black_box(now)));
        }
        nanoseconds_each(started, TABLE_QUESTIONS)
    }
}

async fn ask_node(viewers: &Viewers) -> Result<f64> {
    let watched = matches!(viewers.audience(Gate::Viewers).await, Audience::Known { viewers: 1.., .. });
    ensure!(watched, "the sessions have expired before the question was asked");
    let started = Instant::now();
    for _ in 0..NODE_QUESTIONS {
        black_box(viewers.audience(Gate::Viewers).await);
    }
    Ok(nanoseconds_each(started, NODE_QUESTIONS))
}

fn nanoseconds_each(started: Instant, times: u32) -> f64 {
    started.elapsed().as_secs_f64() * 1e9 / f64::from(times)
}

fn report(rooms: &[Room]) -> Value {
    let medians = |room: &Room| {
        let of = |values: &[f64]| median(values.iter().copied()).expect("there is at least one round");
        (of(&room.table_ns), of(&room.node_ns))
    };
    let (table_first, node_first) = rooms.first().map_or((f64::NAN, f64::NAN), medians);
    let rows = rooms.iter().map(|room| {
        let (table_ns, node_ns) = medians(room);
        vec![
            thousands(room.sessions.into()),
            format!("{table_ns:.1}"),
            format!("{:.2}", table_ns / table_first),
            format!("{node_ns:.0}"),
            format!("{:.2}", node_ns / node_first),
        ]
    });
    let title = format!("Is anybody watching? Nanoseconds for one answer, medians of {ROUNDS} rounds");
    print(&title, &["sessions", "table ns", "ratio", "gate ns", "ratio"], &rows.collect::<Vec<_>>());
    let answers = rooms.iter().map(|room| {
        let (table_ns, gate_ns) = medians(room);
        json!({ "sessions": room.sessions, "table_ns": table_ns, "gate_ns": gate_ns })
    });
    json!(answers.collect::<Vec<_>>())
}
