//! Inputs and effects as texts.
//!
//! An input is a word and its fields; a list is all fields that are left, key and contents by turns. Contents that are
//! empty stand for a key that is not there.

use syncline_core::state::json::write_text;
use syncline_core::state::{Effect, Error, Failure, Input, Layout, LinkStatus, Output, Report, Value};

/// Between the fields of an input or effect.
pub(super) const FIELD: char = '\0';
/// Between effects.
pub(super) const EFFECT: char = '\u{1}';
/// From so many on, entities to be shown are written together.
const TOGETHER_MIN: usize = 16;
/// Neither may be in a key.
pub(super) const MARKS: [char; 2] = [FIELD, EFFECT];

/// Reads an input; `None`: it makes no sense.
pub(super) fn read(text: &str, entities: impl Fn() -> usize) -> Option<Input> {
    let (word, rest) = text.split_once(FIELD).unwrap_or((text, ""));
    let (first, after) = rest.split_once(FIELD).unwrap_or((rest, ""));
    let number = || first.parse().ok();
    Some(match word {
        "start" => Input::Start,
        "timer" => Input::Timer,
        "refresh" => Input::Refresh,
        "close" => Input::Close,
        "put" => {
            let (id, value) = after.split_once(FIELD)?;
            Input::Put { op: number()?, id: id.to_owned(), value: Value::read(value).ok()? }
        }
        "remove" => Input::Remove { op: number()?, ids: list(after) },
        "reset" => Input::Reset { op: number()? },
        "sweep" => Input::Sweep { op: number()? },
        "set-settings" => Input::SetSettings { op: number()?, value: Value::read(after).ok()? },
        "set-layout" => {
            let layout = match after {
                "A" => Layout::A,
                "B" => Layout::B,
                "C" => Layout::sharded(entities()),
                _ => return None,
            };
            Input::SetLayout { op: number()?, layout }
        }
        "got" => Input::Got { ask: number()?, found: pairs(after) },
        "stored" => Input::Stored { ask: number()? },
        "swapped" => Input::Swapped { ask: number()?, before: pairs(after) },
        "listed" => Input::Listed { ask: number()?, keys: list(after) },
        "failed" => {
            let failure = match after {
                "quota" => Failure::Quota,
                "gone" => Failure::Gone,
                "overtaken" => Failure::Overtaken,
                _ => Failure::Other,
            };
            Input::Failed { ask: number()?, failure }
        }
        "changed" => Input::Changed(pairs(rest)),
        "message" => Input::Message(rest.to_owned()),
        "acked" => Input::Acked { send: number()? },
        "no-receiver" => Input::NoReceiver { send: number()? },
        _ if cfg!(feature = "bridge") => return read_from_node(word, first, after),
        _ => return None,
    })
}

/// What comes from a node, or is said of it.
fn read_from_node(word: &str, first: &str, after: &str) -> Option<Input> {
    let number = || first.parse().ok();
    Some(match word {
        "link" => Input::Link { up: first == "up" },
        "told" => Input::Told { number: number()? },
        "answered" => Input::Answered { ask: number()?, text: after.to_owned() },
        "unanswered" => {
            let (word, random) = after.split_once(FIELD)?;
            let refusal = (!word.is_empty()).then(|| word.to_owned());
            Input::Unanswered { ask: number()?, refusal, random: random.parse().ok()? }
        }
        _ => return None,
    })
}

/// The answer to an operation that cannot even be read.
pub(super) fn refuse(input: &str) -> String {
    let op = input.split(FIELD).nth(1).unwrap_or_default();
    format!("{EFFECT}reject{FIELD}{op}{FIELD}value")
}

/// When to wake, and the effects.
pub(super) fn write(output: &Output) -> String {
    let mut out = output.wake_at.map(|at| at.as_ms().to_string()).unwrap_or_default();
    let mut left = output.effects.as_slice();
    while let Some((effect, rest)) = left.split_first() {
        out.push(EFFECT);
        let many = left.iter().take_while(|effect| shown(effect).is_some()).count();
        if many < TOGETHER_MIN {
            write_effect(effect, &mut out);
            left = rest;
        } else {
            let (together, rest) = left.split_at(many);
            write_together(together, &mut out);
            left = rest;
        }
    }
    out
}

/// What a view is to show.
fn shown(effect: &Effect) -> Option<(&str, &Value)> {
    if let Effect::Render { id, value: Some(value) } = effect { Some((id, value)) } else { None }
}

/// Many entities as one JSON text, id and value by turns: JavaScript reads that several times as fast as it splits texts.
fn write_together(effects: &[Effect], out: &mut String) {
    out.push_str("renders");
    out.push(FIELD);
    out.reserve(effects.iter().filter_map(shown).map(|(id, value)| id.len() + value.text().len() + 4).sum());
    for (position, (id, value)) in effects.iter().filter_map(shown).enumerate() {
        out.push(if position == 0 { '[' } else { ',' });
        write_text(id, out);
        out.push(',');
        out.push_str(value.text());
    }
    out.push(']');
}

fn write_effect(effect: &Effect, out: &mut String) {
    let mut say = |fields: &[&str]| {
        for (position, field) in fields.iter().enumerate() {
            if position > 0 {
                out.push(FIELD);
            }
            out.push_str(field);
        }
    };
    match effect {
        Effect::Ready => say(&["ready"]),
        Effect::Clear => say(&["clear"]),
        Effect::List { ask } => say(&["list", &ask.to_string()]),
        Effect::Send { send, text } => say(&["send", &send.to_string(), text]),
        Effect::Render { id, value } => say(&["render", id, value.as_ref().map_or("", Value::text)]),
        Effect::Settings(settings) => say(&["settings", settings.as_ref().map_or("", Value::text)]),
        Effect::Resolve { op } => say(&["resolve", &op.to_string()]),
        Effect::Get { ask, keys } => {
            say(&["get", &ask.to_string()]);
            keys.iter().for_each(|key| say(&["", key]));
        }
        Effect::Set { ask, entries } | Effect::Swap { ask, entries } => {
            let word = if matches!(effect, Effect::Swap { .. }) { "swap" } else { "set" };
            say(&[word, &ask.to_string()]);
            entries.iter().for_each(|(key, text)| say(&["", key, text]));
        }
        Effect::Remove { ask, keys } => {
            say(&["remove", &ask.to_string()]);
            keys.iter().for_each(|key| say(&["", key]));
        }
        Effect::Pull { .. } | Effect::Push { .. } | Effect::Link(_) if !cfg!(feature = "bridge") => {}
        Effect::Pull { ask, query } => say(&["pull", &ask.to_string(), query]),
        Effect::Push { ask, body } => say(&["push", &ask.to_string(), body]),
        Effect::Link(status) => {
            let (word, detail) = link_words(status);
            say(&["link", word, detail]);
        }
        Effect::Reject { op, error } => say(&["reject", &op.to_string(), word(error)]),
        Effect::Report(report) => {
            let (word, detail) = report_words(report);
            say(&["report", word, &detail]);
        }
    }
}

fn word(error: &Error) -> &'static str {
    match error {
        Error::BadId => "id",
        Error::BadSettings => "settings",
        Error::TooMany => "full",
        Error::Busy => "busy",
        Error::Quota => "quota",
        Error::Closed => "closed",
        _ => "storage",
    }
}

fn link_words(status: &LinkStatus) -> (&'static str, &str) {
    match status {
        LinkStatus::Down => ("follows", ""),
        LinkStatus::Behind => ("behind", ""),
        LinkStatus::InStep => ("in-step", ""),
        LinkStatus::Unreachable => ("unreachable", ""),
        LinkStatus::ClockOff => ("clock-off", ""),
        LinkStatus::Refused(word) => ("refused", word),
    }
}

fn report_words(report: &Report) -> (&'static str, String) {
    match report {
        Report::Poisoned { key } => ("poisoned", key.clone()),
        Report::NotMigrated { id } => ("not-migrated", id.clone()),
        Report::NewerSchema { stored } => ("newer-schema", stored.to_string()),
        Report::NoReceiver => ("no-receiver", String::new()),
        Report::Unacknowledged => ("unacknowledged", String::new()),
        Report::Overflow => ("overflow", String::new()),
        Report::ClockJumped => ("clock-jumped", String::new()),
        Report::Cleared => ("storage-cleared", String::new()),
        Report::StorageFailed(Failure::Quota) => ("storage-failed", "quota".to_owned()),
        Report::StorageFailed(_) => ("storage-failed", String::new()),
        _ => ("other", String::new()),
    }
}

fn list(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { text.split(FIELD).map(str::to_owned).collect() }
}

fn pairs(text: &str) -> Vec<(String, Option<String>)> {
    let mut fields = text.split(FIELD);
    let mut found = Vec::new();
    while let (Some(key), Some(contents)) = (fields.next(), fields.next()) {
        found.push((key.to_owned(), (!contents.is_empty()).then(|| contents.to_owned())));
    }
    found
}
