//! The page's side: when to tell the node that somebody is here.
//!
//! A ping at once, then one every [`PING_EVERY`]; a goodbye when the page goes, a ping again when it comes back
//! from the back/forward cache; a ping when the page comes into sight or leaves it. A ping that fails is not
//! repeated: the next one comes soon enough. After a freeze or a night's sleep, however many pings were missed,
//! one is sent.
//!
//! Sending, timers and page events are the browser's. The machine allocates nothing and formats nothing, because
//! it is compiled into the module that pages load.

use std::time::Duration;

use super::SessionId;
use crate::time::Timestamp;

/// Pause between pings: half the [`TTL`](super::TTL), so that one may be late.
pub const PING_EVERY: Duration = Duration::from_secs(30);

/// Shortest pause before a ping about a change of visibility: flicking through tabs must not become a flood.
const PING_GAP: Duration = Duration::from_secs(1);

/// The heartbeat of one page.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    session: SessionId,
    visible: bool,
    phase: Phase,
    /// The latest `now` any input has brought.
    now: Timestamp,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Not started, or stopped for good.
    Off,
    /// The page was hidden for navigation and may come back.
    Away,
    Beating {
        pinged_at: Timestamp,
        next_at: Timestamp,
    },
}

/// What happened to the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The application asked for the heartbeat.
    Start,
    /// The application asked for its end.
    Stop,
    /// The moment given as [`Output::wake_at`] has come, or a later one.
    Timer,
    /// The page came into sight, or left it.
    Visible(bool),
    /// The page goes (`pagehide`).
    Hide,
    /// The page came back from the back/forward cache (`pageshow` with `persisted`).
    Show,
}

/// What to do now and when to call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// What to send to the node, if anything.
    pub send: Option<Message>,
    /// When to bring [`Input::Timer`]. Replaces what was asked for before; `None`: no timer is needed.
    pub wake_at: Option<Timestamp>,
}

/// What a page tells the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Somebody is here.
    Ping {
        /// The page is in sight.
        visible: bool,
    },
    /// Nobody is here any more.
    Bye,
}

impl Heartbeat {
    /// A heartbeat that is not started yet, whose session id is made of `random`.
    #[must_use]
    pub fn new(random: [u8; 16], visible: bool) -> Self {
        Self { session: SessionId::from_random(random), visible, phase: Phase::Off, now: Timestamp::ZERO }
    }

    /// The id this page goes by.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Takes one input. `now` is monotonic; an earlier one than before counts as no time passed.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Output {
        self.now = self.now.max(now);
        let now = self.now;
        let mut send = None;
        match (input, self.phase) {
            (Input::Start, Phase::Off | Phase::Away) | (Input::Show, Phase::Away) => {
                self.phase = Phase::Beating { pinged_at: now, next_at: now };
            }
            (Input::Stop | Input::Hide, Phase::Beating { .. }) => {
                send = Some(Message::Bye);
                self.phase = if input == Input::Hide { Phase::Away } else { Phase::Off };
            }
            (Input::Stop, Phase::Away) => self.phase = Phase::Off,
            (Input::Visible(visible), phase) => {
                let changed = visible != self.visible;
                self.visible = visible;
                if let (true, Phase::Beating { pinged_at, next_at }) = (changed, phase) {
                    self.phase = Phase::Beating { pinged_at, next_at: next_at.min(pinged_at + PING_GAP) };
                }
            }
            _ => {}
        }
        if let Phase::Beating { next_at, .. } = self.phase
            && next_at <= now
        {
            send = Some(Message::Ping { visible: self.visible });
            self.phase = Phase::Beating { pinged_at: now, next_at: now + PING_EVERY };
        }
        Output { send, wake_at: self.wake_at() }
    }

    fn wake_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Beating { next_at, .. } => Some(next_at),
            Phase::Off | Phase::Away => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: Option<Message> = Some(Message::Ping { visible: true });
    const UNSEEN_PING: Option<Message> = Some(Message::Ping { visible: false });
    const BYE: Option<Message> = Some(Message::Bye);

    /// Feeds `(at ms, input)` and compares what is sent and when the next timer is due, in ms.
    fn follow(steps: &[(u64, Input, Option<Message>, Option<u64>)]) {
        let mut heartbeat = Heartbeat::new([7; 16], true);
        for (step, &(at, input, send, wake_at)) in steps.iter().enumerate() {
            let expected = Output { send, wake_at: wake_at.map(Timestamp::from_ms) };
            assert_eq!(heartbeat.handle(Timestamp::from_ms(at), input), expected, "step {step}: {input:?}");
        }
    }

    #[test]
    fn vw_05_it_pings_at_once_and_then_every_30_s() {
        follow(&[
            (500, Input::Start, PING, Some(30_500)),
            (30_500, Input::Timer, PING, Some(60_500)),
            (60_507, Input::Timer, PING, Some(90_507)),
        ]);
    }

    #[test]
    fn vw_05_starting_twice_and_early_timers_send_nothing() {
        follow(&[
            (0, Input::Timer, None, None),
            (0, Input::Start, PING, Some(30_000)),
            (10, Input::Start, None, Some(30_000)),
            (20, Input::Show, None, Some(30_000)),
            (29_999, Input::Timer, None, Some(30_000)),
        ]);
    }

    #[test]
    fn vw_05_a_page_says_bye_when_it_goes_and_pings_when_it_returns() {
        follow(&[
            (0, Input::Start, PING, Some(30_000)),
            (4_000, Input::Hide, BYE, None),
            (4_000, Input::Hide, None, None),
            (30_000, Input::Timer, None, None),
            (3_600_000, Input::Show, PING, Some(3_630_000)),
            (3_600_000, Input::Show, None, Some(3_630_000)),
        ]);
    }

    #[test]
    fn vw_05_a_stopped_heartbeat_stays_stopped_until_started() {
        follow(&[
            (0, Input::Start, PING, Some(30_000)),
            (1_000, Input::Stop, BYE, None),
            (2_000, Input::Show, None, None),
            (3_000, Input::Timer, None, None),
            (4_000, Input::Start, PING, Some(34_000)),
            (5_000, Input::Hide, BYE, None),
            (6_000, Input::Stop, None, None),
            (7_000, Input::Show, None, None),
        ]);
    }

    #[test]
    fn vw_05_a_night_asleep_costs_one_ping() {
        let morning = 8 * 3_600_000;
        follow(&[
            (0, Input::Start, PING, Some(30_000)),
            (morning, Input::Timer, PING, Some(morning + 30_000)),
            (morning, Input::Timer, None, Some(morning + 30_000)),
        ]);
    }

    #[test]
    fn vw_24_visibility_is_told_at_once_but_never_in_a_flood() {
        follow(&[
            (0, Input::Start, PING, Some(30_000)),
            (10_000, Input::Visible(true), None, Some(30_000)),
            (10_000, Input::Visible(false), UNSEEN_PING, Some(40_000)),
            (10_100, Input::Visible(true), None, Some(11_000)),
            (10_200, Input::Visible(false), None, Some(11_000)),
            (10_300, Input::Visible(true), None, Some(11_000)),
            (11_000, Input::Timer, PING, Some(41_000)),
        ]);
    }

    #[test]
    fn vw_24_visibility_before_the_start_is_remembered() {
        follow(&[(0, Input::Visible(false), None, None), (5, Input::Start, UNSEEN_PING, Some(30_005))]);
    }

    #[test]
    fn vw_24_a_clock_that_goes_backwards_neither_repeats_nor_delays_a_ping() {
        follow(&[
            (50_000, Input::Start, PING, Some(80_000)),
            (10, Input::Timer, None, Some(80_000)),
            (80_000, Input::Timer, PING, Some(110_000)),
        ]);
    }
}
