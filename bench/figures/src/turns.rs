//! Contenders one after the other, round after round, so that whatever else the machine does falls on all alike.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::table::{median, print, thousands};

/// One way to do the work: its name in the table, and a run that tells how many it did a second.
pub struct Contender<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<f64> + 'a>,
}

impl<'a> Contender<'a> {
    /// The first of a list is the one that the others are compared with.
    pub fn new(name: impl Into<String>, run: impl FnMut() -> Result<f64> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Runs all of them `rounds` times in turns, prints the medians under `title`, and gives them back as JSON.
pub fn measure(title: &str, unit: &str, rounds: usize, contenders: Vec<Contender<'_>>) -> Result<Value> {
    let mut contenders = contenders;
    contenders.retain(|contender| crate::takes_part(&contender.name));
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for (contender, rates) in contenders.iter_mut().zip(&mut rates) {
            rates.push((contender.run)().with_context(|| contender.name.clone())?);
        }
    }
    let medians: Vec<f64> =
        rates.iter().map(|rates| median(rates.iter().copied()).unwrap_or(f64::NAN)).collect();
    let first = medians.first().copied().unwrap_or(f64::NAN);
    let row = |(contender, (rate, runs)): (&Contender<'_>, (&f64, &Vec<f64>))| {
        let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = runs.iter().copied().fold(0.0, f64::max);
        let range = format!("{} to {}", thousands(least), thousands(most));
        vec![contender.name.clone(), thousands(*rate), range, ratio(first / rate)]
    };
    let rows: Vec<Vec<String>> = contenders.iter().zip(medians.iter().zip(&rates)).map(row).collect();
    print(title, &["contender", unit, "range", "ours is"], &rows);
    let entries = contenders.iter().zip(medians.iter().zip(&rates));
    let entries = entries.map(|(contender, (rate, runs))| {
        json!({ "contender": contender.name, "median": rate, "runs": runs, "first_to_this": first / rate })
    });
    Ok(json!({ "unit": unit, "contenders": entries.collect::<Vec<_>>() }))
}

fn ratio(times: f64) -> String {
    if times >= 10.0 { format!("{} ×", thousands(times)) } else { format!("{times:.2} ×") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_take_turns_and_the_median_counts() {
        let order = std::cell::RefCell::new(String::new());
        let mut rate = 0.0;
        let slow = Contender::new("a", || {
            order.borrow_mut().push('a');
            rate += 10.0;
            Ok(rate)
        });
        let fast = Contender::new("b", || {
            order.borrow_mut().push('b');
            Ok(100.0)
        });
        let figures = measure("title", "per second", 3, vec![slow, fast]).unwrap();
        assert_eq!(*order.borrow(), "ababab");
        assert_eq!(figures["contenders"][0]["median"], 20.0);
        assert_eq!(figures["contenders"][1]["first_to_this"], 0.2);
    }

    #[test]
    fn ratios_are_readable() {
        assert_eq!([ratio(0.5), ratio(9.994), ratio(1234.5)], ["0.50 ×", "9.99 ×", "1,234 ×"]);
    }
}
