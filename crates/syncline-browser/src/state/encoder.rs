//! A value of JavaScript, handed over part by part: [`syncline_core::state::Encoder`].

use syncline_core::state::{self, Refused};
use wasm_bindgen::prelude::wasm_bindgen;

/// What is no data.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// `undefined`, also as a hole in an array.
    Undefined,
    /// A function.
    Function,
    /// A symbol, also as the name of a member.
    Symbol,
    /// A whole number of any size.
    BigInt,
    /// A date.
    Date,
    /// Any other object that is neither plain nor an array: a map, bytes, an instance of a class.
    Object,
}

/// Encodes one value; what it is told after a refusal changes nothing.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct ValueEncoder {
    encoder: state::Encoder,
}

#[wasm_bindgen]
impl ValueEncoder {
    /// An encoder that was told nothing yet.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An object begins.
    #[wasm_bindgen(js_name = beginMap)]
    pub fn begin_map(&mut self) {
        self.encoder.begin_map();
    }

    /// An array begins.
    #[wasm_bindgen(js_name = beginList)]
    pub fn begin_list(&mut self) {
        self.encoder.begin_list();
    }

    /// The object or array that was opened last is complete.
    pub fn end(&mut self) {
        self.encoder.end();
    }

    /// The name of the member that comes next, as UTF-16.
    pub fn name(&mut self, utf16: &[u16]) {
        self.encoder.name(utf16);
    }

    /// A string, as UTF-16.
    pub fn text(&mut self, utf16: &[u16]) {
        self.encoder.text(utf16);
    }

    /// A number, as JavaScript prints it; negative zero as `-0`.
    pub fn number(&mut self, digits: &str) {
        self.encoder.number(digits);
    }

    /// `true` or `false`.
    pub fn bool(&mut self, is: bool) {
        self.encoder.bool(is);
    }

    /// `null`.
    pub fn null(&mut self) {
        self.encoder.null();
    }

    /// Something that is no data.
    pub fn foreign(&mut self, what: Foreign) {
        self.encoder.foreign(match what {
            Foreign::Undefined => "undefined",
            Foreign::Function => "a function",
            Foreign::Symbol => "a symbol",
            Foreign::BigInt => "a bigint",
            Foreign::Date => "a date",
            Foreign::Object => "an object that is not plain",
        });
    }

    /// Whether nothing that follows can change the answer.
    #[wasm_bindgen(getter, js_name = isRefused)]
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.encoder.is_refused()
    }

    /// The value as JSON, which begins with a brace; or `!`, the path of what is wrong, a zero character, and what it is.
    #[must_use]
    pub fn finish(self) -> String {
        match self.encoder.finish() {
            Ok(value) => value.text().to_owned(),
            Err(Refused { path, why }) => format!("!{path}\0{why}"),
        }
    }
}
