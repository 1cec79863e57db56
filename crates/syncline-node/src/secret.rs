//! Values that must never reach a log, an error, a metric or a screen.
//!
//! [`Secret`] shows itself as `[redacted]` through every formatting trait; the text comes out through [`Secret::expose`]
//! alone, so that each place that can leak is one search away. `redact_url` does the same for addresses with a password.

use std::fmt;

use url::Url;

/// What is printed where a secret stands.
pub const REDACTED: &str = "[redacted]";

/// A piece of text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<Box<str>>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// `url` as it may be shown, without the parts in which credentials travel.
///
/// Of a database's address these are the password and the query. Of any other address they are the user, the password,
/// the query and the path: the address of a webhook is itself a key. A text that cannot be read as an address is hidden
/// whole: nobody knows which part of it is the secret.
pub(crate) fn redact_url(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let (first, others) = split_hosts(url);
    let Ok(mut parsed) = Url::parse(&first) else { return REDACTED.to_owned() };
    let is_database = matches!(parsed.scheme(), "postgres" | "postgresql");
    let hidden = Some("redacted");
    let mut refused = parsed.password().is_some() && parsed.set_password(hidden).is_err();
    if !is_database {
        refused |= !parsed.username().is_empty() && parsed.set_username("redacted").is_err();
        if parsed.path().len() > 1 {
            parsed.set_path("/redacted");
        }
    }
    if parsed.query().is_some() {
        parsed.set_query(hidden);
    }
    if refused {
        return REDACTED.to_owned();
    }
    let (shown, others) = (parsed.to_string(), others.unwrap_or_default());
    // Behind the first host, which the address has where it has others.
    let at = shown.find("://").map_or(0, |at| at + 3);
    let at = shown[at..].find('/').map_or(shown.len(), |end| at + end);
    format!("{}{others}{}", &shown[..at], &shown[at..])
}

/// A database's address may name several hosts with commas between, which no address otherwise does: the address with the first
/// of them alone, and the others.
pub(crate) fn split_hosts(url: &str) -> (String, Option<&str>) {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find(['/', '?']).map_or(url.len(), |at| begin + at);
    let begin = url[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    let is_database = url.starts_with("postgres://") || url.starts_with("postgresql://");
    match url[begin..end].find(',').filter(|_| is_database) {
        None => (url.to_owned(), None),
        Some(comma) => (format!("{}{}", &url[..begin + comma], &url[end..]), Some(&url[begin + comma..end])),
    }
}

/// The parts of `url` that are secret by themselves: the password, as written and decoded, every query value, and the user
/// of an address that is no database's.
pub(crate) fn url_secrets(url: &str) -> Vec<String> {
    let Ok(parsed) = Url::parse(&split_hosts(url).0) else { return Vec::new() };
    let mut secrets: Vec<String> = parsed.query_pairs().map(|(_, value)| value.into_owned()).collect();
    if !parsed.username().is_empty() && matches!(parsed.scheme(), "http" | "https") {
        secrets.push(parsed.username().to_owned());
    }
    if let Some(password) = parsed.password() {
        secrets.push(password.to_owned());
        let decoded = url::form_urlencoded::parse(format!("p={}", password.replace('+', "%2B")).as_bytes())
            .next()
            .map(|(_, value)| value.into_owned());
        secrets.extend(decoded);
    }
    secrets
}

/// Whether an environment variable may hold a secret, this node's or another program's: nothing that the node starts inherits
/// it. Whatever the configuration reads as a [`Secret`] must be among these.
pub(crate) fn is_secret_variable(name: &str) -> bool {
    const BEGINNINGS: [&str; 3] = ["AWS_", "PG", "DATABASE_URL"];
    const PARTS: [&str; 8] =
        ["TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "API_KEY", "PRIVATE_KEY", "APPLICATION_ID"];
    let name = name.to_ascii_uppercase();
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing_of_itself() {
        let secret = Secret::new("canary-7f3a");
        for shown in [format!("{secret}"), format!("{secret:?}"), format!("{:?}", Some(&secret))] {
            assert!(!shown.contains("canary"), "{shown}");
        }
        assert_eq!(secret.expose(), "canary-7f3a");
    }

    /// A job's command was given the bucket's key and the database's password: two names were removed, five were read.
    #[test]
    fn vw_20_every_variable_that_may_hold_a_secret_is_known() {
        for name in [
            "SYNCLINE_TOKEN",
            "SYNCLINE_READ_TOKEN",
            "DATABASE_URL",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "SOME_APPLICATION_ID",
            "PGPASSWORD",
            "PGPASSFILE",
            "SMTP_PASSWORD",
            "github_token",
            "GOOGLE_API_KEY",
        ] {
            assert!(is_secret_variable(name), "{name}");
        }
        for name in
            ["PATH", "HOME", "LANG", "SYNCLINE_JOB", "SYNCLINE_BUCKET", "SYNCLINE_URL", "KEYMAP", "PAGER"]
        {
            assert!(!is_secret_variable(name), "{name}");
        }
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_a_credential() {
        let cases = [
            ("postgres://ann:canary@db:5432/syncline", "postgres://ann:redacted@db:5432/syncline"),
            ("postgres://db/syncline?password=canary", "postgres://db/syncline?redacted"),
            ("https://hooks.example/run?key=canary", "https://hooks.example/redacted?redacted"),
            ("https://hooks.example/services/canary", "https://hooks.example/redacted"),
            ("https://canary@hooks.example:8443/", "https://redacted@hooks.example:8443/"),
            ("https://canary:canary@hooks.example", "https://redacted:redacted@hooks.example/"),
            ("sqlite:data/syncline.db", "sqlite:data/syncline.db"),
            ("postgres://ann:can,ary@a:1,b:2,c/x", "postgres://ann:redacted@a:1,b:2,c/x"),
            ("https://ann:canary@a:1,b:2/x", REDACTED),
            ("not an address: canary", REDACTED),
        ];
        for (given, shown) in cases {
            assert_eq!(redact_url(given), shown);
        }
    }

    #[test]
    fn the_secret_parts_of_an_address_are_found_encoded_and_decoded() {
        assert_eq!(url_secrets("postgres://ann:canary@a:1,b/x"), ["canary", "canary"]);
        let found = url_secrets("postgres://ann:can%2Fary@db/x?sslpassword=second");
        for part in ["can%2Fary", "can/ary", "second"] {
            assert!(found.iter().any(|secret| secret == part), "{part} in {found:?}");
        }
    }
}
