//! Medians, and tables as Markdown.

/// The middle one, or the mean of the two in the middle. None for nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper })
}

/// Prints a table as Markdown, ready for a README: the first column to the left, figures to the right.
pub fn print(title: &str, heads: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        println!("| {} |", padded.collect::<Vec<_>>().join(" | "));
    };
    println!("\n{title}\n");
    line(&mut heads.iter().copied());
    let rule = widths.iter().enumerate().map(|(column, &width)| match column {
        0 => "-".repeat(width + 2),
        _ => format!("{}:", "-".repeat(width + 1)),
    });
    println!("|{}|", rule.collect::<Vec<_>>().join("|"));
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
}

/// `1234567.8` as `1,234,568`.
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn digits_come_in_threes() {
        let shown: Vec<String> = [0.0, 999.4, 1_000.0, 1_234_567.8].into_iter().map(thousands).collect();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,568"]);
    }
}
