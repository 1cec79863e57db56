//! A million rows cost what a thousand cost: counted in rows the database reads, not in seconds.

#![cfg(test)]

mod outbox;
mod queue;
mod statements;

use sqlx::{Connection, PgConnection};
use syncline_sim::postgres::Database;
use syncline_sim::until;

/// Rows of a table that were read, sequentially or by index, in this database so far. A session counts when it ends.
async fn rows_read(database: &Database, table: &str) -> i64 {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    until("the sessions have ended", async || {
        let others: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
             AND backend_type = 'client backend'",
        )
        .fetch_one(&mut connection)
        .await
        .unwrap();
        others == 0
    })
    .await;
    sqlx::query_scalar(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = $1",
    )
    .bind(table)
    .fetch_one(&mut connection)
    .await
    .unwrap()
}
