//! Putting keys into the line: what core decides, as rows.

use syncline_core::queue::line::Row;
use syncline_core::queue::{Enqueued, Full, Kind, Limits};

use super::row::Header;
use super::table::{Table, Work};
use crate::Error;

/// Puts keys into the line, or none of them if there is no room.
pub(crate) struct Enqueue {
    pub(crate) limits: Limits,
    pub(crate) kind: Kind,
    pub(crate) keys: Vec<String>,
}

impl Work for Enqueue {
    type Made = Result<Enqueued, Full>;

    async fn run(self, table: &mut Table<'_, '_>) -> Result<Self::Made, Error> {
        let Self { limits, kind, keys } = self;
        let mut header = table.open().await?;
        let mut found = table.find(&keys).await?;
        header.calls().mark(&mut found);
        let head = head(table, &header, header.line.needs_head(kind)).await?;
        let (told, rows) = match header.line.enqueue(&limits, kind, &keys, found, head) {
            Ok(planned) => planned,
            Err(full) => return Ok(Err(full)),
        };
        if !rows.is_empty() {
            table.put(&rows).await?;
            header.changes += 1;
            table.save(&header).await?;
        }
        Ok(Ok(told))
    }
}

/// The first in line, where it is wanted.
pub(super) async fn head(
    table: &mut Table<'_, '_>,
    header: &Header,
    is_wanted: bool,
) -> Result<Option<Row>, Error> {
    if !is_wanted {
        return Ok(None);
    }
    Ok(table.line(header.line.front, 1).await?.into_iter().next())
}
