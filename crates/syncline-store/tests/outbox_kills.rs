//! What was committed arrives once, whoever is killed: the application, the worker, the database server.
//!
//! Child processes (this very program, told so by an environment variable) insert rows with their outbox entries, or carry
//! entries from one store into the inbox of another, and say on standard output what was acknowledged; the parent kills
//! them with SIGKILL in the middle. A trigger in the second store writes down every effect. `SYNCLINE_KILLS` and
//! `SYNCLINE_POSTGRES_KILLS` set how often. This covers the death of processes, not of the machine.

#![cfg(test)]

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use syncline_core::outbox::{EntityType, Verdict};
use syncline_sim::postgres::Cluster;
use syncline_store::Store;
use syncline_store::inbox::Arrival;
use syncline_store::outbox::{Kind, NewEntry, enqueue_in, enqueue_in_postgres};

/// Set in the child: the store to take from, the one to carry to, and what to be.
const FROM: &str = "SYNCLINE_TEST_FROM";
const TO: &str = "SYNCLINE_TEST_TO";
const ROLE: &str = "SYNCLINE_TEST_ROLE";
const KILLS_DEFAULT: usize = 20;
const POSTGRES_KILLS_DEFAULT: usize = 2;
const ENTITIES: usize = 10;
const BATCH: usize = 16;
/// Acknowledgements that a child may give before the blow falls.
const LINES_MAX: usize = 60;

mod sqlite {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ss_24_nothing_is_lost_or_doubled_whoever_is_killed() {
        let test = "sqlite::ss_24_nothing_is_lost_or_doubled_whoever_is_killed";
        if super::child().await {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
        let (from, to) = (url("box.db"), url("front.db"));
        super::prepare(&from, &to).await;
        let kills = super::number("SYNCLINE_KILLS", super::KILLS_DEFAULT);
        let told = super::kill_children(&from, &to, test, kills);
        super::judge(&from, &to, &told, kills, 0).await;
    }
}

mod postgres_server {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ss_24_nothing_is_lost_or_doubled_whoever_is_killed() {
        let test = "postgres_server::ss_24_nothing_is_lost_or_doubled_whoever_is_killed";
        if super::child().await {
            return;
        }
        let mut cluster = tokio::task::block_in_place(|| super::Cluster::start().unwrap());
        for database in ["box", "front"] {
            cluster.execute("postgres", &format!("CREATE DATABASE {database}")).unwrap();
        }
        let (from, to) = (cluster.url("box"), cluster.url("front"));
        super::prepare(&from, &to).await;
        let kills = super::number("SYNCLINE_KILLS", super::KILLS_DEFAULT).div_ceil(2);
        let server_kills = super::number("SYNCLINE_POSTGRES_KILLS", super::POSTGRES_KILLS_DEFAULT);
        let mut told = super::kill_children(&from, &to, test, kills);
        for _ in 0..server_kills {
            let server = &mut cluster;
            let more = super::under_way(&from, &to, test, move || {
                tokio::task::block_in_place(|| server.kill().and_then(|()| server.restart()).unwrap());
            });
            told.extend(more);
        }
        super::judge(&from, &to, &told, kills, server_kills).await;
    }
}

/// The application's table here, and there a trigger that writes every effect down.
async fn prepare(from: &str, to: &str) {
    Store::open(from).await.unwrap().close().await;
    let store = Store::open(to).await.unwrap();
    store.inbox(&[EntityType::new("order").unwrap()]).await.unwrap();
    store.close().await;
    if from.starts_with("sqlite:") {
        let orders = "CREATE TABLE orders (id INTEGER PRIMARY KEY, entity TEXT)";
        sqlite_at(from).execute_batch(orders).unwrap();
        let effects = "CREATE TABLE effects (id INTEGER PRIMARY KEY, entity TEXT, entry INTEGER); \
             CREATE TRIGGER one AFTER INSERT ON syncline_entity_order BEGIN \
             INSERT INTO effects (entity, entry) VALUES (new.id, new.entry); END; \
             CREATE TRIGGER two AFTER UPDATE ON syncline_entity_order BEGIN \
             INSERT INTO effects (entity, entry) VALUES (new.id, new.entry); END";
        sqlite_at(to).execute_batch(effects).unwrap();
    } else {
        let mut from = PgConnection::connect(from).await.unwrap();
        sqlx::raw_sql("CREATE TABLE orders (id bigserial PRIMARY KEY, entity text)")
            .execute(&mut from)
            .await
            .unwrap();
        let effects = "CREATE TABLE effects (id bigserial PRIMARY KEY, entity text, entry bigint); \
             CREATE FUNCTION effect() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN INSERT INTO effects (entity, entry) VALUES (new.id, new.entry); RETURN NULL; END $$; \
             CREATE TRIGGER one AFTER INSERT OR UPDATE ON syncline.entity_order FOR EACH ROW EXECUTE FUNCTION effect()";
        let mut to = PgConnection::connect(to).await.unwrap();
        sqlx::raw_sql(effects).execute(&mut to).await.unwrap();
    }
}

/// Runs an application and a worker together, again and again, and kills one of the two in the middle.
fn kill_children(from: &str, to: &str, test: &str, kills: usize) -> Vec<i64> {
    let mut told = Vec::new();
    for round in 0..kills {
        let victim = ["application", "worker"][round % 2];
        let other = spawn(from, to, test, ["worker", "application"][round % 2]);
        told.extend(until_killed(spawn(from, to, test, victim), rand::random_range(1..LINES_MAX)));
        told.extend(until_killed(other, 0));
    }
    told
}

/// The same while something else is killed.
fn under_way(from: &str, to: &str, test: &str, blow: impl FnOnce()) -> Vec<i64> {
    let (application, worker) = (spawn(from, to, test, "application"), spawn(from, to, test, "worker"));
    std::thread::sleep(Duration::from_millis(rand::random_range(200..1_000)));
    blow();
    // Both go on afterwards: something more is acknowledged.
    let told = until_killed(application, LINES_MAX);
    let mut all = until_killed(worker, 0);
    all.extend(told);
    all
}

fn spawn(from: &str, to: &str, test: &str, role: &str) -> std::process::Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--quiet"]).env(FROM, from).env(TO, to).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Kills a child after so many acknowledgements; the ids it said were inserted.
fn until_killed(mut child: std::process::Child, lines: usize) -> Vec<i64> {
    let (mut output, mut line) = (BufReader::new(child.stdout.take().unwrap()), String::new());
    let (mut inserted, mut heard) = (Vec::new(), 0);
    if lines == 0 {
        child.kill().unwrap();
    }
    // What was cut short was not said.
    while output.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        if let Some(id) = line.trim_end().strip_prefix("inserted|") {
            inserted.push(id.parse().unwrap());
            heard += 1;
        }
        heard += usize::from(line.starts_with("settled|"));
        if heard == lines {
            child.kill().unwrap();
        }
        line.clear();
    }
    child.wait().unwrap();
    inserted
}

/// Whether this is a child; then it has done its work, which ends only by a blow.
async fn child() -> bool {
    let Ok(role) = env::var(ROLE) else { return false };
    let (from, to) = (env::var(FROM).unwrap(), env::var(TO).unwrap());
    loop {
        // The server may be gone for a while; whoever survives goes on.
        let failed = match role.as_str() {
            "application" => apply(&from).await,
            _ => carry(&from, &to, false).await,
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(failed);
    }
}

type Failed = Box<dyn std::error::Error>;

/// The application: its own row and the outbox's in one transaction.
async fn apply(from: &str) -> Result<(), Failed> {
    let entity = || format!("c{}", rand::random_range(0..ENTITIES));
    let row = "INSERT INTO orders (entity) VALUES ($1)";
    let entry = |entity: &str| NewEntry {
        entity_type: "order".to_owned(),
        entity_id: entity.to_owned(),
        payload: "{}".to_owned(),
    };
    if from.starts_with("sqlite:") {
        let mut connection = sqlite_at(from);
        connection.busy_timeout(Duration::from_secs(10))?;
        loop {
            let entity = entity();
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            transaction.execute("INSERT INTO orders (entity) VALUES (?1)", [&entity])?;
            let id = enqueue_in(&transaction, &entry(&entity))?;
            transaction.commit()?;
            println!("inserted|{id}");
        }
    }
    let mut connection = PgConnection::connect(from).await?;
    loop {
        let entity = entity();
        let mut transaction = connection.begin().await?;
        sqlx::query(row).bind(&entity).execute(&mut *transaction).await?;
        let id = enqueue_in_postgres(&mut transaction, &entry(&entity)).await?;
        transaction.commit().await?;
        println!("inserted|{id}");
    }
}

/// The worker: from one store into the other, until it is killed or, if so wished, nothing is left.
async fn carry(from: &str, to: &str, drain: bool) -> Result<(), Failed> {
    let (from, to) = (Store::open(from).await?, Store::open(to).await?);
    let (outbox, inbox) = (from.outbox(), to.inbox(&[EntityType::new("order").unwrap()]).await?);
    let sender = outbox.sender().await?;
    let lease = Duration::from_millis(1_000);
    loop {
        let claimed = outbox.claim("worker", Kind::Change, BATCH, lease).await?;
        if claimed.entries.is_empty() {
            if drain && outbox.stats().await?.pending == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        }
        let arrivals: Vec<Arrival> = claimed
            .entries
            .iter()
            .map(|entry| Arrival {
                entry: Some(entry.id),
                entity_type: entry.entity_type.clone(),
                entity_id: entry.entity_id.clone(),
                payload: entry.payload.clone(),
                created_at: entry.created_at,
            })
            .collect();
        let results = inbox.apply(Some(&sender), &arrivals).await?;
        assert!(results.iter().all(syncline_core::outbox::EntryResult::is_taken), "{results:?}");
        let verdicts: Vec<_> = claimed.entries.iter().map(|entry| (entry.id, Verdict::Done)).collect();
        let settled = outbox.settle(claimed.claim, &verdicts).await?;
        println!("settled|{}", settled.len());
    }
}

/// Lets what is left arrive, and counts.
async fn judge(from: &str, to: &str, told: &[i64], kills: usize, server_kills: usize) {
    carry(from, to, true).await.unwrap();
    let (rows, entries, effects) = if from.starts_with("sqlite:") {
        let (from, to) = (sqlite_at(from), sqlite_at(to));
        let rows: i64 = from.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
        let mut entries = from.prepare(ENTRIES).unwrap();
        let entries = entries.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let mut effects = to.prepare(EFFECTS).unwrap();
        let effects = effects.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        (rows, entries.map(Result::unwrap).collect(), effects.map(Result::unwrap).collect())
    } else {
        let (mut from, mut to) =
            (PgConnection::connect(from).await.unwrap(), PgConnection::connect(to).await.unwrap());
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&mut from).await.unwrap();
        let entries = sqlx::query_as(ENTRIES).fetch_all(&mut from).await.unwrap();
        (rows, entries, sqlx::query_as(EFFECTS).fetch_all(&mut to).await.unwrap())
    };
    let entries: Vec<(i64, String)> = entries;
    let effects: Vec<(String, i64)> = effects;
    let ids: BTreeSet<i64> = entries.iter().map(|(id, _)| *id).collect();
    let lost = told.iter().filter(|id| !ids.contains(id)).count();
    let distinct: BTreeSet<&(String, i64)> = effects.iter().collect();
    let doubled = effects.len() - distinct.len();
    println!(
        "kills={kills} server_kills={server_kills} inserted={} acknowledged={} effects={} lost={lost} doubled={doubled}",
        entries.len(),
        told.len(),
        effects.len()
    );
    assert!(told.len() > kills, "too little was done to prove anything");
    assert_eq!((lost, doubled), (0, 0));
    assert_eq!(rows, entries.len() as i64, "a row without its entry, or an entry without its row");
    for entity in (0..ENTITIES).map(|n| format!("c{n}")) {
        let last = entries.iter().filter(|(_, of)| *of == entity).map(|(id, _)| *id).max();
        let effects: Vec<i64> =
            effects.iter().filter(|(of, _)| *of == entity).map(|(_, entry)| *entry).collect();
        assert!(effects.is_sorted(), "an older change of {entity} replaced a newer one");
        assert_eq!(effects.last().copied(), last, "the last change of {entity} did not arrive");
    }
}

fn sqlite_at(url: &str) -> rusqlite::Connection {
    rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap()
}

const ENTRIES: &str = "SELECT id, entity_id FROM sync_outbox WHERE processed_at IS NOT NULL ORDER BY id";
const EFFECTS: &str = "SELECT entity, entry FROM effects ORDER BY id";

fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |number| number.parse().unwrap())
}
