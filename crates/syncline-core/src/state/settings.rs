//! The settings that every context follows, and what is wrong with them, field by field.
//!
//! Nothing that fails here is ever written. What is read from storage passes through here too: foreign contents are
//! reported, and the settings before them stay in force.

use super::json::{Json, write_text};

/// Longest target in bytes.
const TARGET_MAX_BYTES: usize = 256;

/// Settings as the application means them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether there is anything to see at all.
    pub feature_enabled: bool,
    /// Where it is to be seen.
    pub scope: Scope,
    /// The colour of it, as `#rgb`, `#rgba`, `#rrggbb` or `#rrggbbaa`.
    pub theme_token: String,
}

/// Where the application is to be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    All,
    /// In one place alone.
    Specific(String),
}

/// A field, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct FieldError {
    /// The field's name as it is stored.
    pub field: &'static str,
    /// What is wrong, to be read after the name.
    pub problem: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        Self { feature_enabled: true, scope: Scope::All, theme_token: "#6441a5".to_owned() }
    }
}

impl Settings {
    /// Reads settings from JSON and names every field that is wrong, not only the first. Unknown members are left out.
    pub fn read(text: &str) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut wrong = |field, problem| errors.push(FieldError { field, problem });
        let json = Json::read(text).unwrap_or(Json::Null);
        if !matches!(json, Json::Map(_)) {
            wrong("syncSettings", "must be an object");
            return Err(errors);
        }
        let feature_enabled = json.member("featureEnabled");
        if !matches!(feature_enabled, Some(Json::Bool(_))) {
            wrong("featureEnabled", "must be true or false");
        }
        let target = json.member("scopeTargetId");
        let scope = match json.member("scopeMode").and_then(Json::as_text) {
            Some("all") => Scope::All,
            Some("specific") => {
                let id = target.and_then(Json::as_text).unwrap_or_default().trim();
                if id.is_empty() {
                    wrong("scopeTargetId", "is needed when scopeMode is \"specific\"");
                }
                Scope::Specific(id.to_owned())
            }
            _ => {
                wrong("scopeMode", "must be \"all\" or \"specific\"");
                Scope::All
            }
        };
        match target {
            None | Some(Json::Null) => {}
            Some(Json::Text(text)) if text.len() <= TARGET_MAX_BYTES => {}
            Some(Json::Text(_)) => wrong("scopeTargetId", "may have 256 bytes at most"),
            Some(_) => wrong("scopeTargetId", "must be a string"),
        }
        let theme_token = json.member("themeToken").and_then(Json::as_text).unwrap_or_default();
        if !is_hex_colour(theme_token) {
            wrong("themeToken", "must be a hex colour such as #6441a5");
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            feature_enabled: feature_enabled == Some(&Json::Bool(true)),
            scope,
            theme_token: theme_token.to_owned(),
        })
    }

    /// The JSON that is stored.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::from("{\"featureEnabled\":");
        out.push_str(if self.feature_enabled { "true" } else { "false" });
        match &self.scope {
            Scope::All => out.push_str(",\"scopeMode\":\"all\""),
            Scope::Specific(id) => {
                out.push_str(",\"scopeMode\":\"specific\",\"scopeTargetId\":");
                write_text(id, &mut out);
            }
        }
        out.push_str(",\"themeToken\":");
        write_text(&self.theme_token, &mut out);
        out.push('}');
        out
    }
}

fn is_hex_colour(text: &str) -> bool {
    text.strip_prefix('#').is_some_and(|digits| {
        matches!(digits.len(), 3 | 4 | 6 | 8) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_03_good_settings_are_read_and_written() {
        let text = "{\"featureEnabled\":false,\"scopeMode\":\"specific\",\"scopeTargetId\":\"a\\\"b\",\"themeToken\":\"#6441A5\"}";
        let settings = Settings::read(text).unwrap();
        assert_eq!(settings.scope, Scope::Specific("a\"b".to_owned()));
        assert_eq!(settings.text(), text);
        for token in ["#abc", "#abcd", "#aabbcc", "#aabbccdd"] {
            let text = Settings { theme_token: token.to_owned(), ..Settings::default() }.text();
            assert_eq!(Settings::read(&text).unwrap().theme_token, token);
        }
    }

    #[test]
    fn st_03_every_bad_field_is_named() {
        let fields = |text: &str| -> Vec<_> {
            Settings::read(text).unwrap_err().into_iter().map(|error| error.field).collect()
        };
        assert_eq!(fields("[]"), ["syncSettings"]);
        assert_eq!(fields("no"), ["syncSettings"]);
        assert_eq!(fields("{}"), ["featureEnabled", "scopeMode", "themeToken"]);
        let specific = |target: &str| {
            format!(
                "{{\"featureEnabled\":true,\"scopeMode\":\"specific\",\"scopeTargetId\":{target},\"themeToken\":\"#abc\"}}"
            )
        };
        assert_eq!(fields(&specific("\" \"")), ["scopeTargetId"]);
        assert_eq!(fields(&specific("null")), ["scopeTargetId"]);
        assert_eq!(fields(&specific(&format!("\"{}\"", "x".repeat(257)))), ["scopeTargetId"]);
        for colour in ["red", "#12", "#12345", "#ggg", "#12345678 ", ""] {
            let text = Settings { theme_token: colour.to_owned(), ..Settings::default() }.text();
            assert_eq!(fields(&text), ["themeToken"], "{colour}");
        }
    }
}
