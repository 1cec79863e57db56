//! What is left to read after a defect.
//!
//! A panic in WASM ends as a bare `unreachable` trap; its text would be lost. The hook set here keeps it where
//! [`last_panic`] finds it afterwards: the trap leaves the module's memory as it was. The object in whose method the
//! panic happened stays borrowed for ever, so the facade gives it up.

use std::sync::{Mutex, PoisonError};

use wasm_bindgen::prelude::wasm_bindgen;

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// From now on, keeps the text of the last panic.
pub(crate) fn record() {
    std::panic::set_hook(Box::new(|panic| {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
    }));
}

/// The text of the last panic with its place in the source, if there was one.
#[wasm_bindgen(js_name = lastPanic)]
#[must_use]
pub fn last_panic() -> Option<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_and_place_of_a_panic_can_be_read_afterwards() {
        let original = std::panic::take_hook();
        record();
        let result = std::panic::catch_unwind(|| panic!("layer {} is missing", 3));
        std::panic::set_hook(original);
        assert!(result.is_err());
        let text = last_panic().unwrap();
        assert!(text.contains("layer 3 is missing") && text.contains("panic.rs"), "{text}");
    }
}
