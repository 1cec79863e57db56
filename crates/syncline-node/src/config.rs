//! What a node is told to do: flags over environment over `syncline.toml` over defaults.
//!
//! [`Config::load`] either answers with settings that all make sense or with every problem at once, each with its place
//! ([`Problem`]). It opens nothing but the file itself: whether a port is free or a database answers shows at start.

mod entities;
mod jobs;
mod print;
mod problem;
mod queues;
mod reader;
mod recordings;
pub(crate) mod settings;
mod shelf;
mod template;

pub use entities::Entity;
pub(crate) use entities::RECORDING_FILE;
pub use jobs::{Call, Input, Job, Run};
pub use problem::{Error, Place, Problem};
pub(crate) use queues::FAILURE_ATTEMPTS;
pub use queues::{Api, Queue, Statuses};
pub use recordings::{Recordings, S3};
pub use settings::{Limits, Log, LogFormat, Viewer};
pub use shelf::Shelf;
pub use template::{Escape, Template, URL_MAX_BYTES};

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use url::Url;

use crate::secret::{Secret, redact_url};
use reader::{Report, Section};

/// The file that is read when no other is named and it exists.
pub const DEFAULT_FILE: &str = "syncline.toml";

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
    /// What callers must present. Without one the node listens on loopback only.
    pub token: Option<Secret>,
    /// The address by which browsers reach the node, when that is not the address it listens on.
    pub public_base_url: Option<Url>,
    /// Further values of the `Host` header to answer to, as `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// What is logged, and how.
    pub log: Log,
    /// Bounds on connections, streams and waiting.
    pub limits: Limits,
    /// Who may count as a viewer, and how many.
    pub viewer: Viewer,
    /// What runs on a schedule.
    pub jobs: Vec<Job>,
    /// Queues of APIs, and paces of the bookshelf's own queues.
    pub queues: Vec<Queue>,
    /// The bookshelf.
    pub shelf: Shelf,
    /// Kinds of entities that are taken from elsewhere.
    pub entities: Vec<Entity>,
    /// Recordings of calls.
    pub recordings: Recordings,
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
    /// `--token-file`: a flag with the token itself would show in every process list.
    pub token_file: Option<PathBuf>,
    /// `--public-base-url`
    pub public_base_url: Option<String>,
    /// `--log-level`
    pub log_level: Option<String>,
    /// `--log-format`
    pub log_format: Option<String>,
}

impl Config {
    /// Reads all layers. `environment` answers for one variable at a time, so that tests need not change their own.
    pub fn load(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Config, Error> {
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
            Layers { flags, token, environment, root, report: &report, sources: BTreeMap::new() }.read()
        };
        let problems = report.into_problems();
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        if config.token.is_none() && !config.listen.ip().is_loopback() {
            return Err(Error::TokenRequired { listen: config.listen });
        }
        let short =
            config.token.as_ref().is_some_and(|token| token.expose().len() < settings::TOKEN_MIN_BYTES);
        if short && !config.listen.ip().is_loopback() {
            return Err(Error::TokenShort { listen: config.listen, min: settings::TOKEN_MIN_BYTES });
        }
        config.exposed_file =
            (readable_by_all && config.secrets().iter().any(|secret| text.contains(secret))).then_some(path);
        Ok(config)
    }

    /// The configuration file, if it holds a secret and everybody on this machine may read it.
    pub fn exposed_file(&self) -> Option<&Path> {
        self.exposed_file.as_deref()
    }

    /// The database's address as it may be shown.
    pub fn database_shown(&self) -> String {
        redact_url(self.database_url.expose())
    }

    /// Every text that must not appear in any output, longest first so that no part of one outlives another.
    pub fn secrets(&self) -> Vec<String> {
        let mut secrets = crate::secret::url_secrets(self.database_url.expose());
        secrets.extend(self.token.iter().map(|token| token.expose().to_owned()));
        for job in &self.jobs {
            if let Run::Http(call) = &job.run {
                secrets.extend(crate::secret::url_secrets(call.url.as_str()));
                secrets.extend(call.headers.iter().map(|(_, value)| value.expose().to_owned()));
            }
        }
        for api in self.queues.iter().filter_map(|queue| queue.api.as_ref()) {
            secrets.extend(crate::secret::url_secrets(api.url.as_str()));
            // What every call of its kind says is no secret, and hiding it would hide half the log.
            let headers = api.headers.iter().filter(|(name, _)| *name != http::header::CONTENT_TYPE);
            secrets.extend(headers.map(|(_, value)| value.expose().to_owned()));
        }
        secrets.extend(self.shelf.rakuten_application_id.iter().map(|id| id.expose().to_owned()));
        if let Some(s3) = &self.recordings.s3 {
            secrets.extend([&s3.access_key_id, &s3.secret_access_key].map(|key| key.expose().to_owned()));
        }
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

/// The three places a setting may come from, and the questions asked of them.
struct Layers<'a> {
    flags: &'a Flags,
    token: Option<String>,
    environment: &'a dyn Fn(&str) -> Option<String>,
    root: Section<'a>,
    report: &'a Report,
    sources: BTreeMap<&'static str, Place>,
}

impl Layers<'_> {
    /// Problems go to the report; a setting that has one reads as its default here, which is never used.
    fn read(mut self) -> Config {
        let flags = self.flags;
        let listen = self
            .setting("listen", ("--listen", flags.listen.as_deref()), "SYNCLINE_LISTEN", settings::listen)
            .unwrap_or(settings::DEFAULT_LISTEN);
        let data = self
            .setting("data", ("--data", flags.data.as_deref()), "SYNCLINE_DATA", settings::folder)
            .unwrap_or_else(|| PathBuf::from("./data"));
        let database_flag = ("--database-url", flags.database_url.as_deref());
        let database_url = self
            .setting("database_url", database_flag, "DATABASE_URL", settings::database_url)
            .unwrap_or_else(|| Secret::new(format!("sqlite:{}", data.join("syncline.db").display())));
        let token = self.token.take();
        let token =
            self.setting("token", ("--token-file", token.as_deref()), "SYNCLINE_TOKEN", settings::token);
        let base_flag = ("--public-base-url", flags.public_base_url.as_deref());
        let public_base_url =
            self.setting("public_base_url", base_flag, "PUBLIC_BASE_URL", settings::base_url);
        let allowed_hosts = self.root.texts("allowed_hosts").unwrap_or_default();
        let allowed_hosts = settings::checked(&self.root, &allowed_hosts, settings::host);
        let log = self.log();
        let limits = Limits::read(&self.root.section("limits"));
        let viewer = Viewer::read(&self.root.section("viewer"));
        let jobs = jobs::read(&self.root);
        let queues = queues::read(&self.root);
        let entities = entities::read(&self.root);
        let shelf = shelf::read(&mut self);
        let recordings = recordings::read(&mut self, &data);
        self.root.finish();
        let sources = self.sources;
        Config {
            listen,
            data,
            database_url,
            token,
            public_base_url,
            allowed_hosts,
            log,
            limits,
            viewer,
            jobs,
            queues,
            shelf,
            entities,
            recordings,
            sources,
            exposed_file: None,
        }
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

#[cfg(test)]
mod tests;
