//! Every statement of every system, whatever PostgreSQL believes of the tables.
//!
//! Adding ten thousand keys to a new queue took ten seconds on PostgreSQL and then failed, again and again: the server had
//! counted the table while other queues were in it, believed the new queue to have one row, and read all of its keys for
//! each key that was looked for. It happened whenever the count came at such a moment, and no test chose that moment.
//!
//! So nothing is chosen here: every operation of every port runs against small and large tables, for each state in which
//! the server may have counted them, and `pg_stat_statements` tells how many blocks each statement read. A large table may
//! cost a few blocks more, for deeper indexes. Operations are repeated until the server plans them once for all.

mod fill;
mod operate;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use futures::future::join_all;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use syncline_sim::postgres::Cluster;
use syncline_store::Store;
use syncline_store::outbox::NewEntry;
use tokio::task::block_in_place;

use self::fill::Belief;

const SMALL: usize = 400;
const LARGE: usize = 16_000;
/// The server plans the first five executions of a statement by their values and may plan all later ones alike.
const ROUNDS: usize = 10;
/// Rounds in which a statement may meet a connection that is new and reads the catalogue. Fewer than are planned alike.
const ROUNDS_LEFT_OUT: usize = 3;

/// Statements that read more of a larger table by their nature, and why that is right.
const READ_WHAT_THEY_ARE_FOR: [(&str, &str); 9] = [
    ("SELECT (SELECT count(*) FROM sync_outbox", "counts the outbox for its operator"),
    ("UPDATE sync_outbox SET behind = $ WHERE id IN", "looks at all that wait, once a minute"),
    (
        "UPDATE syncline.queue_keys SET again",
        "forgets an unreadable pace, and with it what was asked for in the line",
    ),
    ("FROM syncline.locks WHERE name >= $", "passes over the locks that expired within the hour"),
    ("DELETE FROM syncline.locks", "looks once a minute at the locks that were held within the hour"),
    ("UPDATE syncline.lock_floor", "looks once a minute at the locks that were held within the hour"),
    ("DELETE FROM syncline.state_entities WHERE space = $ AND stamp", "a reset empties the space"),
    ("SELECT count(*), CAST(coalesce(sum(bytes)", "a reset counts what is left"),
    ("SELECT count(*) FROM syncline.state_spaces", "counts at most 10,000 spaces when one is made"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qu_05_on_postgres_no_statement_of_any_system_reads_more_of_a_large_table_than_of_a_small_one() {
    let mut grown = Vec::new();
    for belief in Belief::ALL {
        let small = blocks_read(belief, SMALL).await;
        let large = blocks_read(belief, LARGE).await;
        assert!(small.len() > 100, "only {} statements were seen: {small:#?}", small.len());
        for (statement, blocks) in &large {
            let of_small = small.get(statement).copied().unwrap_or(0.0);
            let allowed = 2.0 * of_small + 40.0;
            if *blocks > allowed && !READ_WHAT_THEY_ARE_FOR.iter().any(|(begin, _)| statement.contains(begin))
            {
                grown.push(format!("{belief:?}: {of_small} -> {blocks} blocks: {statement}"));
            }
        }
    }
    assert!(
        grown.is_empty(),
        "{} statements read more of a larger table:\n{}",
        grown.len(),
        grown.join("\n")
    );
}

/// The blocks that an execution of each statement read on average of a round, without the dearest rounds.
async fn blocks_read(belief: Belief, size: usize) -> BTreeMap<String, f64> {
    static DATABASES: OnceLock<Cluster> = OnceLock::new();
    let name = format!("{belief:?}_{size}").to_lowercase();
    let url = block_in_place(|| {
        let settings = ["shared_preload_libraries=pg_stat_statements", "autovacuum=off", "fsync=off"];
        let cluster = DATABASES.get_or_init(|| Cluster::start_with(&settings).unwrap());
        cluster.execute("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        cluster.execute(&name, "CREATE EXTENSION pg_stat_statements").unwrap();
        cluster.url(&name)
    });
    let mut connection = PgConnection::connect(&url).await.unwrap();
    fill::fill(&url, &mut connection, belief, size).await;
    let store = Store::open(&url).await.unwrap();
    warm_up(&store).await;
    let mut read: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        sqlx::query("SELECT pg_stat_statements_reset()").execute(&mut connection).await.unwrap();
        operate::operate(&store, size, round).await;
        let statements: Vec<(String, f64)> = sqlx::query_as(
            "SELECT query, ((shared_blks_hit + shared_blks_read)::float8 / calls) FROM pg_stat_statements \
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND query NOT LIKE '%pg_stat_statements%'",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        // One statement may be there under two texts.
        let mut of_round: BTreeMap<String, f64> = BTreeMap::new();
        for (statement, blocks) in statements {
            let most = of_round.entry(unnumbered(&statement)).or_default();
            *most = most.max(blocks);
        }
        for (statement, blocks) in of_round {
            read.entry(statement).or_default().push(blocks);
        }
    }
    store.close().await;
    let usual = |mut rounds: Vec<f64>| {
        rounds.sort_by(f64::total_cmp);
        rounds[rounds.len().saturating_sub(ROUNDS_LEFT_OUT + 1)]
    };
    read.into_iter().map(|(statement, rounds)| (statement, usual(rounds))).collect()
}

/// Has every connection that there can be run the outbox's trigger, whose function is compiled once for each, from the catalogue.
async fn warm_up(store: &Store) {
    let outbox = store.outbox();
    let entry = |n: usize| NewEntry {
        entity_type: "warm".to_owned(),
        entity_id: n.to_string(),
        payload: "{}".to_owned(),
    };
    let inserts = (0..20).map(|n| {
        let (outbox, entry) = (&outbox, entry(n));
        async move { outbox.enqueue(&[entry]).await.unwrap() }
    });
    let ids: Vec<i64> = join_all(inserts).await.concat();
    outbox.mark_processed(&ids, None).await.unwrap();
}

/// A statement without its constants, which the server shows at times and leaves out at others.
fn unnumbered(statement: &str) -> String {
    let mut text = String::with_capacity(statement.len());
    let mut characters = statement.chars().peekable();
    while let Some(c) = characters.next() {
        let in_word = text.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        if c == '\'' {
            characters.by_ref().find(|c| *c == '\'');
            text.push('$');
        } else if c == '$' || (c.is_ascii_digit() && !in_word) {
            while characters.next_if(char::is_ascii_digit).is_some() {}
            text.push('$');
        } else {
            text.push(c);
        }
    }
    let words = ["NULL", "true", "false"].iter();
    words.fold(text, |text, word| {
        text.replace(&format!("= {word}"), "= $").replace(&format!("({word}::"), "($::")
    })
}

async fn execute(connection: &mut PgConnection, sql: impl Into<String>) {
    let sql = sql.into();
    let done = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(connection).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}
