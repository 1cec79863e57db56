//! `{key}` in an address or a body: where a key goes, and how it is written there.
//!
//! Guarantees that a key changes nothing but its own place: it is percent-encoded in addresses, escaped in bodies by what
//! they are, never part of the host, and refused where it would read as a step upwards.

use std::fmt;

use url::{Host, Url};

use crate::secret::redact_url;

/// What stands for the key.
pub(super) const KEY: &str = "{key}";

/// Longest address, with its key.
pub const URL_MAX_BYTES: usize = 8 * 1024;

/// An address with a place for a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
}

impl Template {
    /// Checks an address from the configuration.
    pub fn parse(text: &str) -> Result<Template, String> {
        let expected =
            || format!("expected an http or https address such as https://api.example/words/{KEY}");
        let template = Template { text: text.to_owned() };
        let url = Url::parse(&template.filled("x")).map_err(|_| expected())?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(expected());
        }
        let other = Url::parse(&template.filled("y")).map_err(|_| expected())?;
        if other.origin() != url.origin() || other.username() != url.username() {
            return Err(format!("{KEY} must stand behind the host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("put credentials into headers, not into the address".to_owned());
        }
        if url.fragment().is_some() {
            return Err("what follows # is never sent".to_owned());
        }
        if has_dots(&template.filled("x")) {
            return Err("expected an address without . and .. as steps".to_owned());
        }
        Ok(template)
    }

    /// Whether the key has a place here.
    pub(super) fn has_key(&self) -> bool {
        self.text.contains(KEY)
    }

    /// The address for `key`, or why there is none.
    pub fn expand(&self, key: &str) -> Result<Url, String> {
        let text = self.filled(key);
        if has_dots(&text) {
            return Err(format!("the key {key:?} would change the path of the address"));
        }
        if text.len() > URL_MAX_BYTES {
            return Err(format!("the address would have {} bytes; {URL_MAX_BYTES} are the most", text.len()));
        }
        Url::parse(&text).map_err(|error| format!("the address for this key cannot be used: {error}"))
    }

    /// The address as it may be shown: behind the host only the place for the key.
    pub fn shown(&self) -> String {
        let shown = redact_url(&self.text);
        if self.has_key() { shown.replacen("/redacted", &format!("/redacted/{KEY}"), 1) } else { shown }
    }

    /// The text itself, query and all.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Where calls go, for logs: scheme, host and port.
    pub fn host(&self) -> String {
        let url = Url::parse(&self.filled("x")).ok();
        url.and_then(|url| url.host().as_ref().map(Host::to_string)).unwrap_or_default()
    }

    fn filled(&self, key: &str) -> String {
        self.text.replace(KEY, &percent_encoded(key))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({})", self.shown())
    }
}

/// How a key is written in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// Inside a text of JSON.
    Json,
    /// As a value of a form.
    Form,
    /// Inside a text or an attribute of XML.
    Xml,
    /// As it is: a text has no marks that a key could set.
    Plain,
}

impl Escape {
    /// What a body of this type asks for; `None` if nobody knows how to write a key into it.
    pub fn of(content_type: &str) -> Option<Escape> {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/x-www-form-urlencoded" => Some(Escape::Form),
            "text/plain" => Some(Escape::Plain),
            "application/xml" | "text/xml" => Some(Escape::Xml),
            _ if kind == "application/json" || kind.ends_with("+json") => Some(Escape::Json),
            _ if kind.ends_with("+xml") => Some(Escape::Xml),
            _ => None,
        }
    }

    /// `body` with `key` in its place.
    pub fn fill(self, body: &str, key: &str) -> String {
        let written = match self {
            Escape::Plain => key.to_owned(),
            Escape::Form => percent_encoded(key),
            Escape::Xml => {
                let marks = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&apos;")];
                marks.iter().fold(key.to_owned(), |text, (mark, written)| text.replace(mark, written))
            }
            Escape::Json => {
                let quoted = serde_json::to_string(key).expect("a text always serialises");
                quoted[1..quoted.len() - 1].to_owned()
            }
        };
        body.replace(KEY, &written)
    }
}

/// Whether a body has a place for the key.
pub(super) fn has_key(body: &str) -> bool {
    body.contains(KEY)
}

/// Whether the path has a step that readers of addresses would resolve. A key never writes `%`, so that the encoded
/// forms can only be the operator's.
fn has_dots(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.split('/').any(|step| matches!(step.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}

/// Everything but the characters that mean themselves everywhere in an address.
fn percent_encoded(key: &str) -> String {
    let mut encoded = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qu_23_a_key_goes_to_its_place_and_nowhere_else() {
        let template = Template::parse("https://api.example/v1/words/{key}?by={key}").unwrap();
        for (key, url) in [
            ("4711", "https://api.example/v1/words/4711?by=4711"),
            ("a/b?c=d&e#f", "https://api.example/v1/words/a%2Fb%3Fc%3Dd%26e%23f?by=a%2Fb%3Fc%3Dd%26e%23f"),
            ("語", "https://api.example/v1/words/%E8%AA%9E?by=%E8%AA%9E"),
            ("%2e%2e", "https://api.example/v1/words/%252e%252e?by=%252e%252e"),
        ] {
            assert_eq!(template.expand(key).unwrap().as_str(), url);
        }
        for key in [".", ".."] {
            assert!(template.expand(key).unwrap_err().contains("change the path"), "{key}");
        }
        assert!(template.expand(&"x".repeat(URL_MAX_BYTES)).unwrap_err().contains("the most"));
        let query = Template::parse("https://api.example/search?q={key}").unwrap();
        assert_eq!(query.expand("..").unwrap().as_str(), "https://api.example/search?q=..");
    }

    #[test]
    fn qu_23_an_address_that_a_key_could_lead_elsewhere_is_refused() {
        for (text, why) in [
            ("https://{key}.example/", "behind the host"),
            ("{key}", "expected an http or https address"),
            ("ftp://api.example/{key}", "expected an http or https address"),
            ("https://me:word@api.example/{key}", "headers"),
            ("https://api.example/#{key}", "never sent"),
            ("https://api.example/%2E%2e/{key}", "without . and .."),
            ("https://api.example/a{key}@b", ""),
        ] {
            match Template::parse(text) {
                Ok(_) => assert!(why.is_empty(), "{text}"),
                Err(error) => assert!(!why.is_empty() && error.contains(why), "{text}: {error}"),
            }
        }
    }

    #[test]
    fn qu_23_a_shown_address_has_no_query() {
        let template = Template::parse("https://api.example/words/{key}?token=canary").unwrap();
        assert_eq!(template.shown(), "https://api.example/redacted/{key}?redacted");
        assert!(!format!("{template:?}").contains("canary"));
    }

    #[test]
    fn qu_23_a_key_is_escaped_by_what_the_body_is() {
        let key = "a\"b\\ &\n";
        let json = Escape::of("application/json; charset=utf-8").unwrap().fill("{\"id\":\"{key}\"}", key);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["id"], key);
        let form = Escape::of("application/x-www-form-urlencoded").unwrap().fill("id={key}&x=1", key);
        assert_eq!(form, "id=a%22b%5C%20%26%0A&x=1");
        assert_eq!(Escape::of("text/plain").unwrap().fill("<{key}>", key), format!("<{key}>"));
        for kind in ["text/xml", "application/xml; charset=utf-8", "application/soap+xml"] {
            let xml = Escape::of(kind).unwrap().fill("<q a=\"{key}\"/>", "\"/></q><admin a='&'/>");
            assert_eq!(xml, "<q a=\"&quot;/&gt;&lt;/q&gt;&lt;admin a=&apos;&amp;&apos;/&gt;\"/>");
        }
        assert_eq!(Escape::of("application/graphql"), None);
    }
}
