//! Single entities, for servers that know no stamps: reading one, listing them, and writing one under a condition.
//!
//! A write is a batch of one change: it is numbered, measured and told like a device's. Its condition is checked in the transaction that
//! merges it, under the space's lock, so that of two writers with one condition one is refused.

use syncline_core::state::names::PAGE_MAX_BYTES;
use syncline_core::state::{Change, Kept, ServerWrite, Space};

use super::port::{ENTITIES, KNOWN, LOCK, Port, WEIGH_IDS, now, push, read_header};
use super::space_log::{self, Header, NumberedRow, Row};
use super::{Batch, Condition, Entity, EntityPage, EntityVersion, Pushed, Wrote};
use crate::Error;
use crate::database::{Transaction, values};

/// How often a write is tried that somebody else's first change of a new space overtook.
const TRIES: usize = 4;

/// One entity, if it is there.
pub(super) async fn one(
    transaction: &mut Transaction<'_>,
    name: String,
    id: String,
) -> Result<Option<Entity>, Error> {
    let header = read_header(transaction, &name).await?;
    Ok(known(transaction, &name, &id).await?.and_then(|(kept, number)| entity(&header, id, &kept, number)))
}

/// A page of entities. Its statements do not see one moment, which only says that the page is as old as its first.
pub(super) async fn page(
    transaction: &mut Transaction<'_>,
    name: String,
    after: String,
    limit: i64,
) -> Result<EntityPage, Error> {
    let header = read_header(transaction, &name).await?;
    let weighed: Vec<(String, i64)> = transaction.query(WEIGH_IDS, &values![&name, &after, limit]).await?;
    let Some(last) = last_that_fits(&weighed) else {
        return Ok(EntityPage { entities: Vec::new(), next: None });
    };
    let more = weighed.last().is_some_and(|(id, _)| id != last) || weighed.len() as i64 == limit;
    let rows: Vec<NumberedRow> = transaction.query(ENTITIES, &values![&name, &after, last, limit]).await?;
    let mut entities = Vec::with_capacity(rows.len());
    for row in rows {
        let (id, (kept, number)) = space_log::numbered(row)?;
        entities.extend(entity(&header, id, &kept, number));
    }
    Ok(EntityPage { entities, next: more.then(|| last.clone()) })
}

/// The last id of those that fit on a page; the first always does.
fn last_that_fits(weighed: &[(String, i64)]) -> Option<&String> {
    let mut bytes = 0;
    let fits = weighed.iter().take_while(|(_, weight)| {
        let fits = bytes < PAGE_MAX_BYTES as i64;
        bytes += weight;
        fits
    });
    fits.last().map(|(id, _)| id)
}

/// Writes one entity, if the condition holds.
pub(super) async fn write(
    port: &Port,
    space: &Space,
    id: &str,
    write: &ServerWrite,
    condition: &Condition,
) -> Result<Wrote, Error> {
    for _ in 0..TRIES {
        let (name, id) = (space.as_str().to_owned(), id.to_owned());
        let (write, condition) = (write.clone(), condition.clone());
        let tried = port
            .database()
            .write(move |transaction| {
                Box::pin(async move {
                    let tried = attempt(transaction, &name, &id, write, &condition).await?;
                    if !matches!(tried, Attempt::Pushed(..)) {
                        transaction.undo();
                    }
                    Ok(tried)
                })
            })
            .await?;
        match tried {
            Attempt::Nothing(wrote) => return Ok(wrote),
            Attempt::Overtaken => {}
            Attempt::Pushed(pushed, entity) => {
                port.tell(space, &pushed);
                return Ok(entity.map_or(Wrote::Removed, Wrote::Stored));
            }
        }
    }
    Err(Error::invalid("space", "was being made by others; try again".to_owned()))
}

enum Attempt {
    /// Nothing was changed.
    Nothing(Wrote),
    /// Somebody else made the space at this moment.
    Overtaken,
    /// It is stored, and this is the entity now.
    Pushed(Pushed, Option<Entity>),
}

async fn attempt(
    transaction: &mut Transaction<'_>,
    name: &str,
    id: &str,
    write: ServerWrite,
    condition: &Condition,
) -> Result<Attempt, Error> {
    let row: Option<Row> = transaction.query_first(LOCK, &values![name]).await?;
    let header = row.map_or_else(Header::none, Header::read);
    let before = known(transaction, name, id).await?;
    let there = before.as_ref().and_then(|(kept, number)| entity(&header, id.to_owned(), kept, *number));
    if !condition.holds(there.as_ref()) {
        return Ok(Attempt::Nothing(Wrote::Changed));
    }
    let now = now(transaction).await?;
    let kept = before.as_ref().map(|(kept, _)| kept);
    let Some(change) = write.change(id, kept, header.floor, rand::random(), now) else {
        return Ok(Attempt::Nothing(Wrote::Absent));
    };
    let batch = Batch {
        after: header.last.unsigned_abs(),
        epoch: header.epoch.clone(),
        changes: vec![change.clone()],
    };
    match push(transaction, name, batch).await? {
        None => Ok(Attempt::Nothing(Wrote::Full)),
        Some(Pushed::Taken { epoch, from, cursor, ahead, lost, now }) => {
            let Change::Entity { kept, .. } = change else { unreachable!("a server writes an entity") };
            let header = Header { epoch: epoch.clone(), ..header };
            let number = i64::try_from(cursor).unwrap_or(i64::MAX);
            let stored = entity(&header, id.to_owned(), &kept, number);
            Ok(Attempt::Pushed(Pushed::Taken { epoch, from, cursor, ahead, lost, now }, stored))
        }
        Some(Pushed::Reload | Pushed::Full) => Ok(Attempt::Overtaken),
    }
}

impl Condition {
    fn holds(&self, there: Option<&Entity>) -> bool {
        match (self, there) {
            (Self::None, _) | (Self::Matches(None), Some(_)) | (Self::Absent, None) => true,
            (Self::Matches(Some(versions)), Some(entity)) => versions.contains(&entity.version),
            (Self::Matches(_), None) | (Self::Absent, Some(_)) => false,
        }
    }
}

async fn known(
    transaction: &mut Transaction<'_>,
    name: &str,
    id: &str,
) -> Result<Option<(Kept, i64)>, Error> {
    let row: Option<NumberedRow> =
        transaction.query_first(KNOWN, &values![name, vec![id.to_owned()]]).await?;
    Ok(row.map(space_log::numbered).transpose()?.map(|(_, known)| known))
}

/// The entity as a server reads it, if it is there.
fn entity(header: &Header, id: String, kept: &Kept, number: i64) -> Option<Entity> {
    let stored = kept.stored.as_ref().filter(|_| kept.entry.live)?;
    let version = EntityVersion { epoch: header.epoch.clone(), number: number.unsigned_abs() };
    Some(Entity {
        id,
        value: stored.value.text().to_owned(),
        schema: stored.version,
        version,
        changed_at: kept.stamp().wall(),
    })
}
