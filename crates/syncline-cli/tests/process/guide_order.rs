//! An order and its entry, in one transaction.

use rusqlite::{Connection, TransactionBehavior};
use syncline_store::outbox::{NewEntry, enqueue_in};

/// Writes an order and its entry in one transaction.
pub fn place_order(shop: &mut Connection, id: &str, total: u32) -> Result<(), Box<dyn std::error::Error>> {
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO orders (id, total) VALUES (?1, ?2)", (id, total))?;
    let entry = NewEntry {
        entity_type: "order".to_owned(),
        entity_id: id.to_owned(),
        payload: serde_json::json!({ "id": id, "total": total }).to_string(),
    };
    enqueue_in(&transaction, &entry)?;
    transaction.commit()?;
    Ok(())
}
