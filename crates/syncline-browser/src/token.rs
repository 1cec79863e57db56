//! The schedule of tokens for JavaScript: [`syncline_core::access::Refresh`] with plain numbers at its edges.
//!
//! A module of its own, loaded by pages that give a function as their token, whatever they use it for: so a page has one schedule
//! for one function. Asking and holding the token are left to JavaScript (`js/token.js`).

use std::time::Duration;

use syncline_core::access::{Refresh, Step};
use syncline_core::time::Timestamp;
use wasm_bindgen::prelude::wasm_bindgen;

/// When to ask for a token. Times are milliseconds of `performance.now()`, `random` is drawn for each call.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct TokenRefresh {
    refresh: Refresh,
}

#[wasm_bindgen]
impl TokenRefresh {
    /// The schedule of a page that has no token yet.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Before a connection: `undefined` is to use the token that is held, 0 to ask for one, more to look again after so long.
    #[must_use]
    pub fn step(&self, now_ms: f64) -> Option<f64> {
        let now = moment(now_ms);
        match self.refresh.step(now) {
            Step::Use => None,
            Step::Ask => Some(0.0),
            Step::Wait(until) => Some((until.saturating_since(now).as_millis() as f64).max(1.0)),
        }
    }

    /// When a connection that stands is to be renewed; `undefined`: there is nothing to renew it for.
    #[wasm_bindgen(getter, js_name = renewAt)]
    #[must_use]
    pub fn renew_at(&self) -> Option<f64> {
        self.refresh.renew_at().map(|at| at.as_ms() as f64)
    }

    /// A token came. `lives_ms` is what it says itself; anything but a positive number: nothing.
    pub fn arrived(&mut self, now_ms: f64, lives_ms: f64, random: u32) {
        let lives = (lives_ms > 0.0 && lives_ms.is_finite()).then(|| Duration::from_millis(lives_ms as u64));
        self.refresh.arrived(moment(now_ms), lives, random);
    }

    /// The token that is held came again.
    pub fn repeated(&mut self, now_ms: f64, random: u32) {
        self.refresh.repeated(moment(now_ms), random);
    }

    /// No token came.
    pub fn failed(&mut self, now_ms: f64, random: u32) {
        self.refresh.failed(moment(now_ms), random);
    }

    /// A node called the token that is held expired.
    pub fn expired(&mut self, now_ms: f64, random: u32) {
        self.refresh.expired(moment(now_ms), random);
    }

    /// A node accepted it.
    pub fn accepted(&mut self) {
        self.refresh.accepted();
    }

    /// The next question is asked at once.
    pub fn reset(&mut self) {
        self.refresh.reset();
    }
}

/// The cast saturates and makes NaN zero.
fn moment(now_ms: f64) -> Timestamp {
    Timestamp::from_ms(now_ms as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ac_09_each_input_reaches_the_schedule_and_each_answer_comes_back() {
        let mut token = TokenRefresh::new();
        assert_eq!((token.step(5.0), token.renew_at()), (Some(0.0), None));
        token.arrived(1_000.0, 600_000.0, 0);
        assert_eq!((token.step(570_999.9), token.renew_at()), (None, Some(571_000.0)));
        assert_eq!(token.step(571_000.0), Some(0.0));
        token.repeated(571_000.0, 0);
        assert_eq!((token.step(571_999.0), token.step(572_000.0)), (None, Some(0.0)));
        token.accepted();
        token.expired(572_000.0, u32::MAX);
        assert_eq!(token.step(572_000.0), Some(999.0));
        token.failed(572_999.0, u32::MAX);
        assert_eq!(token.step(572_999.0), Some(1_999.0));
        token.reset();
        assert_eq!(token.step(572_999.0), Some(0.0));
    }

    #[test]
    fn ac_09_no_number_breaks_the_clock() {
        let mut token = TokenRefresh::new();
        for number in [f64::NAN, -1.0, f64::NEG_INFINITY, f64::INFINITY, f64::MAX, 0.0] {
            token.arrived(number, number, 1);
            token.expired(number, u32::MAX);
            let _ = token.step(number);
        }
        token.arrived(0.0, f64::NAN, 1);
        assert_eq!((token.step(f64::MAX), token.renew_at()), (Some(0.0), None));
    }
}
