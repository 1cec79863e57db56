//! Shared state for JavaScript: [`syncline_core::state::Replica`] with texts at its edges.
//!
//! One call carries one input in and all its effects out, as texts whose parts are separated by `wire::FIELD` and
//! `wire::EFFECT`: a crossing costs the same however much it carries, and neither character can be in an id or in JSON.
//! Every method is total: a text that makes no sense changes nothing. Storage, messages, timers and the view are left to
//! JavaScript (`js/state.js`).

mod wire;

use std::rc::Rc;

use syncline_core::state::names::{
    CURSOR_KEY, ENTITY_PREFIX, PACKED_KEY, SCHEMA_KEY, SETTINGS_KEY, UNSENT_PREFIX,
};
use syncline_core::state::{self, CheckSettings, Config, Migrate, Value};
use syncline_core::time::Timestamp;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// What only the application knows, as an object of JavaScript: how to migrate a value, and which settings it takes.
    pub type Hooks;

    #[wasm_bindgen(method)]
    fn migrate(this: &Hooks, version: u32, id: &str, text: &str) -> Option<String>;

    #[wasm_bindgen(method, js_name = takesSettings)]
    fn takes_settings(this: &Hooks, text: &str) -> bool;
}

/// One context's view of the shared state. Times are milliseconds: `now_ms` of `performance.now()`, `wall_ms` of
/// `Date.now()`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct StateReplica {
    replica: state::Replica,
}

#[wasm_bindgen]
impl StateReplica {
    /// A replica that has read nothing yet. `maker` is drawn at random, `schema_version` counts from 1; `swaps`: the storage can
    /// swap.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(maker: u32, schema_version: u32, bridged: bool, swaps: bool, hooks: Option<Hooks>) -> Self {
        let hooks = hooks.map(Rc::new);
        let migrate = hooks.clone().map(|hooks| -> Migrate {
            Rc::new(move |version, id, value| Value::read(&hooks.migrate(version, id, value.text())?).ok())
        });
        let check_settings = hooks
            .map(|hooks| -> CheckSettings { Rc::new(move |settings| hooks.takes_settings(settings.text())) });
        let schema_version = schema_version.max(1);
        let config = Config { maker, schema_version, migrate, check_settings, bridged, swaps };
        Self { replica: state::Replica::new(config) }
    }

    /// Takes one input; tells when to bring a timer (empty: not at all), then what to do, in order.
    pub fn handle(&mut self, now_ms: f64, wall_ms: f64, input: &str) -> String {
        // The casts saturate and make NaN zero, and the machine takes a time before the last one as no time passed.
        let (now, wall) = (Timestamp::from_ms(now_ms as u64), Timestamp::from_ms(wall_ms as u64));
        match wire::read(input, || self.replica.entities().count()) {
            Some(input) => wire::write(&self.replica.handle(now, wall, input)),
            None => wire::refuse(input),
        }
    }

    /// Whether what is stored may be exchanged under this name; `undefined`: not before everything is loaded. The first name
    /// is stored with the next input.
    #[cfg(feature = "bridge")]
    pub fn admits(&mut self, subject: &str) -> Option<bool> {
        self.replica.admits(subject)
    }

    /// How many entities have changes that the node has not confirmed.
    #[cfg(feature = "bridge")]
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.replica.unsent()
    }

    /// Which layout entities are kept in: `A`, `B` or `C`.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn layout(&self) -> char {
        match self.replica.layout() {
            state::Layout::A => 'A',
            state::Layout::B => 'B',
            state::Layout::C(_) => 'C',
        }
    }
}

/// Whether the contents of a storage key concern a replica at all.
#[wasm_bindgen(js_name = isStateKey)]
#[must_use]
pub fn is_state_key(key: &str) -> bool {
    let begins = [ENTITY_PREFIX, PACKED_KEY, UNSENT_PREFIX].iter().any(|prefix| key.starts_with(prefix));
    let ours = begins || [SETTINGS_KEY, SCHEMA_KEY, CURSOR_KEY].contains(&key);
    ours && !key.contains(wire::MARKS)
}

#[cfg(test)]
mod tests;
