//! `{key}` and `{input.name}` in an address, a header or a body: where a task goes, and how it is written there.
//!
//! Guarantees that a key or an input changes nothing but its own place: it is percent-encoded in addresses, escaped in bodies
//! by what they are, free of line ends in headers, never part of the host, and refused where it would read as a step upwards.

use std::fmt;

use http::HeaderValue;
use serde_json::Value;
use syncline_store::queue::GROUP_MAX_BYTES;
use url::{Host, Url};

use crate::secret::redact_url;

/// What stands for the key.
pub(super) const KEY: &str = "{key}";

/// What stands for the input begins so.
const INPUT: &str = "{input";

/// Longest address, with its key.
pub const URL_MAX_BYTES: usize = 8 * 1024;

/// What is written into the places.
#[derive(Debug, Clone, Copy)]
pub struct Filling<'a> {
    /// The key.
    pub key: &'a str,
    /// What the key was given.
    pub input: Option<&'a Value>,
}

impl<'a> From<&'a str> for Filling<'a> {
    fn from(key: &'a str) -> Filling<'a> {
        Filling { key, input: None }
    }
}

/// A part of a text: written as it is, or a place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    Key,
    /// The whole input, or what is found in it along these names.
    Input(Vec<&'t str>),
}

/// `text` cut at its places. A brace that begins no place stands for itself.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut rest, mut from) = (Vec::new(), text, 0);
    while let Some(at) = rest[from..].find('{').map(|at| at + from) {
        let Some((piece, length)) = place(&rest[at..]) else {
            from = at + 1;
            continue;
        };
        pieces.extend([Piece::Text(&rest[..at]), piece]);
        (rest, from) = (&rest[at + length..], 0);
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// The place that `text` begins with, and its length.
fn place(text: &str) -> Option<(Piece<'_>, usize)> {
    if text.starts_with(KEY) {
        return Some((Piece::Key, KEY.len()));
    }
    let names = text.strip_prefix(INPUT)?;
    let end = names.find('}')?;
    let path: Vec<&str> = match &names[..end] {
        "" => Vec::new(),
        dotted => dotted.strip_prefix('.')?.split('.').collect(),
    };
    let fits = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let named = path.iter().all(|name| !name.is_empty() && name.chars().all(fits));
    named.then_some((Piece::Input(path), INPUT.len() + end + 1))
}

impl Filling<'_> {
    /// What is found in the input along `path`.
    fn found(&self, path: &[&str]) -> Result<&Value, String> {
        let missing = || format!("the input has no {:?}", path.join("."));
        let input = self.input.ok_or("the key has no input, and the call needs one")?;
        path.iter()
            .try_fold(input, |value, name| match value {
                Value::Array(values) => name.parse::<usize>().ok().and_then(|index| values.get(index)),
                other => other.get(name),
            })
            .ok_or_else(missing)
    }

    /// The text for a place among other text.
    fn text(&self, piece: &Piece<'_>) -> Result<String, String> {
        match piece {
            Piece::Text(text) => Ok((*text).to_owned()),
            Piece::Key => Ok(self.key.to_owned()),
            Piece::Input(path) => match self.found(path)? {
                Value::String(text) => Ok(text.clone()),
                Value::Number(number) => Ok(number.to_string()),
                Value::Bool(truth) => Ok(truth.to_string()),
                _ => Err(format!("{:?} of the input is no text, number or boolean", path.join("."))),
            },
        }
    }
}

/// Whether a text has a place for an input.
pub(super) fn has_input(text: &str) -> bool {
    pieces(text).iter().any(|piece| matches!(piece, Piece::Input(_)))
}

/// A text that names the group of a key: `{key}`, `{input.name}`, and `{host}` or `{input.name.host}` for the host of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupTemplate {
    text: String,
}

/// What takes the host of the address before it.
const HOST: &str = "host";

impl GroupTemplate {
    /// Checks a template from the configuration.
    pub fn parse(text: &str) -> Result<GroupTemplate, String> {
        let text = text.replace("{host}", "{key.host}");
        let template = GroupTemplate { text };
        if template.text.len() > GROUP_MAX_BYTES {
            return Err(format!("expected at most {GROUP_MAX_BYTES} bytes"));
        }
        let named = template.pieces().iter().any(|piece| !matches!(piece, (Piece::Text(_), _)));
        if !named {
            return Err("expected {key}, {host}, {input.name} or {input.name.host} in it".to_owned());
        }
        Ok(template)
    }

    /// The group of a key, or why there is none.
    pub fn expand(&self, filling: Filling<'_>) -> Result<String, String> {
        let mut name = String::new();
        for (piece, of_host) in self.pieces() {
            let text = filling.text(&piece)?;
            name.push_str(&if of_host { host_of(&text)? } else { text });
        }
        if name.len() > GROUP_MAX_BYTES || name.chars().any(char::is_control) {
            return Err(format!(
                "its group must have at most {GROUP_MAX_BYTES} bytes and no control characters"
            ));
        }
        Ok(name)
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it takes more than the key.
    pub(super) fn needs_input(&self) -> bool {
        has_input(&self.text)
    }

    /// Its pieces, and whether only the host of each counts.
    fn pieces(&self) -> Vec<(Piece<'_>, bool)> {
        let mut found = Vec::new();
        let mut rest = self.text.as_str();
        while let Some(at) = rest.find("{key.host}") {
            found.extend(pieces(&rest[..at]).into_iter().map(with_host));
            found.push((Piece::Key, true));
            rest = &rest[at + "{key.host}".len()..];
        }
        found.extend(pieces(rest).into_iter().map(with_host));
        found
    }
}

fn with_host(piece: Piece<'_>) -> (Piece<'_>, bool) {
    match piece {
        Piece::Input(mut path) if path.last() == Some(&HOST) => {
            path.pop();
            (Piece::Input(path), true)
        }
        piece => (piece, false),
    }
}

/// The host of an address, in lower case and with its port if that is not the usual one; of a text without a scheme, what stands in
/// front of its first slash.
fn host_of(text: &str) -> Result<String, String> {
    let address = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&address).map_err(|error| format!("{text:?} is no address with a host: {error}"))?;
    let host = url.host_str().ok_or_else(|| format!("{text:?} is no address with a host"))?;
    Ok(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// A header's value with what belongs into its places. Line ends and other control characters are refused.
pub(super) fn header(value: &str, filling: Filling<'_>) -> Result<HeaderValue, String> {
    let texts = pieces(value).iter().map(|piece| filling.text(piece)).collect::<Result<Vec<_>, _>>()?;
    HeaderValue::from_bytes(texts.concat().as_bytes())
        .map_err(|_| "a header must not contain control characters".to_owned())
}

/// An address with places.
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
        let url = Url::parse(&template.sample("x")).map_err(|_| expected())?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(expected());
        }
        let other = Url::parse(&template.sample("y")).map_err(|_| expected())?;
        if other.origin() != url.origin() || other.username() != url.username() {
            return Err(format!("{KEY} must stand behind the host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("put credentials into headers, not into the address".to_owned());
        }
        if url.fragment().is_some() {
            return Err("what follows # is never sent".to_owned());
        }
        if has_dots(&template.sample("x")) {
            return Err("expected an address without . and .. as steps".to_owned());
        }
        Ok(template)
    }

    /// Whether the key has a place here.
    pub(super) fn has_key(&self) -> bool {
        has_key(&self.text)
    }

    /// The address for a key, or why there is none.
    pub fn expand<'a>(&self, filling: impl Into<Filling<'a>>) -> Result<Url, String> {
        let filling = filling.into();
        let written = pieces(&self.text).into_iter().map(|piece| match piece {
            Piece::Text(text) => Ok(text.to_owned()),
            place => filling.text(&place).map(|text| percent_encoded(&text)),
        });
        let text = written.collect::<Result<Vec<_>, _>>()?.concat();
        if has_dots(&text) {
            let key = filling.key;
            return Err(format!("the key {key:?} or its input would change the path of the address"));
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
        let url = Url::parse(&self.sample("x")).ok();
        url.and_then(|url| url.host().as_ref().map(Host::to_string)).unwrap_or_default()
    }

    /// The address with `text` in every place.
    fn sample(&self, text: &str) -> String {
        let written = pieces(&self.text).into_iter().map(|piece| match piece {
            Piece::Text(text) => text,
            _ => text,
        });
        written.collect()
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({})", self.shown())
    }
}

/// How a place is written in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// Inside a text of JSON, or as a whole value of it.
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

    /// `body` with what belongs into its places, or why it cannot be written.
    pub fn fill<'a>(self, body: &str, filling: impl Into<Filling<'a>>) -> Result<String, String> {
        let (filling, mut written, mut quoted) = (filling.into(), String::with_capacity(body.len()), false);
        for piece in pieces(body) {
            let text = match (&piece, self) {
                (Piece::Text(text), Escape::Json) => {
                    quoted = ends_quoted(text, quoted);
                    (*text).to_owned()
                }
                (Piece::Text(text), _) => (*text).to_owned(),
                (place, Escape::Json) if !quoted => json_value(place, filling)?,
                (place, escape) => escape.mark(&filling.text(place)?),
            };
            written.push_str(&text);
        }
        Ok(written)
    }

    /// `text` without a mark that would end its place.
    fn mark(self, text: &str) -> String {
        match self {
            Escape::Plain => text.to_owned(),
            Escape::Form => percent_encoded(text),
            Escape::Xml => {
                let marks = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&apos;")];
                marks.iter().fold(text.to_owned(), |text, (mark, written)| text.replace(mark, written))
            }
            Escape::Json => {
                let quoted = serde_json::to_string(text).expect("a text always serialises");
                quoted[1..quoted.len() - 1].to_owned()
            }
        }
    }
}

/// Whether JSON is inside a text once it has come to the end of `text`.
fn ends_quoted(text: &str, mut quoted: bool) -> bool {
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
    quoted
}

/// A place of JSON outside of texts: a whole value, so that it ends where it ends. A key must be a number there.
fn json_value(place: &Piece<'_>, filling: Filling<'_>) -> Result<String, String> {
    match place {
        Piece::Input(path) => filling.found(path).map(Value::to_string),
        _ => match serde_json::from_str::<Value>(filling.key) {
            Ok(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(format!("{:?} is no number, and {KEY} is not between quotes", filling.key)),
        },
    }
}

/// Whether a body has a place for the key or its input.
pub(super) fn has_key(body: &str) -> bool {
    pieces(body).iter().any(|piece| !matches!(piece, Piece::Text(_)))
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
    use serde_json::json;

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
        assert!(template.expand("x".repeat(URL_MAX_BYTES).as_str()).unwrap_err().contains("the most"));
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
        let json =
            Escape::of("application/json; charset=utf-8").unwrap().fill("{\"id\":\"{key}\"}", key).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["id"], key);
        let form =
            Escape::of("application/x-www-form-urlencoded").unwrap().fill("id={key}&x=1", key).unwrap();
        assert_eq!(form, "id=a%22b%5C%20%26%0A&x=1");
        assert_eq!(Escape::of("text/plain").unwrap().fill("<{key}>", key).unwrap(), format!("<{key}>"));
        for kind in ["text/xml", "application/xml; charset=utf-8", "application/soap+xml"] {
            let xml = Escape::of(kind).unwrap().fill("<q a=\"{key}\"/>", "\"/></q><admin a='&'/>").unwrap();
            assert_eq!(xml, "<q a=\"&quot;/&gt;&lt;/q&gt;&lt;admin a=&apos;&amp;&apos;/&gt;\"/>");
        }
        assert_eq!(Escape::of("application/graphql"), None);
    }

    #[test]
    fn qu_30_an_input_goes_to_its_places_and_nowhere_else() {
        let input = json!({ "name": "a/..?b\"\n", "size": 3, "list": ["x"], "more": { "deep": true } });
        let filling = Filling { key: "k", input: Some(&input) };
        let url =
            Template::parse("https://api.example/{input.more.deep}/{input.list.0}?n={input.name}").unwrap();
        let expanded = "https://api.example/true/x?n=a%2F..%3Fb%22%0A";
        assert_eq!(url.expand(filling).unwrap().as_str(), expanded);

        let body =
            r#"{"id":"{key}","name":"<{input.name}>","size":{input.size},"all":{input},"text":"{brace}"}"#;
        let written = Escape::Json.fill(body, filling).unwrap();
        let read: Value = serde_json::from_str(&written).unwrap();
        let expected = json!({
            "id": "k", "name": "<a/..?b\"\n>", "size": 3, "all": input, "text": "{brace}"
        });
        assert_eq!(read, expected);
        assert_eq!(Escape::Form.fill("a={input.name}", filling).unwrap(), "a=a%2F..%3Fb%22%0A");
        assert_eq!(header("Bearer {input.list.0}-{key}", filling).unwrap(), "Bearer x-k");
    }

    #[test]
    fn qu_30_an_input_that_would_leave_its_place_is_refused() {
        let input = json!({ "up": "..", "line": "a\r\nx-admin: 1", "list": [1, 2] });
        let filling = Filling { key: "1, 2", input: Some(&input) };
        let url = |text: &str| Template::parse(text).unwrap().expand(filling).unwrap_err();
        assert!(url("https://api.example/{input.up}/secret").contains("change the path"));
        assert!(url("https://api.example/{input.gone}").contains("no \"gone\""));
        assert!(url("https://api.example/{input.list}").contains("no text, number or boolean"));
        assert!(Template::parse("https://{input.host}/").is_err());
        assert!(header("{input.line}", filling).unwrap_err().contains("control"));
        assert!(Escape::Json.fill("[{key}]", filling).unwrap_err().contains("no number"));
        assert!(Escape::Json.fill("{input.up}", "k").unwrap_err().contains("no input"));
        assert_eq!(Escape::Json.fill("[{input.list}]", filling).unwrap(), "[[1,2]]");
        assert_eq!(Escape::Json.fill("[{key}]", "-1.5e3").unwrap(), "[-1500.0]");
    }

    #[test]
    fn qu_32_a_group_is_named_by_the_key_its_host_or_its_input() {
        let input = serde_json::json!({ "tenant": "acme", "page": "HTTPS://Shop.Example:8443/a?b" });
        let group = |text: &str, key: &str| {
            GroupTemplate::parse(text).unwrap().expand(Filling { key, input: Some(&input) })
        };
        assert_eq!(group("{host}", "https://WWW.Example/a/b").unwrap(), "www.example");
        assert_eq!(group("{host}", "www.example/a").unwrap(), "www.example");
        assert_eq!(group("{input.page.host}", "x").unwrap(), "shop.example:8443");
        assert_eq!(group("t-{input.tenant}/{key}", "k").unwrap(), "t-acme/k");
        assert!(group("{host}", "a b").is_err());
        assert!(group("{input.nobody}", "k").unwrap_err().contains("nobody"));
        assert!(group("{key}", &"x".repeat(257)).is_err());
        for bad in ["", "all", "{keys}"] {
            assert!(GroupTemplate::parse(bad).is_err(), "{bad}");
        }
    }
}
