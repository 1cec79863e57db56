//! What contexts tell each other: deltas and patches.
//!
//! A message only makes things faster. Each fact in one of ours carries its stamp, so that late and doubled messages
//! change nothing; a value without a stamp, from a sender who knows nothing of them, is a hint to read storage.

use super::json::{Json, write_text};
use super::names::{ACTION_DELTA, ACTION_PATCH, OP_REMOVE, OP_SET};
use super::stamp::Stamp;
use super::value::{Stored, is_id, write_member};

/// What a message says about one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntityChange {
    Set(Stored),
    /// Removed; when, if the sender knows.
    Removed(Option<Stamp>),
}

/// A delta with what was said about each entity.
pub(super) fn write(revision: u64, changes: &[(String, EntityChange)]) -> String {
    let mut out = String::from("{\"action\":\"");
    out.push_str(ACTION_DELTA);
    out.push_str("\",\"revision\":");
    out.push_str(&revision.to_string());
    out.push_str(",\"delta\":{");
    let mut gone = String::new();
    for (position, (id, change)) in changes.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        match change {
            EntityChange::Set(stored) => write_member(id, stored, &mut out),
            EntityChange::Removed(stamp) => {
                write_text(id, &mut out);
                out.push_str(":null");
                if let Some(stamp) = stamp {
                    gone.push(if gone.is_empty() { '{' } else { ',' });
                    write_text(id, &mut gone);
                    gone.push_str(":\"");
                    gone.push_str(&stamp.text());
                    gone.push('"');
                }
            }
        }
    }
    out.push('}');
    if !gone.is_empty() {
        out.push_str(",\"gone\":");
        out.push_str(&gone);
        out.push('}');
    }
    out.push('}');
    out
}

/// What a message says; `None`: not a message of ours. Parts that make no sense are left out.
pub(super) fn read(text: &str) -> Option<Vec<(String, EntityChange)>> {
    let json = Json::read(text).ok()?;
    match json.member("action")?.as_text()? {
        ACTION_DELTA => {
            let Json::Map(delta) = json.member("delta")? else { return None };
            let gone = |id: &str| json.member("gone")?.member(id)?.as_text().and_then(Stamp::read);
            Some(delta.iter().filter_map(|(id, value)| change(id, value, gone(id))).collect())
        }
        ACTION_PATCH => {
            let Json::List(ops) = json.member("ops")? else { return None };
            Some(ops.iter().filter_map(op).collect())
        }
        _ => None,
    }
}

fn op(op: &Json) -> Option<(String, EntityChange)> {
    let id = op.member("entityId")?.as_text()?;
    match op.member("op")?.as_text()? {
        OP_SET => change(id, op.member("value")?, None),
        OP_REMOVE => {
            change(id, &Json::Null, op.member("stamp").and_then(Json::as_text).and_then(Stamp::read))
        }
        _ => None,
    }
}

fn change(id: &str, value: &Json, gone: Option<Stamp>) -> Option<(String, EntityChange)> {
    if !is_id(id) {
        return None;
    }
    let change = match value {
        Json::Null => EntityChange::Removed(gone),
        value => EntityChange::Set(Stored::from_json(value.clone()).ok()?),
    };
    Some((id.to_owned(), change))
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;

    #[test]
    fn st_07_a_delta_says_what_was_put_into_it() {
        let stored = |text: &str, stamp| Stored {
            value: Value::read(text).unwrap(),
            stamp,
            added: None,
            version: u32::from(stamp.is_some()),
        };
        let told = vec![
            (
                "a".to_owned(),
                EntityChange::Set(stored("{\"checked\":true}", Stamp::read("0123456789abcdef"))),
            ),
            ("b\"".to_owned(), EntityChange::Removed(Stamp::read("0---------------"))),
            ("c".to_owned(), EntityChange::Removed(None)),
        ];
        assert_eq!(read(&write(42, &told)).unwrap(), told);
        let bare =
            "{\"action\":\"entityDelta\",\"delta\":{\"a\":{\"checked\":true},\"b\":null,\"\":null,\"c\":7}}";
        let expected = [
            ("a".to_owned(), EntityChange::Set(stored("{\"checked\":true}", None))),
            ("b".to_owned(), EntityChange::Removed(None)),
        ];
        assert_eq!(read(bare).unwrap(), expected);
    }

    #[test]
    fn st_07_a_patch_sets_and_removes() {
        let patch = "{\"action\":\"entityPatch\",\"ops\":[{\"op\":\"remove\",\"entityId\":\"a\"},{\"op\":\"set\",\"entityId\":\"b\",\"value\":{}},{\"op\":\"jump\",\"entityId\":\"c\"},7]}";
        let change = read(patch).unwrap();
        assert_eq!(change[0], ("a".to_owned(), EntityChange::Removed(None)));
        assert!(matches!(&change[1..], [(id, EntityChange::Set(_))] if id == "b"));
        for text in ["", "7", "{}", "{\"action\":\"other\"}", "{\"action\":\"entityDelta\",\"delta\":[]}"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
