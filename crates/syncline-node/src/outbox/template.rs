//! Text with places for values: `{photoId}.jpg`, `{photoId|photo_id|entityId}`.
//!
//! A place names keys of an entry's payload, and the first one that is there gives the value. `entityId` is the entity of the
//! entry itself. `{key:folder}` takes the last folder of the path that the key holds. An empty alternative at the end,
//! `{album|}`, allows the value to be missing. What the expanded text may be is left to the caller.

use std::fmt;
use std::path::{Component, Path};

use serde::Deserialize;
use serde_json::{Map, Value};

/// The key that stands for the entity of the entry itself.
pub(super) const ENTITY_ID: &str = "entityId";

/// The end of a key that holds a path, of which the folder is wanted.
const FOLDER: &str = ":folder";

/// A checked template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Tried in this order.
    Value(Vec<Source>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Key(String),
    FolderOf(String),
    Nothing,
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// A brace has no partner.
    #[error("{0:?} has a brace without its partner; a value is written as {{key}}")]
    Brace(String),
    /// A place without a key.
    #[error("{0:?} has a place without a key; a value is written as {{key}} or {{key|other}}")]
    Key(String),
}

/// Why a template has no text for an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoValue {
    /// None of the keys is there.
    #[error("the payload has no {0}")]
    Missing(String),
    /// A path that does not name a folder and the file in it.
    #[error("{key} {path:?} does not end in a folder and {file}")]
    Folder {
        /// The key.
        key: String,
        /// What it holds.
        path: String,
        /// The file's name.
        file: String,
    },
}

/// Where a template's values come from.
#[derive(Debug, Clone)]
pub(super) struct Values {
    entity_id: String,
    payload: Map<String, Value>,
}

impl Values {
    /// The values of an entry. Its payload must be a JSON object; if not, the answer says why.
    pub(super) fn read(entity_id: &str, payload: &str) -> Result<Values, String> {
        let payload =
            serde_json::from_str(payload).map_err(|error| format!("it is no JSON object: {error}"))?;
        Ok(Values { entity_id: entity_id.to_owned(), payload })
    }

    /// Adds a value, in place of one that has its name.
    pub(super) fn with(mut self, key: &str, value: &str) -> Values {
        self.payload.insert(key.to_owned(), Value::String(value.to_owned()));
        self
    }

    /// Texts and numbers are values; what is `null`, a list or an object is none.
    fn value(&self, key: &str) -> Option<String> {
        match self.payload.get(key) {
            _ if key == ENTITY_ID => Some(self.entity_id.clone()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        }
    }
}

impl Template {
    /// Checks a text and makes a template of it.
    pub fn parse(text: &str) -> Result<Template, InvalidTemplate> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            let place = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let Some((keys, behind)) = place.filter(|(keys, _)| !keys.contains('{')) else {
                return Err(InvalidTemplate::Brace(text.to_owned()));
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Value(sources(keys).ok_or_else(|| InvalidTemplate::Key(text.to_owned()))?));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Template { text: text.to_owned(), parts })
    }

    /// Whether anything in it depends on the entry.
    pub(super) fn has_value(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Value(_)))
    }

    /// The text for `values`.
    pub(super) fn expand(&self, values: &Values) -> Result<String, NoValue> {
        self.expand_beside(values, None)
    }

    /// The same for the folder that holds `file`: a path from which a folder is taken must end in this file.
    pub(super) fn expand_beside(&self, values: &Values, file: Option<&str>) -> Result<String, NoValue> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(fixed) => text.push_str(fixed),
                Part::Value(sources) => text.push_str(&first(sources, values, file)?),
            }
        }
        Ok(text)
    }
}

/// The alternatives in a place; `None` if one that is not the last is empty, or all are.
fn sources(keys: &str) -> Option<Vec<Source>> {
    let names: Vec<&str> = keys.split('|').map(str::trim).collect();
    let last = names.len() - 1;
    let source = |(place, name): (usize, &&str)| match name.strip_suffix(FOLDER) {
        Some("") => None,
        Some(key) => Some(Source::FolderOf(key.to_owned())),
        None if name.is_empty() => (place == last && place > 0).then_some(Source::Nothing),
        None => Some(Source::Key((*name).to_owned())),
    };
    names.iter().enumerate().map(source).collect()
}

fn first(sources: &[Source], values: &Values, file: Option<&str>) -> Result<String, NoValue> {
    for source in sources {
        match source {
            Source::Nothing => return Ok(String::new()),
            Source::Key(key) => {
                if let Some(value) = values.value(key) {
                    return Ok(value);
                }
            }
            Source::FolderOf(key) => {
                if let Some(path) = values.value(key) {
                    let none = || NoValue::Folder {
                        key: key.clone(),
                        path: path.clone(),
                        file: file.unwrap_or("a file").to_owned(),
                    };
                    return folder_of(&path, file).map(str::to_owned).ok_or_else(none);
                }
            }
        }
    }
    let names = sources.iter().filter_map(|source| match source {
        Source::Key(key) | Source::FolderOf(key) => Some(key.as_str()),
        Source::Nothing => None,
    });
    Err(NoValue::Missing(names.collect::<Vec<_>>().join(" or ")))
}

/// The name of the folder that a path ends in, before the file's own name. The path itself is never followed.
fn folder_of<'a>(path: &'a str, file: Option<&str>) -> Option<&'a str> {
    let path = Path::new(path);
    let climbs = path.components().any(|component| component == Component::ParentDir);
    let ends_in_file = file.is_none_or(|file| path.file_name().is_some_and(|name| name == file));
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.filter(|_| ends_in_file && !climbs)
}

impl TryFrom<String> for Template {
    type Error = InvalidTemplate;

    fn try_from(text: String) -> Result<Template, InvalidTemplate> {
        Template::parse(&text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(template: &str, payload: &str) -> Result<String, String> {
        let values = Values::read("e1", payload)?;
        let template = Template::parse(template).map_err(|error| error.to_string())?;
        template.expand_beside(&values, Some("a.jpg")).map_err(|error| error.to_string())
    }

    #[test]
    fn ss_36_a_place_takes_the_first_key_that_is_there() {
        let table = [
            ("{a}", r#"{"a":"x"}"#, "x"),
            ("{a}", r#"{"a":17}"#, "17"),
            ("pre-{a|b}.jpg", r#"{"b":"y"}"#, "pre-y.jpg"),
            ("{a|b}", r#"{"a":null,"b":"y"}"#, "y"),
            ("{a|entityId}", r#"{"entityId":"another"}"#, "e1"),
            ("{a}-{b}", r#"{"a":"{b}","b":"y"}"#, "{b}-y"),
            ("[{a|}]", "{}", "[]"),
            ("{p:folder|a}", r#"{"p":"/var/lib/box/c1/a.jpg"}"#, "c1"),
            ("{p:folder|a}", r#"{"a":"x"}"#, "x"),
            ("fixed", "{}", "fixed"),
        ];
        for (template, payload, expected) in table {
            assert_eq!(expand(template, payload).as_deref(), Ok(expected), "{template} {payload}");
        }
    }

    #[test]
    fn ss_36_what_has_no_value_says_which_key_was_looked_for() {
        assert_eq!(expand("{a|b}", "{}").unwrap_err(), "the payload has no a or b");
        assert!(expand("{a}", r#"{"a":[1]}"#).is_err() && expand("{a}", "7").is_err());
        for path in ["/etc/passwd", "../c2/a.jpg", "x/../../c2/a.jpg", "a.jpg", "/a.jpg"] {
            let said = expand("{p:folder}", &format!("{{\"p\":\"{path}\"}}")).unwrap_err();
            assert!(said.contains("does not end in a folder and a.jpg"), "{said}");
        }
    }

    #[test]
    fn ss_36_what_is_no_template_is_refused() {
        for text in ["{", "}", "a{b", "a}b", "{a{b}}", "{}", "{|a}", "{a||b}", "{:folder}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
