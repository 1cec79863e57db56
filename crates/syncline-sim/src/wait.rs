//! Waiting for something real: asks again and again until it is so, and fails with its name when it never is.
//!
//! Better than a fixed pause: a test that waits this way is as fast as what it waits for.

use std::time::{Duration, Instant};

/// How long a test waits for what must come. On a busy machine everything takes long; what never comes fails all the same.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often it asks.
const EVERY: Duration = Duration::from_millis(10);

/// Waits until `holds` says so. Panics, naming `what`, when it has not after [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        give_up_late(what, start);
        tokio::time::sleep(EVERY).await;
    }
}

/// Waits until `ask` has an answer. Panics, naming `what`, when it has none after [`PATIENCE`].
pub async fn until_some<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        give_up_late(what, start);
        tokio::time::sleep(EVERY).await;
    }
}

/// The same as [`until`] for a thread of its own, without a runtime.
pub fn until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        give_up_late(what, start);
        std::thread::sleep(EVERY);
    }
}

fn give_up_late(what: &str, start: Instant) {
    assert!(start.elapsed() < PATIENCE, "waited {} s in vain: {what}", PATIENCE.as_secs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hs_11_it_asks_until_the_answer_is_yes() {
        let mut asked = 0;
        until_blocking("the third time", || {
            asked += 1;
            asked == 3
        });
        assert_eq!(asked, 3);
    }

    #[tokio::test]
    async fn hs_11_it_gives_back_the_answer() {
        let mut asked = 0;
        let answer = until_some("the third time", async || {
            asked += 1;
            (asked == 3).then_some("here")
        })
        .await;
        assert_eq!((asked, answer), (3, "here"));
        until("nothing to wait for", async || true).await;
    }
}
