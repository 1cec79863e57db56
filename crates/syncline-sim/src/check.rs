//! Runs a test for many seeds and says how to repeat the one that failed.
//!
//! `SYNCLINE_SEEDS=20000` sets how many seeds are tried, `SYNCLINE_SEED=17` tries that one alone.

use std::any::Any;
use std::env;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `run` for `seeds` seeds (or as the environment says) and returns what each gave.
///
/// # Panics
///
/// When `run` does, with the command that replays that seed; `name` is the name of the test.
pub fn check<T>(name: &str, seeds: u64, run: impl Fn(u64) -> T) -> Vec<T> {
    run_all(name, chosen(seeds), run)
}

/// The first of `seeds` seeds for which `run` panics, and what it said: for tests which plant a fault and ask
/// whether it is found.
pub fn find_failure<T>(seeds: u64, run: impl Fn(u64) -> T) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| Some((seed, attempt(seed, &run).err()?)))
}

fn chosen(seeds: u64) -> Range<u64> {
    match (number("SYNCLINE_SEED"), number("SYNCLINE_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds_wanted) => 0..seeds_wanted.unwrap_or(seeds),
    }
}

fn run_all<T>(name: &str, seeds: Range<u64>, run: impl Fn(u64) -> T) -> Vec<T> {
    let results = seeds.map(|seed| attempt(seed, &run).map_err(|failure| replay(name, seed, &failure)));
    results.map(|result| result.unwrap_or_else(|told| panic!("{told}"))).collect()
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} should be a whole number, not `{text}`")))
}

fn attempt<T>(seed: u64, run: impl Fn(u64) -> T) -> Result<T, String> {
    // Nothing `run` has touched is used after a panic: every seed builds its own world.
    catch_unwind(AssertUnwindSafe(|| run(seed))).map_err(|panic| message_of(&*panic))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)").to_owned()
}

fn replay(name: &str, seed: u64, failure: &str) -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "<package>".to_owned());
    format!(
        "{name}, seed {seed}: {failure}\nreplay: SYNCLINE_SEED={seed} cargo nextest run -p {package} {name}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_seed_is_found_and_says_how_to_replay_it() {
        let odd = |seed: u64| assert_eq!(seed % 7, 0, "not a multiple");
        let (seed, failure) = find_failure(10, odd).unwrap();
        assert_eq!(seed, 1);
        assert!(failure.contains("not a multiple"), "{failure}");
        let told = attempt(0, |_| run_all("odd_seeds", 0..10, odd)).unwrap_err();
        assert!(told.contains("SYNCLINE_SEED=1 cargo nextest run -p syncline-sim odd_seeds"), "{told}");
    }

    #[test]
    fn no_failure_is_found_where_there_is_none() {
        assert_eq!(find_failure(10, |seed| seed), None);
    }
}
