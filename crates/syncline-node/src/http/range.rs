//! How much of a listing is asked for, and how much of it fits.

use std::io;

use serde::Serialize;

use super::Error;

/// How many are listed when nobody says.
const LIMIT_DEFAULT: usize = 100;

/// How many are wanted, `most` at most.
pub fn checked(limit: Option<usize>, most: usize) -> Result<usize, Error> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=most).contains(&limit) {
        return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {most}")));
    }
    Ok(limit)
}

/// Cuts a page where it would have more than `max_bytes` as JSON, and says whether it did. The first item always fits: what
/// is stored is six times as long at most when every character has to be escaped.
pub fn fit<T: Serialize>(items: &mut Vec<T>, max_bytes: usize) -> bool {
    let (mut bytes, whole) = (0, items.len());
    let fits = items.iter().take_while(|item| {
        // The comma between two of them counts as well.
        bytes += length(item) + 1;
        bytes <= max_bytes
    });
    let fitting = fits.count().max(1);
    items.truncate(fitting);
    items.len() < whole
}

/// The bytes of `item` as JSON, without writing them down.
fn length(item: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    // An error could only come from the value itself, and then the answer fails as well.
    drop(serde_json::to_writer(&mut counted, item));
    counted.0
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_where_it_would_be_too_long_and_never_before_its_first_item() {
        let items = || vec!["a\u{1}"; 10];
        let mut all = items();
        assert!(!fit(&mut all, 100), "ten of nine bytes and a comma");
        assert_eq!(all.len(), 10);
        for (max_bytes, expected) in [(99, 9), (20, 2), (19, 1), (1, 1)] {
            let mut some = items();
            assert!(fit(&mut some, max_bytes));
            assert_eq!(some.len(), expected, "{max_bytes}");
        }
        assert!(!fit(&mut Vec::<&str>::new(), 1));
    }
}
