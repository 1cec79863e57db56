//! Chance that repeats: every draw follows from the seed.

use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// A source of chance that gives the same draws for the same seed.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// Dice that follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// True once in `1 / probability` times; a probability out of range counts as never or always.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    /// A number from `range`.
    pub fn pick(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.random_range(range)
    }

    /// One of `choices`, or `None` when there are none.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let last = choices.len().checked_sub(1)?;
        choices.get(self.0.random_range(0..=last))
    }

    /// Random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
