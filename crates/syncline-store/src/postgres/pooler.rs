//! Whether a pooler stands between us and the server.
//!
//! It matters because a prepared statement is a name on a server connection. Behind a pooler in transaction mode
//! the next statement may meet another connection, where the same name is missing or, worse, means another
//! statement of another client: a read could become a delete. Nothing in the protocol tells a pooler from a
//! server, but one thing gives it away: it hands out server connections that are older than the client's.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Executor, Row};

/// A pooler is missed only if it opens a new server connection for us in each of these, which takes other
/// clients that claim every idle one at just these moments.
const ROUNDS: u32 = 3;

/// Asked in the simple protocol, which needs no prepared statement.
const ASK: &str = "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint, \
     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// Connects a few times and compares the age of what answers with our own.
pub(super) async fn is_between(options: &PgConnectOptions) -> sqlx::Result<bool> {
    let mut first = options.connect().await?;
    let Backend { pid, .. } = ask(&mut first).await?;
    let mut found = false;
    for _ in 0..ROUNDS {
        // The connection this was answered on is idle again, the likeliest to be handed to the next client.
        let Backend { now_us, .. } = ask(&mut first).await?;
        let mut second = options.connect().await?;
        let backend = ask(&mut second).await?;
        second.close().await?;
        found |= backend.started_us < now_us || backend.pid == pid;
    }
    found |= ask(&mut first).await?.pid != pid;
    first.close().await?;
    Ok(found)
}

/// The server process that answered.
struct Backend {
    pid: i32,
    started_us: i64,
    now_us: i64,
}

async fn ask(connection: &mut PgConnection) -> sqlx::Result<Backend> {
    let row = connection.fetch_one(sqlx::raw_sql(ASK)).await?;
    Ok(Backend { pid: row.try_get(0)?, started_us: row.try_get(1)?, now_us: row.try_get(2)? })
}
