//! Keys that were made on a running node, by their hash, and when each key was last shown.
//!
//! The key itself is never here. A removed key is gone for good: its name may be given again, its hash is another.

use super::{AccessStore, count_up};
use crate::Error;
use crate::database::{Row, Value};

/// Most keys of a store.
pub const STORED_KEYS_MAX: i64 = 1_000;

const ADD: &str = "INSERT INTO syncline.access_keys (name, hash, may, public, origins, created_at, created_by) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
const COUNT: &str = "SELECT count(*) FROM syncline.access_keys";
const REMOVE: &str = "DELETE FROM syncline.access_keys WHERE name = $1";
const FORGET_USE: &str = "DELETE FROM syncline.access_key_uses WHERE name = $1";
const LIST: &str =
    "SELECT name, hash, may, public, origins, created_at, created_by FROM syncline.access_keys ORDER BY name";
/// A use that is reported late never hides a later one.
const NOTE_USE: &str = "INSERT INTO syncline.access_key_uses (name, used_at, used_from) VALUES ($1, $2, $3) \
     ON CONFLICT (name) DO UPDATE SET used_at = excluded.used_at, used_from = excluded.used_from \
     WHERE excluded.used_at > syncline.access_key_uses.used_at";
const USES: &str = "SELECT name, used_at, used_from FROM syncline.access_key_uses ORDER BY name";

/// A key as the store has it. What the texts mean is the node's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// Its name.
    pub name: String,
    /// Its hash.
    pub hash: String,
    /// What it may do.
    pub may: Vec<String>,
    /// Whether it is publishable.
    pub public: bool,
    /// Origins whose pages may show it.
    pub origins: Vec<String>,
    /// When it was made, in milliseconds since the epoch. Ignored when a key is added.
    pub created_at_ms: i64,
    /// By whom.
    pub created_by: String,
}

/// When a key was last shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// The key's name.
    pub name: String,
    /// When, in milliseconds since the epoch.
    pub used_at_ms: i64,
    /// From which address.
    pub used_from: Option<String>,
}

impl AccessStore {
    /// Adds a key, unless its name or its hash is taken.
    pub async fn add_key(&self, key: StoredKey) -> Result<bool, Error> {
        let list = |texts: &[String]| serde_json::Value::from(texts.to_vec()).to_string();
        let (may, origins) = (list(&key.may), list(&key.origins));
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    if transaction.value::<i64>(COUNT, &[]).await? >= STORED_KEYS_MAX {
                        return Err(Error::invalid(
                            "keys",
                            format!("are {STORED_KEYS_MAX}, and that is the most"),
                        ));
                    }
                    let values: [Value; 7] = [
                        key.name.into(),
                        key.hash.into(),
                        may.into(),
                        i64_or_bool(transaction.backend(), key.public),
                        origins.into(),
                        transaction.now_ms().await?.into(),
                        key.created_by.into(),
                    ];
                    let added = transaction.execute(ADD, &values).await? > 0;
                    if added {
                        count_up(transaction).await?;
                    }
                    Ok(added)
                })
            })
            .await
    }

    /// Removes a key, and says whether there was one.
    pub async fn remove_key(&self, name: &str) -> Result<bool, Error> {
        let values = [Value::from(name)];
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    let removed = transaction.execute(REMOVE, &values).await? > 0;
                    if removed {
                        transaction.execute(FORGET_USE, &values).await?;
                        count_up(transaction).await?;
                    }
                    Ok(removed)
                })
            })
            .await
    }

    /// All keys, by their names.
    pub async fn keys(&self) -> Result<Vec<StoredKey>, Error> {
        let rows = self.database.read(|transaction| Box::pin(transaction.all(LIST, &[]))).await?;
        rows.iter().map(read).collect()
    }

    /// Notes when keys were last shown.
    pub async fn note_uses(&self, uses: Vec<KeyUse>) -> Result<(), Error> {
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    for used in uses {
                        let values = [used.name.into(), used.used_at_ms.into(), used.used_from.into()];
                        transaction.execute(NOTE_USE, &values).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// When each key was last shown, by their names.
    pub async fn uses(&self) -> Result<Vec<KeyUse>, Error> {
        let rows = self.database.read(|transaction| Box::pin(transaction.all(USES, &[]))).await?;
        let read =
            |row: &Row| Ok(KeyUse { name: row.get(0)?, used_at_ms: row.get(1)?, used_from: row.get(2)? });
        rows.iter().map(read).collect()
    }
}

/// SQLite's strict tables have no truth values.
fn i64_or_bool(backend: crate::Backend, value: bool) -> Value {
    match backend {
        crate::Backend::Sqlite => i64::from(value).into(),
        crate::Backend::Postgres => value.into(),
    }
}

fn read(row: &Row) -> Result<StoredKey, Error> {
    let list = |position| -> Result<Vec<String>, Error> {
        let text: String = row.get(position)?;
        serde_json::from_str(&text)
            .map_err(|error| Error::Unreadable { store: "a key".to_owned(), reason: error.to_string() })
    };
    Ok(StoredKey {
        name: row.get(0)?,
        hash: row.get(1)?,
        may: list(2)?,
        public: row.get(3)?,
        origins: list(4)?,
        created_at_ms: row.get(5)?,
        created_by: row.get(6)?,
    })
}
