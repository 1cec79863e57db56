//! Routes: an outbox in which entries go to several receivers, each with a table of its own.
//!
//! ```text
//! sync_outbox ── claim, hand over ──▶ route_billing   ── claim, send, settle
//!                                └──▶ route_warehouse ── claim, send, settle
//! ```
//!
//! Handing over is one transaction: an entry is processed in `sync_outbox` exactly when it is in the tables of all routes that want
//! it. The tables have the shape of `sync_outbox`, so each route has the whole [`Outbox`](super::Outbox) for itself: claims, retries,
//! dead letters, order for each entity. Which entries go where is the caller's.

use syncline_core::outbox::Verdict;

use super::ClaimId;
use super::check::{self, SettleRow};
use crate::database::{Database, Sql, Transaction, statements, values};
use crate::{Backend, Error, names};

statements!("route": CREATE, EXISTS, NAMES, COPY);

/// Longest name of a route: it becomes part of the names of a table and its indexes.
pub const ROUTE_MAX_BYTES: usize = 24;

/// What becomes of the entries of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandOver {
    /// Routes, and the entries that go to each.
    pub routes: Vec<(String, Vec<i64>)>,
    /// Entries that no route wants, and why that is so.
    pub unwanted: Vec<(i64, String)>,
}

/// Checks a name.
pub(crate) fn check_name(route: &str) -> Result<(), Error> {
    if names::is_identifier(route) && route.len() <= ROUTE_MAX_BYTES {
        return Ok(());
    }
    let reason =
        format!("`{route}` is no name: small letters, digits and underscores, at most {ROUTE_MAX_BYTES}");
    Err(Error::invalid("route", reason))
}

/// The statements that make the table of a route.
pub(crate) fn create(route: &str) -> Sql {
    names::for_route(CREATE, route)
}

/// Whether the table of a route is there.
pub(crate) async fn exists(database: &Database, route: &str) -> Result<bool, Error> {
    let found: Option<(bool,)> = database.query_first(names::for_route(EXISTS, route), values![]).await?;
    Ok(found == Some((true,)))
}

/// The routes that have a table.
pub(crate) async fn names(database: &Database) -> Result<Vec<String>, Error> {
    let tables: Vec<(String,)> = database.query(NAMES, values![]).await?;
    let names =
        tables.into_iter().filter_map(|(table,)| table.split_once("route_").map(|(_, name)| name.to_owned()));
    Ok(names.filter(|name| check_name(name).is_ok()).collect())
}

/// Copies entries into the tables of their routes, and ends their claim. What the claim holds no longer is left alone.
pub(crate) async fn hand_over(
    transaction: &mut Transaction<'_>,
    claim: ClaimId,
    given: HandOver,
) -> Result<Vec<i64>, Error> {
    let copied: std::collections::BTreeSet<i64> =
        given.routes.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
    let done = copied.into_iter().map(|id| (id, Verdict::Done));
    let dead = given.unwanted.into_iter().map(|(id, reason)| (id, Verdict::Dead { reason }));
    let rows: Vec<SettleRow> = check::settle_rows(&done.chain(dead).collect::<Vec<_>>())?;
    let (held, _) = match transaction.backend() {
        Backend::Sqlite => crate::sqlite::outbox::settle(transaction, claim, rows).await?,
        Backend::Postgres => crate::postgres::outbox::settle(transaction, claim, rows).await?,
    };
    let held: std::collections::HashSet<i64> = held.into_iter().collect();
    for (route, ids) in given.routes {
        let ids: Vec<i64> = ids.into_iter().filter(|id| held.contains(id)).collect();
        if !ids.is_empty() {
            transaction.execute(names::for_route(COPY, &route), &values![ids]).await?;
        }
    }
    Ok(held.into_iter().collect())
}
