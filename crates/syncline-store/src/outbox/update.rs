//! The statement that changes the application's row for a file of which a receipt arrived.
//!
//! Names come from configuration: they are checked and quoted. Values are bound.

use super::ReceiptUpdate;
use crate::Error;

/// Longest name of a table or column.
const NAME_MAX_BYTES: usize = 63;
/// Most columns that one receipt sets.
const COLUMNS_MAX: usize = 16;

impl ReceiptUpdate {
    /// An error if a name is none, or there is nothing to set.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |reason: String| Err(Error::invalid("receipt update", reason));
        if self.set.is_empty() || self.set.len() > COLUMNS_MAX {
            return refused(format!("must set 1 to {COLUMNS_MAX} columns"));
        }
        let columns = self.set.iter().map(|(column, _)| column).chain([&self.id_column]);
        let table = self.table.split('.');
        if table.clone().count() > 2 {
            return refused(format!("names `{}`, which is no table", self.table));
        }
        match table.chain(columns.map(String::as_str)).find(|name| !is_name(name)) {
            Some(name) => refused(format!("has the name `{name}`: letters, digits and underscores make one")),
            None => Ok(()),
        }
    }

    /// The table as it stands in a statement.
    pub(crate) fn quoted_table(&self) -> String {
        self.table.split('.').map(quoted).collect::<Vec<_>>().join(".")
    }

    /// An error if the table, which has `columns`, lacks one.
    pub(crate) fn check_columns(&self, columns: &[&str]) -> Result<(), Error> {
        let wanted = self.set.iter().map(|(column, _)| column).chain([&self.id_column]);
        for name in wanted {
            if !columns.contains(&name.as_str()) {
                let reason = format!("sets {}.{name}, and there is no such column", self.table);
                return Err(Error::invalid("receipt update", reason));
            }
        }
        Ok(())
    }
}

/// A checked name as it stands in a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && name.len() <= NAME_MAX_BYTES && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_36_only_names_become_part_of_a_statement() {
        let update = |table: &str, id_column: &str, column: &str| ReceiptUpdate {
            table: table.to_owned(),
            id_column: id_column.to_owned(),
            set: vec![(column.to_owned(), "uploaded".into())],
        };
        assert!(update("invoices", "id", "upload_status").check().is_ok());
        assert_eq!(update("media.files", "id", "state").quoted_table(), "\"media\".\"files\"");
        let long = "a".repeat(NAME_MAX_BYTES + 1);
        for bad in ["", "a b", "a\"b", "a;b", "1a", "a.b.c", "a.", &long] {
            assert!(update(bad, "id", "state").check().is_err(), "{bad}");
            assert!(update("t", bad, "state").check().is_err(), "{bad}");
            assert!(update("t", "id", bad).check().is_err(), "{bad}");
        }
        let nothing = ReceiptUpdate { set: Vec::new(), ..update("t", "id", "c") };
        assert!(nothing.check().is_err());
    }
}
