//! The settings of `serversync`: its environment, and the configuration file that the environment may name.
//!
//! [`Settings::load`] answers with settings that all make sense, or with every problem in one line. It opens nothing but the
//! configuration file: whether the database or the front end answers shows at start. No message repeats the value of a secret.

mod file;

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use syncline_core::outbox::SenderId;
use syncline_store::Options;
use url::{Host, Url};

use super::kind::FileKind;
use super::route::{Route, Shape};
use super::webhook::Keys;
use crate::config::{Log, Place, Problem, settings};
use crate::secret::{REDACTED, Secret, redact_url, url_secrets};

/// Most entries in one request: what the receiving half takes.
const BATCH_MAX_ENTRIES: u64 = 1_000;

/// Everything `serversync` needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `DATABASE_URL`: the application's own database, where its outbox is.
    pub database_url: Secret,
    /// `DATABASE_LISTEN_URL`: the same PostgreSQL database past a pooler, for the connection that listens.
    pub database_listen_url: Option<Secret>,
    /// `DATABASE_CONNECTIONS`: most connections to a PostgreSQL server.
    pub database_connections: u32,
    /// `SYNCLINE_SCHEMA`: our schema on PostgreSQL.
    pub schema: String,
    /// `SYNCLINE_MIGRATE`: whether a start makes our tables and brings them up to date.
    pub migrate: bool,
    /// `FRONTEND_BASE_URL`: where everything goes that no route takes.
    pub frontend: Option<Url>,
    /// `SYNCLINE_TOKEN`: what is presented there.
    pub token: Option<Secret>,
    /// `SYNC_SENDER`: under which name everything goes; the one that the outbox gave itself unless set.
    pub sender: Option<SenderId>,
    /// `SYNC_POLL_INTERVAL_SEC`: how often to look without having been woken.
    pub poll_interval: Duration,
    /// `SYNC_BATCH_SIZE`: entries in one request at most.
    pub batch_size: usize,
    /// `SYNC_TIMEOUT_SEC`: how long the front end may take to answer a batch, or stop reading a file.
    pub timeout: Duration,
    /// `SYNC_MAX_ATTEMPTS`: failures after which an entry is a dead letter.
    pub max_attempts: u32,
    /// `SYNC_PLAIN_RECEIPTS`: whether a file may be removed after a receipt without length and SHA-256.
    pub plain_receipts: bool,
    /// `SYNC_PLAIN_ENTRIES`: whether the front end gets the contract's four fields of each entry and nothing else.
    pub plain_entries: bool,
    /// `SYNC_METRICS_LISTEN`: where `/metrics` and `/healthz` are; nowhere unless set.
    pub metrics_listen: Option<SocketAddr>,
    /// `SYNC_CONFIG`: the configuration file, if there is one.
    pub config: Option<PathBuf>,
    /// The kinds of files that are sent, `[[files]]` in the configuration file. An application may add its own.
    pub files: Vec<FileKind>,
    /// Where entries go, `[[routes]]` in the configuration file, the front end included where there is one beside them; none where
    /// everything goes to the front end.
    pub routes: Vec<Route>,
    /// `SYNCLINE_LOG_LEVEL`, `SYNCLINE_LOG_FORMAT`
    pub log: Log,
}

/// What is wrong with the environment, all of it in one line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidSettings(pub Vec<Problem>);

impl Settings {
    /// Reads the environment. `environment` answers for one variable at a time, so that tests need not change their own.
    pub fn load(environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings, InvalidSettings> {
        let mut reader = Reader { environment, problems: Vec::new() };
        let allow_http = reader.optional("SYNC_ALLOW_HTTP", switch).unwrap_or(false);
        let database_url =
            reader.required("DATABASE_URL", "sqlite:/var/lib/box/box.db", settings::database_url);
        let address = |text: &str| frontend(text, allow_http);
        let config = reader.optional("SYNC_CONFIG", settings::folder);
        let document = match config.as_ref().map(|path| {
            file::read(path, &|route| route.complete(environment, &|url| route_address(url, allow_http)))
        }) {
            None => file::Document::default(),
            Some(Ok(document)) => document,
            Some(Err(problems)) => {
                reader.problems.extend(problems);
                file::Document::default()
            }
        };
        let file::Document { files, mut routes } = document;
        let frontend = match routes.is_empty() {
            true => reader.required("FRONTEND_BASE_URL", "https://frontend.example", address),
            false => reader.optional("FRONTEND_BASE_URL", address),
        };
        let token = reader.optional("SYNCLINE_TOKEN", settings::token);
        let plain_entries = reader.optional("SYNC_PLAIN_ENTRIES", switch).unwrap_or(false);
        if let (false, Some(url)) = (routes.is_empty(), &frontend) {
            if routes.iter().any(Route::takes_everything) {
                let what =
                    "gets what no route takes, and one takes every type; make it a route, or leave it out";
                reader.note("FRONTEND_BASE_URL", what.to_owned());
            }
            routes.push(Route::frontend(url.clone(), token.clone(), plain_entries));
        }
        let seconds = |text: &str, range| number(text, range).map(Duration::from_secs);
        let read = Settings {
            // Stand-ins for missing values are never used: a problem was noted.
            database_url: database_url.unwrap_or_else(|| Secret::new("")),
            database_listen_url: reader.optional("DATABASE_LISTEN_URL", settings::listen_url),
            database_connections: reader
                .optional("DATABASE_CONNECTIONS", settings::connections)
                .unwrap_or(syncline_store::CONNECTIONS),
            schema: reader
                .optional("SYNCLINE_SCHEMA", settings::schema)
                .unwrap_or_else(|| syncline_store::DEFAULT_SCHEMA.to_owned()),
            migrate: reader.optional("SYNCLINE_MIGRATE", switch).unwrap_or(true),
            frontend,
            token,
            sender: reader
                .optional("SYNC_SENDER", |text| SenderId::new(text).map_err(|wrong| wrong.to_string())),
            poll_interval: reader
                .optional("SYNC_POLL_INTERVAL_SEC", |text| seconds(text, 1..=86_400))
                .unwrap_or(Duration::from_secs(300)),
            batch_size: reader
                .optional("SYNC_BATCH_SIZE", |text| number(text, 1..=BATCH_MAX_ENTRIES))
                .map_or(100, |size| size as usize),
            timeout: reader
                .optional("SYNC_TIMEOUT_SEC", |text| seconds(text, 1..=3_600))
                .unwrap_or(Duration::from_secs(30)),
            max_attempts: reader
                .optional("SYNC_MAX_ATTEMPTS", |text| number(text, 1..=1_000_000))
                .map_or(10, |attempts| attempts as u32),
            plain_receipts: reader.optional("SYNC_PLAIN_RECEIPTS", switch).unwrap_or(false),
            plain_entries,
            metrics_listen: reader.optional("SYNC_METRICS_LISTEN", settings::listen),
            files,
            config,
            routes,
            log: Log {
                level: reader
                    .optional("SYNCLINE_LOG_LEVEL", settings::log_level)
                    .unwrap_or_else(|| "info".to_owned()),
                format: reader.optional("SYNCLINE_LOG_FORMAT", settings::log_format).unwrap_or_default(),
            },
        };
        if read.database_listen_url.is_some() && !read.database_url.expose().starts_with("postgres") {
            reader.note("DATABASE_LISTEN_URL", "is for PostgreSQL, and the database is none".to_owned());
        }
        if reader.problems.is_empty() { Ok(read) } else { Err(InvalidSettings(reader.problems)) }
    }

    /// How the application's database is opened.
    pub(super) fn store_options(&self) -> Options {
        Options::default()
            .schema(&self.schema)
            .connections(self.database_connections)
            .listen_url(self.database_listen_url.as_ref().map(Secret::expose))
            .migrate(self.migrate)
    }

    /// Every text that must not appear in any output.
    pub fn secrets(&self) -> Vec<String> {
        let mut secrets = url_secrets(self.database_url.expose());
        secrets.extend(self.database_listen_url.iter().flat_map(|url| url_secrets(url.expose())));
        secrets.extend(self.token.iter().map(|token| token.expose().to_owned()));
        for route in &self.routes {
            secrets.extend(route.token.iter().map(|token| token.expose().to_owned()));
            secrets.extend(route.keys.iter().flat_map(Keys::secrets));
        }
        secrets
    }
}

impl Display for Settings {
    /// As lines of an environment file, with every secret hidden.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "DATABASE_URL={}", redact_url(self.database_url.expose()))?;
        if let Some(url) = &self.database_listen_url {
            writeln!(f, "DATABASE_LISTEN_URL={}", redact_url(url.expose()))?;
        }
        writeln!(f, "DATABASE_CONNECTIONS={}", self.database_connections)?;
        writeln!(f, "SYNCLINE_SCHEMA={}", self.schema)?;
        writeln!(f, "SYNCLINE_MIGRATE={}", self.migrate)?;
        if let Some(frontend) = &self.frontend {
            writeln!(f, "FRONTEND_BASE_URL={frontend}")?;
        }
        if self.token.is_some() {
            writeln!(f, "SYNCLINE_TOKEN={REDACTED}")?;
        }
        if let Some(sender) = &self.sender {
            writeln!(f, "SYNC_SENDER={}", sender.as_str())?;
        }
        writeln!(f, "SYNC_POLL_INTERVAL_SEC={}", self.poll_interval.as_secs())?;
        writeln!(f, "SYNC_BATCH_SIZE={}", self.batch_size)?;
        writeln!(f, "SYNC_TIMEOUT_SEC={}", self.timeout.as_secs())?;
        writeln!(f, "SYNC_MAX_ATTEMPTS={}", self.max_attempts)?;
        writeln!(f, "SYNC_PLAIN_RECEIPTS={}", self.plain_receipts)?;
        writeln!(f, "SYNC_PLAIN_ENTRIES={}", self.plain_entries)?;
        if let Some(listen) = self.metrics_listen {
            writeln!(f, "SYNC_METRICS_LISTEN={listen}")?;
        }
        if let Some(config) = &self.config {
            writeln!(f, "SYNC_CONFIG={}", config.display())?;
        }
        writeln!(f, "SYNCLINE_LOG_LEVEL={}", self.log.level)?;
        writeln!(f, "SYNCLINE_LOG_FORMAT={}", self.log.format.as_str())?;
        for FileKind { entity_type, folder, file, upload_path, .. } in &self.files {
            writeln!(f, "# {entity_type}: {}/{file} to POST {upload_path}", folder.display())?;
        }
        for Route { name, types, url, shape, rest, .. } in &self.routes {
            let types = if *rest { "all others".to_owned() } else { types.join(", ") };
            let how = if *shape == Shape::Webhook { "signed webhooks" } else { "batches" };
            // The address of a webhook is itself a key.
            writeln!(f, "# route {name}: {types} as {how} to {}", redact_url(url.as_str()))?;
        }
        Ok(())
    }
}

struct Reader<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// An empty variable says nothing: that is how shells unset.
    fn optional<T>(
        &mut self,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = (self.environment)(variable).filter(|text| !text.is_empty())?;
        parse(&text).map_err(|what| self.note(variable, what)).ok()
    }

    fn required<T>(
        &mut self,
        variable: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        if (self.environment)(variable).is_none_or(|text| text.is_empty()) {
            self.note(variable, format!("is not set; for example {example}"));
            return None;
        }
        self.optional(variable, parse)
    }

    fn note(&mut self, variable: &'static str, what: String) {
        let place = Place::Environment(variable);
        self.problems.push(Problem { place, key: String::new(), what, hint: None });
    }
}

/// The front end's address. Changes and files are private, so they travel in the clear only within this machine, or where the
/// operator allows it.
fn frontend(text: &str, allow_http: bool) -> Result<Url, String> {
    let url = settings::base_url(text)?;
    let address = url.host().and_then(|host| match host {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        // An IPv4 address in IPv6 clothes is what it is.
        Host::Ipv6(address) => Some(IpAddr::V6(address).to_canonical()),
        Host::Domain(_) => None,
    });
    if address.is_some_and(is_metadata) || url.host_str().is_some_and(is_metadata_name) {
        return Err("is where machines keep their credentials: nothing is sent there".to_owned());
    }
    let local = address.map_or(url.host_str() == Some("localhost"), |address| address.is_loopback());
    if url.scheme() == "http" && !local && !allow_http {
        return Err("must begin with https:// unless it is this machine; \
                    SYNC_ALLOW_HTTP=true sends everything in the clear"
            .to_owned());
    }
    Ok(url)
}

/// The address of a route, which may have a query: the address of a webhook is its receiver's choice.
fn route_address(text: &str, allow_http: bool) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|error| format!("is no address: {error}"))?;
    url.set_query(None);
    frontend(url.as_str(), allow_http)
}

/// Addresses at which clouds hand out a machine's credentials: all link-local ones, and those that some use beside.
fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_link_local() || [[100, 100, 100, 200], [192, 0, 0, 192]].contains(&address.octets())
        }
        IpAddr::V6(address) => {
            let known = ["fd00:ec2::254", "fd20:ce::254"];
            address.is_unicast_link_local() || known.iter().any(|text| text.parse() == Ok(address))
        }
    }
}

/// The names they have.
fn is_metadata_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    matches!(host.as_str(), "metadata" | "metadata.google.internal" | "metadata.goog")
        || host == "instance-data"
        || host.starts_with("instance-data.")
}

fn number(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let expected =
        || format!("expected a whole number from {} to {}, found {text:?}", range.start(), range.end());
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(expected)
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("expected true or false, found {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let usual = [("DATABASE_URL", "sqlite:box.db"), ("FRONTEND_BASE_URL", "http://localhost:3000")];
        let all: Vec<_> = variables.iter().chain(&usual).collect();
        let find =
            |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::load(&find).map_err(|error| error.to_string())
    }

    #[test]
    fn ss_04_what_nobody_sets_has_the_documented_value() {
        let settings = load(&[]).unwrap();
        assert_eq!(settings.poll_interval, Duration::from_secs(300));
        assert_eq!((settings.batch_size, settings.max_attempts), (100, 10));
        assert_eq!(settings.timeout, Duration::from_secs(30));
        assert!(settings.files.is_empty() && settings.config.is_none());
        assert_eq!(settings.metrics_listen, None);
    }

    #[test]
    fn op_05_the_database_of_the_application_is_opened_as_the_environment_says() {
        let usual = load(&[]).unwrap();
        assert_eq!(
            (usual.database_connections, usual.migrate, usual.schema.as_str()),
            (10, true, "syncline")
        );
        let set = [
            ("DATABASE_URL", "postgres://pooler/db"),
            ("DATABASE_LISTEN_URL", "postgres://ann:canary@direct/db"),
            ("DATABASE_CONNECTIONS", "3"),
            ("SYNCLINE_SCHEMA", "team"),
            ("SYNCLINE_MIGRATE", "false"),
        ];
        let settings = load(&set).unwrap();
        assert_eq!(
            (settings.database_connections, settings.migrate, settings.schema.as_str()),
            (3, false, "team")
        );
        assert!(
            settings.secrets().contains(&"canary".to_owned()) && !settings.to_string().contains("canary")
        );
        assert!(settings.to_string().contains("DATABASE_LISTEN_URL=postgres://"), "{settings}");
        for (wrong, what) in [
            (("DATABASE_CONNECTIONS", "501"), "expected a number from 2 to 500"),
            (("DATABASE_LISTEN_URL", "postgres://direct/db"), "is for PostgreSQL, and the database is none"),
            (("SYNCLINE_SCHEMA", "A B"), "expected the name of a schema"),
        ] {
            let said = load(&[wrong]).unwrap_err();
            assert!(said.starts_with(&format!("environment {}: {what}", wrong.0)), "{said}");
        }
    }

    #[test]
    fn ss_04_missing_and_bad_values_are_all_named_in_one_line() {
        let none = Settings::load(&|_| None).unwrap_err().to_string();
        for name in ["environment DATABASE_URL: is not set", "environment FRONTEND_BASE_URL: is not set"] {
            assert!(none.contains(name) && !none.contains('\n'), "{none}");
        }
        let bad = [
            ("DATABASE_URL", "mysql://db"),
            ("SYNC_POLL_INTERVAL_SEC", "0"),
            ("SYNC_BATCH_SIZE", "many"),
            ("SYNC_TIMEOUT_SEC", "-1"),
            ("SYNC_MAX_ATTEMPTS", "1.5"),
            ("SYNC_METRICS_LISTEN", "everywhere"),
            ("SYNC_ALLOW_HTTP", "maybe"),
            ("SYNC_PLAIN_RECEIPTS", "perhaps"),
            ("SYNCLINE_TOKEN", "two words"),
            ("SYNC_SENDER", "box 7"),
            ("SYNCLINE_LOG_LEVEL", "loud"),
        ];
        for one in bad {
            let said = load(&[one]).unwrap_err();
            assert!(said.starts_with(&format!("environment {}: ", one.0)), "{said}");
            assert!(!said.contains('\n') && !said.contains("two words"), "{said}");
        }
    }

    #[test]
    fn ss_29_a_front_end_is_https_or_this_machine_or_allowed_and_bare() {
        let refused = [
            "http://frontend.example",
            "http://10.0.0.2:3000",
            "ftp://localhost",
            "https://ann:pw@frontend.example",
            "https://ann@frontend.example",
            "https://frontend.example/?key=1",
            "https://frontend.example/#top",
            "frontend.example",
            "https://169.254.169.254",
            "https://[fe80::1]",
            "https://[::ffff:169.254.169.254]",
            "https://metadata.google.internal",
            "https://Metadata.Google.Internal./",
            "https://[fd00:ec2::254]",
            "https://100.100.100.200",
            "https://169.254.43518",
            "http://localhost.example",
            "http://0x0a000001",
        ];
        for url in refused {
            let said = load(&[("FRONTEND_BASE_URL", url)]).unwrap_err();
            assert!(said.starts_with("environment FRONTEND_BASE_URL: "), "{url}: {said}");
        }
        let taken = [
            "https://frontend.example",
            "https://10.0.0.2/base",
            "http://127.0.0.1:3000",
            "http://127.1",
            "http://[::1]:1",
            "http://[::ffff:127.0.0.1]",
            "http://localhost:3000/front",
        ];
        for url in taken {
            load(&[("FRONTEND_BASE_URL", url)]).unwrap_or_else(|said| panic!("{url}: {said}"));
        }
        let allowed = [("FRONTEND_BASE_URL", "http://frontend.example"), ("SYNC_ALLOW_HTTP", "true")];
        assert_eq!(load(&allowed).unwrap().frontend.unwrap().as_str(), "http://frontend.example/");
    }

    #[test]
    fn what_is_shown_hides_every_secret() {
        let canaries = [("DATABASE_URL", "postgres://ann:canary-1@db/box"), ("SYNCLINE_TOKEN", "canary-2")];
        let settings = load(&canaries).unwrap();
        assert!(!settings.to_string().contains("canary") && !format!("{settings:?}").contains("canary"));
        assert_eq!(settings.secrets(), ["canary-1", "canary-1", "canary-2"]);
    }
}
