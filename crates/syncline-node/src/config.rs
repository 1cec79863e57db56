//! What a node is told to do: flags over environment over `syncline.toml` over defaults.
//!
//! [`Config::load`] either answers with settings that all make sense or with every problem at once, each with its place
//! ([`Problem`]). It opens nothing but the file itself and the files of keys and secrets that it names: whether a port is free
//! or a database answers shows at start.

mod access;
mod print;
mod problem;
mod reader;
pub(crate) mod settings;

pub(crate) use access::print_quotas;
pub use print::setting;
pub(crate) use problem::closest;
pub use problem::{Error, Place, Problem};
pub use reader::{Found, Section};
pub use settings::{Limits, Log, LogFormat, base_url, checked, folder, origin};

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use syncline_store::parts::KV;
use syncline_store::{Migrations, Options};
use url::Url;

use crate::access::{CredentialSettings, Vocabulary};
use crate::part::{Kind, Part, Parts};
use crate::secret::{Secret, redact_url};
use reader::Report;

/// The file that is read when no other is named and it exists.
const DEFAULT_FILE: &str = "syncline.toml";

/// Largest configuration file: beyond this it is some other file.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// Everything a node needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to accept connections. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The folder for everything that is kept.
    pub data: PathBuf,
    /// The database, as `sqlite:path` or `postgres://…`.
    pub database_url: Secret,
    /// The same PostgreSQL database past a pooler, for the connection that listens for announcements.
    pub database_listen_url: Option<Secret>,
    /// Most connections to a PostgreSQL server.
    pub database_connections: u32,
    /// What people call the node, over restarts; the machine's name and something random where absent.
    pub node: Option<String>,
    /// The schema of our tables on PostgreSQL.
    pub schema: String,
    /// Whether the tables are brought up to date when the node starts; otherwise they have to be there.
    pub migrate: bool,
    /// What callers must present. Without one the node listens on loopback only.
    pub token: Option<Secret>,
    /// Another token of the owner, which is accepted while one replaces the other.
    pub token_next: Option<Secret>,
    /// What callers other than the owner may show: keys, and tokens of issuers.
    pub credentials: CredentialSettings,
    /// The address by which browsers reach the node, when that is not the address it listens on.
    pub public_base_url: Option<Url>,
    /// Further values of the `Host` header to answer to, as `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// What is logged, and how.
    pub log: Log,
    /// Bounds on connections, streams and waiting.
    pub limits: Limits,
    /// Take a caller's address from the last entry of `X-Forwarded-For`. Only behind a proxy that sets it.
    pub trust_forwarded_for: bool,
    /// The parts, each with its own settings, and which of them are on.
    pub parts: Parts,
    /// Where the settings that have several sources came from.
    sources: BTreeMap<&'static str, Place>,
    /// The file, if everybody may read the secrets in it.
    exposed_file: Option<PathBuf>,
}

/// What the command line said. `None` leaves a setting to the layers below.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--data`
    pub data: Option<String>,
    /// `--database-url`
    pub database_url: Option<String>,
    /// `--database-listen-url`
    pub database_listen_url: Option<String>,
    /// `--database-connections`
    pub database_connections: Option<String>,
    /// `--node`
    pub node: Option<String>,
    /// `--schema`
    pub schema: Option<String>,
    /// `--no-migrate`
    pub no_migrate: bool,
    /// `--token-file`: a flag with the token itself would show in every process list.
    pub token_file: Option<PathBuf>,
    /// `--public-base-url`
    pub public_base_url: Option<String>,
    /// `--systems`
    pub systems: Option<String>,
    /// `--apps`
    pub apps: Option<String>,
    /// `--log-level`
    pub log_level: Option<String>,
    /// `--log-format`
    pub log_format: Option<String>,
}

impl Config {
    /// Reads all layers, for the node and for each of `parts`. `environment` answers for one variable at a time, so that
    /// tests need not change their own.
    pub fn load(
        flags: &Flags,
        environment: &dyn Fn(&str) -> Option<String>,
        parts: Vec<Box<dyn Part>>,
    ) -> Result<Config, Error> {
        let named = flags.config.clone().or_else(|| environment("SYNCLINE_CONFIG").map(PathBuf::from));
        let path = named.clone().unwrap_or_else(|| usual_file(environment));
        let text = match read_bounded(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => String::new(),
            Err(cause) => return Err(Error::Unreadable { path, cause }),
        };
        let readable_by_all = is_readable_by_all(&path);
        let token = match &flags.token_file {
            None => None,
            Some(path) => {
                let read = read_bounded(path);
                Some(read.map_err(|cause| Error::Unreadable { path: path.clone(), cause })?.trim().to_owned())
            }
        };
        let report = Report::new(&path, text.clone());
        let mut config = {
            let document = report.parse();
            let root = Section::root(&report, document.as_ref());
            let (sources, told) = (BTreeMap::new(), Vec::new());
            let data = PathBuf::new();
            Settings {
                flags,
                token,
                environment,
                root,
                report: &report,
                sources,
                data,
                told,
                part_is_on: false,
            }
            .read(parts)
        };
        let problems = report.into_problems();
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        if config.token.is_none() && !config.listen.ip().is_loopback() {
            return Err(Error::TokenRequired { listen: config.listen });
        }
        let short =
            config.owner_tokens().iter().any(|token| token.expose().len() < settings::TOKEN_MIN_BYTES);
        if short && !config.listen.ip().is_loopback() {
            return Err(Error::TokenShort { listen: config.listen, min: settings::TOKEN_MIN_BYTES });
        }
        config.exposed_file =
            (readable_by_all && config.secrets().iter().any(|secret| text.contains(secret))).then_some(path);
        Ok(config)
    }

    /// The tokens of the owner, that of today first. A next one alone is none: nobody would be asked for it before.
    pub fn owner_tokens(&self) -> Vec<Secret> {
        self.token.iter().chain(self.token_next.iter().filter(|_| self.token.is_some())).cloned().collect()
    }

    /// The configuration file, if it holds a secret and everybody on this machine may read it.
    pub fn exposed_file(&self) -> Option<&Path> {
        self.exposed_file.as_deref()
    }

    /// What the store is opened for: the tables of the parts that are on, and of sessions where there are any.
    pub fn store_options(&self) -> Options {
        Options::of(&self.migrations())
            .schema(&self.schema)
            .connections(self.database_connections)
            .listen_url(self.database_listen_url.as_ref().map(Secret::expose))
            .migrate(self.migrate)
    }

    /// Whether the store has the tables of the kv.
    pub(crate) fn has_kv(&self) -> bool {
        self.migrations().iter().any(|part| part.part == KV.part)
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        let sessions = self.token.iter().map(|_| &KV);
        self.parts.on().flat_map(Part::migrations).chain(sessions).collect()
    }

    /// The database's address as it may be shown.
    pub fn database_shown(&self) -> String {
        redact_url(self.database_url.expose())
    }

    /// Every text that must not appear in any output, longest first so that no part of one outlives another.
    pub fn secrets(&self) -> Vec<String> {
        let databases = [Some(&self.database_url), self.database_listen_url.as_ref()];
        let mut secrets: Vec<String> = databases
            .into_iter()
            .flatten()
            .flat_map(|url| crate::secret::url_secrets(url.expose()))
            .collect();
        secrets.extend(self.owner_tokens().iter().map(|token| token.expose().to_owned()));
        secrets
            .extend(self.credentials.issuers.iter().flat_map(|issuer| issuer.secrets().map(str::to_owned)));
        secrets.extend(self.parts.all().flat_map(Part::secrets));
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        secrets
    }
}

/// The first place that has a file: the working folder, then the folders that a service manager names.
fn usual_file(environment: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let folders = ["CREDENTIALS_DIRECTORY", "CONFIGURATION_DIRECTORY"].into_iter().filter_map(environment);
    let places = folders.map(|folder| Path::new(&folder).join(DEFAULT_FILE));
    let here = PathBuf::from(DEFAULT_FILE);
    if here.exists() { here } else { places.into_iter().find(|place| place.exists()).unwrap_or(here) }
}

fn is_readable_by_all(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

/// A file's text, if it is not absurdly large.
fn read_bounded(path: &Path) -> io::Result<String> {
    let size = fs::metadata(path)?.len();
    if size > FILE_MAX_BYTES {
        return Err(io::Error::other(format!(
            "{size} bytes are more than the {FILE_MAX_BYTES} a file may have"
        )));
    }
    fs::read_to_string(path)
}

/// Told by a part: callers' addresses are in `X-Forwarded-For`.
pub(crate) struct TrustForwardedFor;

/// The three places a setting may come from, and the questions asked of them. Problems go to a report; a setting that has
/// one reads as its default, which is never used.
pub struct Settings<'a> {
    flags: &'a Flags,
    token: Option<String>,
    environment: &'a dyn Fn(&str) -> Option<String>,
    root: Section<'a>,
    report: &'a Report,
    sources: BTreeMap<&'static str, Place>,
    data: PathBuf,
    told: Vec<Told>,
    /// Whether the part that is being configured is on.
    part_is_on: bool,
}

/// What a part told those that are configured after it.
struct Told {
    fact: Box<dyn Any>,
    part_is_on: bool,
}

impl<'a> Settings<'a> {
    /// The folder for everything that is kept.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The table `[key]` of the file; an absent one reads as empty.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        self.root.section(key)
    }

    /// The tables `[[key]]` of the file: `None` if there is no such key, so that `key = []` can mean "none at all".
    pub fn sections(&self, key: &'static str) -> Option<Vec<Section<'a>>> {
        self.root.sections(key)
    }

    /// A text that the environment may set as `variable` and the file as `key` of `section`. `path` is its full name.
    pub fn value<T>(
        &mut self,
        section: &Section<'_>,
        (key, path): (&'static str, &'static str),
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let file = section.text(key).map(|found| (section.place(&found), found.value.to_owned()));
        self.choose(path, ("", None), variable, file, parse)
    }

    /// Notes a problem with the setting `path`, at the place it came from.
    pub fn wrong(&self, path: &'static str, what: impl Into<String>) {
        let place = self.sources.get(path).cloned().unwrap_or(Place::Default);
        self.report.push(Problem { place, key: path.to_owned(), what: what.into(), hint: None });
    }

    /// Tells parts that are configured later: an app declares what a system then reads.
    pub fn tell<T: 'static>(&mut self, fact: T) {
        self.told.push(Told { fact: Box::new(fact), part_is_on: self.part_is_on });
    }

    /// What parts that were configured before have told. Those that are off tell too: the file may speak of what they have.
    pub fn told<T: 'static>(&self) -> impl Iterator<Item = &T> {
        self.told.iter().filter_map(|told| told.fact.downcast_ref::<T>())
    }

    /// What parts that are on have told.
    pub fn told_by_parts_on<T: 'static>(&self) -> impl Iterator<Item = &T> {
        let on = self.told.iter().filter(|told| told.part_is_on);
        on.filter_map(|told| told.fact.downcast_ref::<T>())
    }

    fn read(mut self, mut parts: Vec<Box<dyn Part>>) -> Config {
        let flags = self.flags;
        let listen = self
            .setting("listen", ("--listen", flags.listen.as_deref()), "SYNCLINE_LISTEN", settings::listen)
            .unwrap_or(settings::DEFAULT_LISTEN);
        let data = self
            .setting("data", ("--data", flags.data.as_deref()), "SYNCLINE_DATA", settings::folder)
            .unwrap_or_else(|| PathBuf::from("./data"));
        self.data.clone_from(&data);
        let database_flag = ("--database-url", flags.database_url.as_deref());
        let database_url = self
            .setting("database_url", database_flag, "DATABASE_URL", settings::database_url)
            .unwrap_or_else(|| Secret::new(format!("sqlite:{}", data.join("syncline.db").display())));
        let listen_flag = ("--database-listen-url", flags.database_listen_url.as_deref());
        let database_listen_url =
            self.setting("database_listen_url", listen_flag, "DATABASE_LISTEN_URL", settings::listen_url);
        if database_listen_url.is_some() && !database_url.expose().starts_with("postgres") {
            self.wrong("database_listen_url", "is for PostgreSQL, and the database is none");
        }
        let database_connections = self.database_connections();
        let node = self.setting("node", ("--node", flags.node.as_deref()), "SYNCLINE_NODE", settings::node);
        let schema = self
            .setting("schema", ("--schema", flags.schema.as_deref()), "SYNCLINE_SCHEMA", settings::schema)
            .unwrap_or_else(|| syncline_store::DEFAULT_SCHEMA.to_owned());
        let migrate = self.migrate();
        let token = self.token.take();
        let token =
            self.setting("token", ("--token-file", token.as_deref()), "SYNCLINE_TOKEN", settings::token);
        let token_next = self.setting("token_next", ("", None), "SYNCLINE_TOKEN_NEXT", settings::token);
        let base_flag = ("--public-base-url", flags.public_base_url.as_deref());
        let public_base_url =
            self.setting("public_base_url", base_flag, "PUBLIC_BASE_URL", settings::base_url);
        let allowed_hosts = self.root.texts("allowed_hosts").unwrap_or_default();
        let allowed_hosts = settings::checked(&self.root, &allowed_hosts, settings::host);
        let trust_forwarded_for = self.root.boolean("trust_forwarded_for").unwrap_or(false);
        let [keys, issuers] = ["keys", "issuers"].map(|key| self.root.sections(key).unwrap_or_default());
        let words = Vocabulary::of(parts.iter().map(|part| &**part));
        let credentials = access::read(&keys, &issuers, &words);
        let log = self.log();
        let limits = Limits::read(&self.root.section("limits"));
        let on = self.chosen(&parts);
        for kind in [Kind::App, Kind::System] {
            for part in parts.iter_mut().filter(|part| part.kind() == kind) {
                self.part_is_on = on.contains(&part.name());
                part.configure(&mut self);
            }
        }
        self.root.finish();
        let trust_forwarded_for = trust_forwarded_for || self.told::<TrustForwardedFor>().next().is_some();
        Config {
            listen,
            data,
            database_url,
            database_listen_url,
            database_connections,
            node,
            schema,
            migrate,
            token,
            token_next,
            credentials,
            public_base_url,
            allowed_hosts,
            log,
            limits,
            trust_forwarded_for,
            parts: Parts::new(parts, |part| on.contains(&part.name())),
            sources: self.sources,
            exposed_file: None,
        }
    }

    fn database_connections(&mut self) -> u32 {
        let key = "database_connections";
        let flag = ("--database-connections", self.flags.database_connections.as_deref());
        let (min, max) = (syncline_store::CONNECTIONS_MIN, syncline_store::CONNECTIONS_MAX);
        let file = self.root.integer(key, u64::from(min)..=u64::from(max));
        let file = file.map(|count| (Place::Default, count.to_string()));
        let chosen = self.choose(key, flag, "DATABASE_CONNECTIONS", file, settings::connections);
        chosen.unwrap_or(syncline_store::CONNECTIONS)
    }

    fn migrate(&mut self) -> bool {
        let flag = ("--no-migrate", self.flags.no_migrate.then_some("false"));
        let file = self.root.boolean("migrate").map(|migrate| (Place::Default, migrate.to_string()));
        self.choose("migrate", flag, "SYNCLINE_MIGRATE", file, settings::boolean).unwrap_or(true)
    }

    /// The names of the parts that are on: all systems and no app, unless somebody says otherwise.
    fn chosen(&mut self, parts: &[Box<dyn Part>]) -> Vec<&'static str> {
        let flags = self.flags;
        let systems = ("--systems", flags.systems.as_deref());
        let apps = ("--apps", flags.apps.as_deref());
        let mut on = self.list("systems", systems, "SYNCLINE_SYSTEMS", &of_kind(parts, Kind::System), true);
        on.extend(self.list("apps", apps, "SYNCLINE_APPS", &of_kind(parts, Kind::App), false));
        for part in parts.iter().filter(|part| on.contains(&part.name())) {
            for needed in part.needs().iter().filter(|needed| !on.contains(needed)) {
                let list = if part.kind() == Kind::App { "apps" } else { "systems" };
                self.wrong(list, format!("{} needs {needed}, which is not on", part.name()));
            }
        }
        on
    }

    /// A choice among `known` names, with commas between where it is no list of the file.
    fn list(
        &mut self,
        key: &'static str,
        flag: (&'static str, Option<&str>),
        variable: &'static str,
        known: &[&'static str],
        all: bool,
    ) -> Vec<&'static str> {
        let file = self.root.texts(key).map(|found| {
            let place = found.first().map_or(Place::Default, |first| self.root.place(first));
            (place, found.iter().map(|name| name.value).collect::<Vec<_>>().join(","))
        });
        let parse = |text: &str| {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            let names = names.map(|name| {
                let found = known.iter().copied().find(|known| *known == name);
                found.ok_or_else(|| unknown_part(key, name, known))
            });
            names.collect::<Result<Vec<_>, _>>()
        };
        let chosen = self.choose(key, flag, variable, file, parse);
        chosen.unwrap_or_else(|| if all { known.to_vec() } else { Vec::new() })
    }

    fn log(&mut self) -> Log {
        let section = self.root.section("log");
        let (level, format) = (section.text("level"), section.text("format"));
        let level = level.map(|found| (section.place(&found), found.value.to_owned()));
        let format = format.map(|found| (section.place(&found), found.value.to_owned()));
        section.finish();
        let flags = self.flags;
        let level_flag = ("--log-level", flags.log_level.as_deref());
        let format_flag = ("--log-format", flags.log_format.as_deref());
        Log {
            level: self
                .choose("log.level", level_flag, "SYNCLINE_LOG_LEVEL", level, settings::log_level)
                .unwrap_or_else(|| "info".to_owned()),
            format: self
                .choose("log.format", format_flag, "SYNCLINE_LOG_FORMAT", format, settings::log_format)
                .unwrap_or_default(),
        }
    }

    fn setting<T>(
        &mut self,
        key: &'static str,
        flag: (&'static str, Option<&str>),
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let file = self.root.text(key).map(|found| (self.root.place(&found), found.value.to_owned()));
        self.choose(key, flag, variable, file, parse)
    }

    /// The first layer that says something decides. An empty variable says nothing: that is how shells unset.
    fn choose<T>(
        &mut self,
        key: &'static str,
        (flag, flag_value): (&'static str, Option<&str>),
        variable: &'static str,
        file: Option<(Place, String)>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let from_flag = flag_value.map(|value| (Place::Flag(flag), value.to_owned()));
        let from_environment = || {
            let value = (self.environment)(variable).filter(|value| !value.is_empty())?;
            Some((Place::Environment(variable), value))
        };
        let (place, value) = from_flag.or_else(from_environment).or(file)?;
        match parse(&value) {
            Ok(value) => {
                self.sources.insert(key, place);
                Some(value)
            }
            Err(what) => {
                self.report.push(Problem { place, key: key.to_owned(), what, hint: None });
                None
            }
        }
    }
}

fn of_kind(parts: &[Box<dyn Part>], kind: Kind) -> Vec<&'static str> {
    parts.iter().filter(|part| part.kind() == kind).map(|part| part.name()).collect()
}

fn unknown_part(list: &str, name: &str, known: &[&'static str]) -> String {
    let hint = problem::closest(name, known.iter().copied());
    let hint = hint.map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
    let what = if known.is_empty() {
        format!("this program has no {list}")
    } else {
        format!("expected some of {}", known.join(", "))
    };
    format!("{what}, found {name:?}{hint}")
}

#[cfg(test)]
mod tests;
