//! What every contender does: clients that acquire and release as fast as they can, for a while.

use anyhow::{Context, Result};
use bench_figures::table::{median, print, thousands};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// So many clients, spread over so many names, for so long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Race {
    pub(crate) clients: u32,
    pub(crate) names: u32,
    pub(crate) seconds: u8,
}

/// What came of a race.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Acquired and released.
    pub(crate) pairs_per_second: f64,
    /// From asking to having given back.
    pub(crate) pair_ms: Percentiles,
    /// From one client's letting go to another's having it.
    pub(crate) handover_ms: Percentiles,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Percentiles {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (values.len() as f64 * share) as usize;
            values.get(place.min(values.len().saturating_sub(1))).copied()
        };
        Self { p50: at(0.5), p99: at(0.99) }
    }
}

/// One of those who race.
pub(crate) struct Contender {
    name: &'static str,
    run: fn(Race) -> Result<Outcome>,
}

impl Contender {
    pub(crate) fn new(name: &'static str, run: fn(Race) -> Result<Outcome>) -> Self {
        Self { name, run }
    }
}

/// All of them in turns, `rounds` times; prints the medians and gives them back.
pub(crate) fn measure(title: &str, race: Race, rounds: u8, contenders: &[Contender]) -> Result<Value> {
    let contenders: Vec<&Contender> =
        contenders.iter().filter(|contender| bench_figures::takes_part(contender.name)).collect();
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for (contender, outcomes) in contenders.iter().zip(&mut outcomes) {
            outcomes.push((contender.run)(race).with_context(|| contender.name)?);
        }
    }
    let middle =
        |outcomes: &[Outcome], of: fn(&Outcome) -> Option<f64>| median(outcomes.iter().filter_map(of));
    let fields: [fn(&Outcome) -> Option<f64>; 5] = [
        |outcome| Some(outcome.pairs_per_second),
        |outcome| outcome.pair_ms.p50,
        |outcome| outcome.pair_ms.p99,
        |outcome| outcome.handover_ms.p50,
        |outcome| outcome.handover_ms.p99,
    ];
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (contender, outcomes) in contenders.iter().zip(&outcomes) {
        let [rate, times @ ..] = fields.map(|field| middle(outcomes, field));
        let mut row = vec![contender.name.to_owned(), rate.map_or_else(String::new, thousands)];
        row.extend(times.iter().map(|ms| ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.2}"))));
        rows.push(row);
        figures
            .push(json!({ "contender": contender.name, "median_pairs_per_second": rate, "runs": outcomes }));
    }
    let heads = ["contender", "pairs per second", "p50 ms", "p99 ms", "hand-over p50 ms", "hand-over p99 ms"];
    print(title, &heads, &rows);
    Ok(json!(figures))
}
