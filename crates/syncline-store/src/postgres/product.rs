//! Which databases speak PostgreSQL's protocol, and whether a store can be kept there.
//!
//! What is refused is refused when a store is opened, by name and with the reason: the promises of locks, queues and the outbox
//! rest on what these databases do differently.

use sqlx::postgres::PgConnection;
use sqlx::{Executor, Row};

/// The first version with everything that is used: `gen_random_uuid()` without an extension.
const LEAST_VERSION_NUMBER: i32 = 130_000;

/// What to do about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is PostgreSQL, or as good as.
    Usable,
    /// It may work; nobody has tried.
    Untried(&'static str),
    /// It cannot work, because of this.
    Refused(String),
}

/// Asks a server what it is. In the simple protocol, which needs no prepared statement.
pub(super) async fn ask(connection: &mut PgConnection) -> sqlx::Result<Verdict> {
    let ask = "SELECT version(), current_setting('server_version_num')";
    let row = connection.fetch_one(sqlx::raw_sql(ask)).await?;
    let (version, number): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    Ok(judge(&version, number.parse().unwrap_or(0)))
}

fn judge(version: &str, number: i32) -> Verdict {
    let refused = [
        (
            "CockroachDB",
            "it has no LISTEN and NOTIFY and no advisory locks of sessions, and its SKIP LOCKED passes over rows that nobody holds; \
             use PostgreSQL 13 or later",
        ),
        ("Redshift", "it has no row locks and enforces no unique keys; use PostgreSQL 13 or later"),
        ("Materialize", "it has no row locks; use PostgreSQL 13 or later"),
        ("QuestDB", "it has no transactions; use PostgreSQL 13 or later"),
    ];
    if let Some((name, reason)) = refused.into_iter().find(|(name, _)| version.contains(name)) {
        return Verdict::Refused(format!("this is {name}: {reason}"));
    }
    if version.contains("-YB-") {
        return Verdict::Untried("YugabyteDB");
    }
    if version.contains("Greenplum") {
        return Verdict::Untried("Greenplum");
    }
    if number < LEAST_VERSION_NUMBER {
        let least = LEAST_VERSION_NUMBER / 10_000;
        let shown: String = version.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        return Verdict::Refused(format!("this is {shown}, and {least} is the oldest version that works"));
    }
    Verdict::Usable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_05_a_database_that_cannot_work_is_known_by_what_it_says_of_itself() {
        let usable = [
            ("PostgreSQL 17.6 (Debian 17.6-0+deb13u1) on x86_64-pc-linux-gnu, compiled by gcc", 170_006),
            ("PostgreSQL 13.0 on aarch64-unknown-linux-gnu, compiled by gcc", 130_000),
            ("PostgreSQL 16.4 (EnterpriseDB Advanced Server 16.4.0) on x86_64-pc-linux-gnu", 160_004),
        ];
        for (version, number) in usable {
            assert_eq!(judge(version, number), Verdict::Usable, "{version}");
        }
        let untried = ("PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu", 150_012);
        assert_eq!(judge(untried.0, untried.1), Verdict::Untried("YugabyteDB"));
        let refused = [
            (
                "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15)",
                130_000,
                "this is CockroachDB: ",
            ),
            (
                "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.12103",
                80_002,
                "Redshift",
            ),
            ("PostgreSQL 12.22 on x86_64-pc-linux-gnu", 120_022, "PostgreSQL 12.22, and 13 is the oldest"),
        ];
        for (version, number, reason) in refused {
            let Verdict::Refused(said) = judge(version, number) else { panic!("{version}") };
            assert!(said.contains(reason), "{said}");
        }
    }
}
