//! Reading changes nothing: every GET of the API, twice, against a database that is looked at before and after.

use axum::body::Body;
use futures::StreamExt;
use http::Request;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{Names, api_description, operations};
use crate::{NodeBuilder, RouterNode};

/// Queries that some operations know and the others refuse.
const QUERIES: [&str; 5] = ["", "?limit=10", "?space=invented&topics=state", "?after=0&epoch=x", "?prefix=a"];

/// A table and its rows, as texts.
type Table = (String, Vec<String>);

/// Checks that no GET of such a node changes a row. The database at `database_url` is the node's alone: a file of SQLite, or
/// one on PostgreSQL. Returns how many addresses were asked.
pub async fn reads_change_nothing(node: NodeBuilder, database_url: &str, names: Names<'_>) -> usize {
    let node = node.database(database_url).idle_router().await;
    let before = rows(database_url).await;
    assert!(!before.is_empty(), "the node has no tables");
    let read = read_everything_twice(&node, names).await;
    assert_eq!(rows(database_url).await, before);
    read
}

async fn read_everything_twice(node: &RouterNode, names: Names<'_>) -> usize {
    let operations = operations(&api_description(node, None).await);
    let reads: Vec<String> = operations
        .iter()
        .filter(|operation| operation.method == "GET")
        .map(|operation| operation.address(names))
        .collect();
    for path in reads.iter().chain(&reads) {
        for query in QUERIES {
            let get = Request::get(format!("{path}{query}")).body(Body::empty()).unwrap();
            // Of a stream its beginning is enough.
            let _first = node.respond(get).await.into_body().into_data_stream().next().await;
        }
    }
    reads.len()
}

/// Everything in a database.
async fn rows(database_url: &str) -> Vec<Table> {
    if database_url.starts_with("sqlite:") {
        rows_of_sqlite(database_url)
    } else {
        rows_of_postgres(database_url).await
    }
}

fn rows_of_sqlite(url: &str) -> Vec<Table> {
    let connection = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    let texts = |sql: &str| -> Vec<String> {
        let mut rows = connection.prepare(sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut found = Vec::new();
    for table in texts("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") {
        let columns =
            "SELECT group_concat('quote(' || name || ')', ' || ''|'' || ') FROM pragma_table_info(?1)";
        let columns: String = connection.query_row(columns, [&table], |row| row.get(0)).unwrap();
        let rows = texts(&format!("SELECT {columns} FROM \"{table}\" ORDER BY 1"));
        found.push((table, rows));
    }
    found
}

async fn rows_of_postgres(url: &str) -> Vec<Table> {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
         WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    let mut found = Vec::new();
    for table in tables {
        let rows = AssertSqlSafe(format!("SELECT t::text FROM {table} AS t ORDER BY 1"));
        let rows: Vec<String> = sqlx::query_scalar(rows).fetch_all(&mut connection).await.unwrap();
        found.push((table, rows));
    }
    found
}
