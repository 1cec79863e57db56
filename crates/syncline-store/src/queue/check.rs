//! The bounds of what comes in.

use syncline_core::queue::{Answer, Outcome, REASON_MAX_BYTES};

use super::{
    GROUP_MAX_BYTES, INPUT_MAX_BYTES, INPUTS_MAX_BYTES, KEY_MAX_BYTES, KEYS_MAX, LIST_MAX, NAME_MAX_BYTES,
    NewTask, RESULT_MAX_BYTES, Rules,
};
use crate::Error;

/// A queue's name.
pub(crate) fn name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.bytes().all(plain) {
        let reason = format!("must be 1 to {NAME_MAX_BYTES} letters, digits, dots, dashes and underscores");
        return Err(Error::invalid("the queue's name", reason));
    }
    Ok(())
}

/// Keys of one call.
pub(crate) fn keys<'a>(keys: impl ExactSizeIterator<Item = &'a String>) -> Result<(), Error> {
    if keys.len() > KEYS_MAX {
        return Err(Error::invalid("keys", format!("are {}; {KEYS_MAX} at a time are the most", keys.len())));
    }
    for key in keys {
        if key.is_empty() || key.len() > KEY_MAX_BYTES {
            let reason = format!("has {} bytes; it must have 1 to {KEY_MAX_BYTES}", key.len());
            return Err(Error::invalid("a key", reason));
        }
        if key.chars().any(char::is_control) {
            return Err(Error::invalid("a key", "must not contain control characters"));
        }
    }
    Ok(())
}

/// What keys of one call carry.
pub(crate) fn inputs(tasks: &[NewTask]) -> Result<(), Error> {
    let mut bytes = 0;
    for input in tasks.iter().filter_map(|task| task.input.as_ref()) {
        if input.len() > INPUT_MAX_BYTES {
            let reason = format!("has {} bytes; {INPUT_MAX_BYTES} are the most", input.len());
            return Err(Error::invalid("an input", reason));
        }
        // PostgreSQL keeps no text with it; JSON would have written it as an escape.
        if input.contains('\0') {
            return Err(Error::invalid("an input", "must not contain a zero byte"));
        }
        bytes += input.len();
    }
    if bytes > INPUTS_MAX_BYTES {
        let reason = format!("have {bytes} bytes together; {INPUTS_MAX_BYTES} at a time are the most");
        return Err(Error::invalid("inputs", reason));
    }
    Ok(())
}

/// Names of groups.
pub(crate) fn groups<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    for name in names {
        if name.len() > GROUP_MAX_BYTES || name.chars().any(char::is_control) {
            let reason = format!("must have at most {GROUP_MAX_BYTES} bytes and no control characters");
            return Err(Error::invalid("the name of a group", reason));
        }
    }
    Ok(())
}

pub(crate) fn rules(rules: &Rules) -> Result<(), Error> {
    rules.groups.map_or(Ok(()), |groups| groups.check())?;
    Ok(rules.settings.check()?)
}

pub(crate) fn limit(limit: usize) -> Result<i64, Error> {
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(Error::invalid("limit", format!("must be from 1 to {LIST_MAX}")));
    }
    Ok(limit as i64)
}

/// An answer whose result can be kept: one that cannot is a failure, and says why. An error would not do, because then
/// the call could never be ended.
pub(crate) fn answer(answer: Answer<String>) -> Answer<String> {
    match answer {
        Answer::Done(text) => match unfit(&text) {
            Some(reason) => Answer::Refused { reason },
            None => Answer::Done(text),
        },
        other => other,
    }
}

/// The same for an outcome.
pub(crate) fn outcome(outcome: Outcome<String>) -> Outcome<String> {
    match outcome {
        Outcome::Done(text) => match unfit(&text) {
            Some(reason) => Outcome::Failed(reason),
            None => Outcome::Done(text),
        },
        other => other,
    }
}

fn unfit(text: &str) -> Option<String> {
    if text.len() > RESULT_MAX_BYTES {
        return Some(format!("the result has {} bytes; {RESULT_MAX_BYTES} are the most", text.len()));
    }
    // PostgreSQL keeps no text with it, and a result must not depend on the engine.
    text.contains('\0').then(|| "the result contains a zero byte".to_owned())
}

/// A reason as it is kept.
pub(crate) fn reason(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(REASON_MAX_BYTES));
    reason.replace('\0', "\u{fffd}")
}
