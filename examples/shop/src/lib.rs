//! A shop that keeps its orders in SQLite, with an outbox and a lock beside its own tables.
//!
//! - [`place_order`]: an order and the entry that tells others of it, committed together or not at all; `serversync` sends
//!   the entry from there
//! - [`Shop::bill`]: work that one process does at a time, under a lease with a fencing token

use anyhow::{Result, bail};
use rusqlite::Connection;
use syncline_core::lock::{LeaseId, Name, Token, Ttl};
use syncline_store::lock::{Acquired, Request};
use syncline_store::outbox::{NewEntry, enqueue_in};
use syncline_store::{Options, Store, parts};

/// Writes an order down and has it sent. The caller commits: until then nobody hears of it.
pub fn place_order(transaction: &Connection, id: &str, item: &str) -> Result<()> {
    transaction.execute("INSERT INTO orders (id, item) VALUES (?1, ?2)", [id, item])?;
    let entry = NewEntry {
        entity_type: "order".to_owned(),
        entity_id: id.to_owned(),
        payload: serde_json::json!({ "item": item }).to_string(),
    };
    enqueue_in(transaction, &entry)?;
    Ok(())
}

/// The shop's side of Syncline: the tables of two systems, in the shop's own database.
pub struct Shop {
    store: Store,
}

impl Shop {
    /// Opens the database, and makes the tables of the outbox and the lock in it. Nothing else is made there.
    pub async fn open(url: &str) -> Result<Shop> {
        let options = Options::of(&[&parts::OUTBOX, &parts::LOCK]);
        Ok(Shop { store: Store::open_with(url, &options).await? })
    }

    /// Does `work` while no other process does. The token grows with every grant: what is written under it can be refused
    /// where a later one was seen.
    pub async fn bill<T>(&self, who: &str, work: impl AsyncFnOnce(Token) -> Result<T>) -> Result<T> {
        let (locks, name) = (self.store.locks(), Name::new("billing")?);
        let lease = LeaseId::from_random(rand::random());
        let request = Request { name: &name, lease, holder: who, ttl: Ttl::DEFAULT, waits: false };
        let token = match locks.acquire(request).await? {
            Acquired::Granted { token } => token,
            Acquired::Held(holding) => bail!("{} is billing already", holding.holder),
            Acquired::Quiet { left } => bail!("ask again in {} s", left.as_secs()),
        };
        let done = work(token).await;
        locks.release(&name, lease).await??;
        done
    }

    /// How many entries wait to be sent.
    pub async fn waiting(&self) -> Result<u64> {
        Ok(self.store.outbox().stats().await?.pending)
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }
}
