//! The viewer heartbeat for JavaScript: [`syncline_core::viewer::Heartbeat`] with plain numbers at its edges.
//!
//! Made for a worker that owns the timer and sends the requests (`js/viewer-worker.js`). Every method is total: whatever
//! number JavaScript passes as the time, the answer is a value.

use syncline_core::time::Timestamp;
use syncline_core::viewer::{self, Input, Message, Output};
use wasm_bindgen::prelude::wasm_bindgen;

/// When to tell the node that somebody is here. Times are milliseconds of a monotonic clock (`performance.now()`).
#[wasm_bindgen]
#[derive(Debug)]
pub struct Heartbeat {
    machine: viewer::Heartbeat,
    wake_at: Option<Timestamp>,
}

/// What to send to the node now.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Send {
    /// Nothing.
    Nothing,
    /// Somebody is here and sees the page.
    Ping,
    /// Somebody is here; the page is out of sight.
    PingUnseen,
    /// Nobody is here any more.
    Bye,
}

#[wasm_bindgen]
impl Heartbeat {
    /// A heartbeat that is not started yet. The 128 random bits become the session id; two numbers instead of an array,
    /// so that there is no wrong length.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(random_high: u64, random_low: u64, visible: bool) -> Self {
        let random = (u128::from(random_high) << 64 | u128::from(random_low)).to_be_bytes();
        Self { machine: viewer::Heartbeat::new(random, visible), wake_at: None }
    }

    /// The id this page goes by.
    #[wasm_bindgen(getter, js_name = sessionId)]
    #[must_use]
    pub fn session_id(&self) -> String {
        self.machine.session().as_str().to_owned()
    }

    /// When to call [`timer`](Self::timer); `undefined`: no timer is needed.
    #[wasm_bindgen(getter, js_name = wakeAt)]
    #[must_use]
    pub fn wake_at(&self) -> Option<f64> {
        self.wake_at.map(|at| at.as_ms() as f64)
    }

    /// The page is here: for the first time, or back from the back/forward cache.
    pub fn start(&mut self, now_ms: f64) -> Send {
        self.handle(now_ms, Input::Start)
    }

    /// The time of [`wake_at`](Self::wake_at) has come, or may have come unnoticed (a frozen page was resumed).
    pub fn timer(&mut self, now_ms: f64) -> Send {
        self.handle(now_ms, Input::Timer)
    }

    /// The page came into sight, or left it.
    pub fn visible(&mut self, now_ms: f64, visible: bool) -> Send {
        self.handle(now_ms, Input::Visible(visible))
    }

    /// The page goes, perhaps for good.
    pub fn hide(&mut self, now_ms: f64) -> Send {
        self.handle(now_ms, Input::Hide)
    }
}

impl Heartbeat {
    fn handle(&mut self, now_ms: f64, input: Input) -> Send {
        // The cast saturates and makes NaN zero, and the machine takes a time before the last one as no time passed.
        let Output { send, wake_at } = self.machine.handle(Timestamp::from_ms(now_ms as u64), input);
        self.wake_at = wake_at;
        match send {
            None => Send::Nothing,
            Some(Message::Ping { visible: true }) => Send::Ping,
            Some(Message::Ping { visible: false }) => Send::PingUnseen,
            Some(Message::Bye) => Send::Bye,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_24_the_session_id_is_all_of_the_random_bits_in_order() {
        let heartbeat = Heartbeat::new(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f, true);
        assert_eq!(heartbeat.session_id(), "00010203-0405-4607-8809-0a0b0c0d0e0f");
    }

    #[test]
    fn vw_05_each_input_reaches_the_machine_and_each_answer_comes_back() {
        let mut heartbeat = Heartbeat::new(1, 2, true);
        assert_eq!((heartbeat.timer(0.0), heartbeat.wake_at()), (Send::Nothing, None));
        assert_eq!((heartbeat.start(0.5), heartbeat.wake_at()), (Send::Ping, Some(30_000.0)));
        assert_eq!((heartbeat.timer(29_999.9), heartbeat.wake_at()), (Send::Nothing, Some(30_000.0)));
        assert_eq!((heartbeat.timer(30_000.2), heartbeat.wake_at()), (Send::Ping, Some(60_000.0)));
        assert_eq!(
            (heartbeat.visible(40_000.0, false), heartbeat.wake_at()),
            (Send::PingUnseen, Some(70_000.0))
        );
        assert_eq!((heartbeat.hide(50_000.0), heartbeat.wake_at()), (Send::Bye, None));
        assert_eq!((heartbeat.start(60_000.0), heartbeat.wake_at()), (Send::PingUnseen, Some(90_000.0)));
    }

    #[test]
    fn vw_24_no_number_breaks_the_clock() {
        let mut heartbeat = Heartbeat::new(1, 2, true);
        for now_ms in [f64::NAN, -1.0, f64::NEG_INFINITY, f64::INFINITY, f64::MAX, 0.0] {
            heartbeat.timer(now_ms);
        }
        assert_eq!(heartbeat.start(1.0), Send::Ping);
        assert_eq!(heartbeat.hide(f64::NAN), Send::Bye);
    }
}
