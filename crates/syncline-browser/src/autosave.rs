//! AutoSave for JavaScript: [`syncline_core::lock::autosave::AutoSave`] with plain numbers and words at its edges.
//!
//! Made for the lock's worker (`js/autosave-worker.js`), in the manner of [`lock`](crate::lock): it tells what happened,
//! then asks [`next`](SaveMachine::next) until there is nothing left to do.

use std::collections::VecDeque;

use syncline_core::lock::autosave::{AutoSave, Input, Output};
use syncline_core::lock::protocol::Loss;
use syncline_core::time::Timestamp;
use wasm_bindgen::prelude::wasm_bindgen;

/// The saving of one document in one page.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct SaveMachine {
    machine: AutoSave,
    now: Timestamp,
    certain: bool,
    waiting: VecDeque<Output>,
    current: Option<Output>,
}

/// What to do now; see [`Output`].
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveDo {
    /// Nothing more.
    Nothing,
    /// Acquire the lock, to be kept.
    Acquire,
    /// Release it.
    Release,
    /// Read the stored version.
    Load,
    /// Show the stored version.
    Adopt,
    /// Ask the application which one to keep.
    Conflict,
    /// Write the document with `stamp` beside the stored one.
    WriteTemp,
    /// Put it in place.
    Switch,
    /// Tell the other tabs of version `stamp`.
    Announce,
    /// Nothing is left to save.
    Yield,
    /// Show the `status`.
    Show,
}

/// What happened, without details; see [`Input`].
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveNews {
    /// See [`Input::Flush`].
    Flush,
    /// See [`Input::Acquired`].
    Acquired,
    /// See [`Input::Waiting`].
    Waiting,
    /// See [`Input::Refused`].
    Refused,
    /// See [`Loss::Expired`].
    Expired,
    /// See [`Loss::TakenOver`].
    TakenOver,
    /// See [`Loss::Hidden`].
    Hidden,
    /// See [`Input::LoadFailed`].
    LoadFailed,
    /// See [`Input::TempWritten`].
    TempWritten,
    /// See [`Input::TempFailed`].
    TempFailed,
    /// See [`Input::Switched`].
    Switched,
    /// See [`Input::SwitchFailed`].
    SwitchFailed,
    /// See [`Input::KeepMine`].
    KeepMine,
    /// See [`Input::TakeTheirs`].
    TakeTheirs,
    /// See [`Input::Timer`].
    Timer,
    /// See [`Input::Close`].
    Close,
}

#[wasm_bindgen]
impl SaveMachine {
    /// A document that is not open yet.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The present by `performance.now()`, and whether the lease is certain now; to be told before everything else.
    pub fn clock(&mut self, mono_ms: f64, certain: bool) {
        // The cast saturates and makes NaN zero.
        self.now = Timestamp::from_ms(mono_ms as u64);
        self.certain = certain;
    }

    /// See [`Input::Open`].
    pub fn open(&mut self, stamp: f64) {
        self.take(Input::Open { stamp: stamp as u64 });
    }

    /// See [`Input::Changed`]; false: the text grew out of an older one than this tab has, and is not to be kept.
    pub fn changed(&mut self, line: f64, version: f64) -> bool {
        let line = line as u64;
        let accepted = self.machine.accepts(line);
        self.take(Input::Changed { line, version: version as u64 });
        accepted
    }

    /// See [`Input::Loaded`].
    pub fn loaded(&mut self, stamp: f64) {
        self.take(Input::Loaded { stamp: stamp as u64 });
    }

    /// See [`Input::Heard`].
    pub fn heard(&mut self, stamp: f64) {
        self.take(Input::Heard { stamp: stamp as u64 });
    }

    /// One of the events that need no more than their name.
    pub fn happened(&mut self, what: SaveNews) {
        self.take(match what {
            SaveNews::Flush => Input::Flush,
            SaveNews::Acquired => Input::Acquired,
            SaveNews::Waiting => Input::Waiting,
            SaveNews::Refused => Input::Refused,
            SaveNews::Expired => Input::Lost(Loss::Expired),
            SaveNews::TakenOver => Input::Lost(Loss::TakenOver),
            SaveNews::Hidden => Input::Lost(Loss::Hidden),
            SaveNews::LoadFailed => Input::LoadFailed,
            SaveNews::TempWritten => Input::TempWritten,
            SaveNews::TempFailed => Input::TempFailed,
            SaveNews::Switched => Input::Switched,
            SaveNews::SwitchFailed => Input::SwitchFailed,
            SaveNews::KeepMine => Input::KeepMine,
            SaveNews::TakeTheirs => Input::TakeTheirs,
            SaveNews::Timer => Input::Timer,
            SaveNews::Close => Input::Close,
        });
    }

    /// The next thing to do; its details are in the getters.
    #[expect(clippy::should_implement_trait, reason = "JavaScript has no iterator of ours")]
    pub fn next(&mut self) -> SaveDo {
        self.current = self.waiting.pop_front();
        match self.current {
            None => SaveDo::Nothing,
            Some(Output::Acquire) => SaveDo::Acquire,
            Some(Output::Release) => SaveDo::Release,
            Some(Output::Load) => SaveDo::Load,
            Some(Output::Adopt { .. }) => SaveDo::Adopt,
            Some(Output::Conflict { .. }) => SaveDo::Conflict,
            Some(Output::WriteTemp { .. }) => SaveDo::WriteTemp,
            Some(Output::Switch) => SaveDo::Switch,
            Some(Output::Announce { .. }) => SaveDo::Announce,
            Some(Output::Yield) => SaveDo::Yield,
            Some(Output::Show(_)) => SaveDo::Show,
        }
    }

    /// When to bring [`SaveNews::Timer`]; `undefined`: no timer is needed.
    #[wasm_bindgen(getter, js_name = wakeAt)]
    #[must_use]
    pub fn wake_at(&self) -> Option<f64> {
        self.machine.wake_at().map(|at| at.as_ms() as f64)
    }

    /// The version.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn stamp(&self) -> f64 {
        match self.current {
            Some(
                Output::WriteTemp { stamp } | Output::Announce { stamp } | Output::Conflict { stored: stamp },
            ) => stamp as f64,
            _ => 0.0,
        }
    }

    /// The line of the document: a page names it with each change.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn line(&self) -> f64 {
        self.machine.line() as f64
    }

    /// The word for what the user should see.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn status(&self) -> String {
        self.machine.status().as_str().to_owned()
    }

    /// Whether everything is stored.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn clean(&self) -> bool {
        self.machine.clean()
    }
}

impl SaveMachine {
    fn take(&mut self, input: Input) {
        self.waiting.extend(self.machine.handle(self.now, self.certain, input));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lk_12_a_change_is_saved_while_the_lease_is_certain() {
        let mut save = SaveMachine::new();
        let mut tell = |mono_ms, what: &dyn Fn(&mut SaveMachine)| {
            save.clock(mono_ms, true);
            what(&mut save);
            let mut done = Vec::new();
            loop {
                match save.next() {
                    SaveDo::Nothing => return (done, save.status(), save.stamp()),
                    next => done.push(next),
                }
            }
        };
        let (done, status, _) = tell(0.0, &|save| save.open(3.0));
        assert_eq!(
            (done.as_slice(), status.as_str()),
            (&[SaveDo::Adopt, SaveDo::Acquire, SaveDo::Show][..], "opening")
        );
        assert_eq!(tell(1.0, &|save| save.happened(SaveNews::Acquired)).0, [SaveDo::Load]);
        assert_eq!(tell(2.0, &|save| save.loaded(3.0)).1, "saved");
        assert_eq!(tell(3.0, &|save| assert!(!save.changed(0.0, 4.0))).1, "saved");
        assert_eq!(tell(3.0, &|save| assert!(save.changed(1.0, 4.0))).1, "saving");
        assert_eq!(tell(600.0, &|save| save.happened(SaveNews::Timer)).0, [SaveDo::WriteTemp]);
        assert_eq!(tell(601.0, &|save| save.happened(SaveNews::TempWritten)).0, [SaveDo::Switch]);
        let (done, status, _) = tell(602.0, &|save| save.happened(SaveNews::Switched));
        assert_eq!((done.as_slice(), status.as_str()), (&[SaveDo::Announce, SaveDo::Show][..], "saved"));
    }
}
