//! Reading changes nothing: every GET of the API, twice, against a database that is looked at before and after.

use axum::body::Body;
use futures::StreamExt;
use http::{Request, header};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use syncline_store::Store;
use tower::ServiceExt;

use crate::world::{HOST, World};

/// Every GET in the description of the API, with something in the place of its variables.
async fn reads(world: &World) -> Vec<String> {
    let api: Value = world.get("/openapi.json").await.value();
    let mut reads = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        if item.get("get").is_some() {
            // Names of queues and jobs are the node's own; all others can be invented.
            let path = path.replace("{*path}", "nothing");
            let path = path.replace("{name}", "fetchNdlSearch").replace("{space}", "invented");
            reads.push(path.replace(['{', '}'], ""));
        }
    }
    reads
}

async fn read_everything_twice(world: &World) {
    let reads = reads(world).await;
    assert!(reads.len() > 30, "{reads:?}");
    for path in reads.iter().chain(&reads) {
        for query in ["", "?limit=10", "?space=invented&topics=state", "?after=0&epoch=x", "?prefix=a"] {
            let get = Request::get(format!("{path}{query}")).header(header::HOST, HOST);
            let response = world.app.clone().oneshot(get.body(Body::empty()).unwrap()).await.unwrap();
            // Of a stream its beginning is enough.
            let _first = response.into_body().into_data_stream().next().await;
        }
    }
}

/// Asking for a space of shared state used to make it.
#[tokio::test]
async fn st_23_no_get_changes_anything_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let world =
        World::quiet("", Store::open_with(&url, &crate::world::config("").store_options()).await.unwrap())
            .await;
    let dump = async || {
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        let mut dump = Vec::new();
        for table in tables {
            let columns =
                "SELECT group_concat('quote(' || name || ')', ' || ''|'' || ') FROM pragma_table_info($1)";
            let columns: String =
                sqlx::query_scalar(columns).bind(&table).fetch_one(&mut connection).await.unwrap();
            let rows = AssertSqlSafe(format!("SELECT {columns} FROM \"{table}\" ORDER BY 1"));
            let rows: Vec<String> = sqlx::query_scalar(rows).fetch_all(&mut connection).await.unwrap();
            dump.push((table, rows));
        }
        dump
    };
    let before = dump().await;
    assert!(before.len() > 10, "{before:?}");
    read_everything_twice(&world).await;
    assert_eq!(dump().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn st_23_no_get_changes_anything_on_postgres() {
    let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
    let world = World::quiet(
        "",
        Store::open_with(&database.url, &crate::world::config("").store_options()).await.unwrap(),
    )
    .await;
    let dump = async || {
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') \
             ORDER BY 1";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        let mut dump = Vec::new();
        for table in tables {
            let rows = AssertSqlSafe(format!("SELECT t::text FROM {table} AS t ORDER BY 1"));
            let rows: Vec<String> = sqlx::query_scalar(rows).fetch_all(&mut connection).await.unwrap();
            dump.push((table, rows));
        }
        dump
    };
    let before = dump().await;
    assert!(before.len() > 10, "{before:?}");
    read_everything_twice(&world).await;
    assert_eq!(dump().await, before);
}
