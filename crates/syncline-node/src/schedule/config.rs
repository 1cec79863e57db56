//! `[[jobs]]`: what runs on a schedule, as configured.
//!
//! Guarantees that names are unique and fit into keys, that cron expressions parse and that there is exactly one thing
//! to run. Deciding whether a job runs is core's business, running it the scheduler's.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use syncline_core::schedule::{CatchUp, Cost, Cron, Gate};
use syncline_core::viewer::check_room_name;
use url::Url;

use super::zones;
use crate::config::{Found, Section, Settings, checked, setting};
use crate::secret::{REDACTED, Secret, redact_url, url_secrets};

/// The expression of the built-in job.
const EVERY_MINUTE: &str = "* * * * *";

/// The words for gates.
pub(crate) const GATES: [(&str, Gate); 3] =
    [("viewers", Gate::Viewers), ("visible-viewers", Gate::VisibleViewers), ("always", Gate::Always)];

/// Jobs one node schedules at most.
const JOBS_MAX: usize = 64;

/// Longest job name: it is part of keys.
const NAME_MAX_BYTES: usize = 64;

/// Longest program name or argument, header value or body of a call.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// A thing to do every so often.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name, unique.
    pub name: String,
    /// When it is due.
    pub cron: Cron,
    /// Who must be watching.
    pub gate: Gate,
    /// In which room; `None` for anywhere.
    pub room: Option<String>,
    /// What is done about firings of an outage.
    pub catch_up: CatchUp,
    /// What one run costs, and one skip saves.
    pub cost: Cost,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Attempts after the first that failed.
    pub retries: u32,
    /// Whether it also runs at once when the first viewer arrives.
    pub on_arrival: bool,
    /// What its result depends on: while this has not changed since the last success, a run is skipped.
    pub input: Option<Input>,
    /// What it does.
    pub run: Run,
}

/// Something to look at before running.
#[derive(Debug, Clone)]
pub enum Input {
    /// A file.
    File(PathBuf),
    /// What an address answers.
    Http(Url),
}

/// What a job does.
#[derive(Debug, Clone)]
pub enum Run {
    /// What a part does.
    Kind(&'static str),
    /// Calls an address.
    Http(Call),
    /// Starts a program, without a shell between.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Variables of the node's environment that it is given although they may be secrets.
        env: Vec<String>,
    },
}

/// An HTTP request to make.
#[derive(Clone)]
pub struct Call {
    /// Where to.
    pub url: Url,
    /// How.
    pub method: Method,
    /// With which headers; their values may be credentials.
    pub headers: Vec<(HeaderName, Secret)>,
    /// With which body.
    pub body: Option<String>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = redact_url(self.url.as_str());
        f.debug_struct("Call").field("url", &url).field("method", &self.method).finish_non_exhaustive()
    }
}

impl Job {
    /// Its gate as configuration and answers write it: `viewers`, or `viewers:lobby` for a room.
    pub fn gate_text(&self) -> String {
        match &self.room {
            None => self.gate.as_str().to_owned(),
            Some(room) => format!("{}:{room}", self.gate.as_str()),
        }
    }
}

impl Run {
    /// The word for it in answers and on pages.
    pub fn kind(&self) -> &'static str {
        match self {
            Run::Kind(word) => word,
            Run::Http(_) => "http",
            Run::Command { .. } => "command",
        }
    }
}

/// A kind of job that a part does, told while the configuration is read.
#[derive(Debug, Clone, Copy)]
pub struct JobKind {
    /// The word for it after `run =`.
    pub word: &'static str,
    /// Whether it runs every minute where the file has no `[[jobs]]` at all.
    pub by_default: bool,
}

/// The jobs of a file; where it says nothing those that parts that are on run by default, none for `jobs = []`.
pub(crate) fn read(settings: &Settings<'_>) -> Vec<Job> {
    let Some(sections) = settings.sections("jobs") else {
        let kinds = settings.told_by_parts_on::<JobKind>();
        return kinds.filter(|kind| kind.by_default).map(by_default).collect();
    };
    let kinds: Vec<JobKind> = settings.told().copied().collect();
    let mut jobs: Vec<Job> = Vec::new();
    for (index, section) in sections.into_iter().enumerate() {
        let name = section.text("name");
        if let Some(name) = &name {
            if index >= JOBS_MAX {
                section.wrong(name, format!("at most {JOBS_MAX} jobs are allowed"));
            } else if jobs.iter().any(|job| job.name == name.value) {
                section.wrong(name, format!("another job is already called {:?}", name.value));
            }
        }
        section.missing("name", "a name for the job");
        jobs.extend(job(&section, name.as_ref(), &kinds));
        section.finish();
    }
    jobs
}

/// Every text of the jobs that must not be shown.
pub(crate) fn secrets(jobs: &[Job]) -> Vec<String> {
    let calls = jobs.iter().filter_map(|job| match &job.run {
        Run::Http(call) => Some(call),
        _ => None,
    });
    let of = |call: &Call| {
        let mut secrets = url_secrets(call.url.as_str());
        secrets.extend(call.headers.iter().map(|(_, value)| value.expose().to_owned()));
        secrets
    };
    calls.flat_map(of).collect()
}

/// A job as a table of the file.
pub(crate) fn print(f: &mut fmt::Formatter<'_>, job: &Job) -> fmt::Result {
    writeln!(f, "\n[[jobs]]")?;
    setting(f, "name", job.name.as_str())?;
    setting(f, "cron", job.cron.as_str())?;
    setting(f, "timezone", job.cron.zone().name())?;
    setting(f, "catch_up", job.catch_up.as_str())?;
    setting(f, "gate", job.gate_text())?;
    setting(f, "cost_usd", job.cost.as_usd())?;
    setting(f, "timeout_sec", job.timeout.as_secs() as i64)?;
    setting(f, "retries", i64::from(job.retries))?;
    setting(f, "on_arrival", job.on_arrival)?;
    match &job.input {
        None => {}
        Some(Input::File(path)) => setting(f, "input", path.display().to_string())?,
        Some(Input::Http(url)) => setting(f, "input", redact_url(url.as_str()))?,
    }
    match &job.run {
        Run::Kind(word) => setting(f, "run", *word),
        Run::Command { program, arguments, env } => {
            let hidden = arguments.iter().map(|_| REDACTED.to_owned());
            let words: Vec<String> = std::iter::once(program.clone()).chain(hidden).collect();
            setting(f, "run.command", words)?;
            if env.is_empty() { Ok(()) } else { setting(f, "run.env", env.clone()) }
        }
        Run::Http(call) => {
            setting(f, "run.http.url", redact_url(call.url.as_str()))?;
            setting(f, "run.http.method", call.method.as_str())?;
            for (name, _) in &call.headers {
                setting(f, &format!("run.http.headers.{name}"), REDACTED)?;
            }
            call.body.as_ref().map_or(Ok(()), |_| setting(f, "run.http.body", REDACTED))
        }
    }
}

fn by_default(kind: &JobKind) -> Job {
    Job {
        name: kind.word.to_owned(),
        cron: Cron::parse(EVERY_MINUTE).expect("the expression is a constant"),
        gate: Gate::Viewers,
        room: None,
        catch_up: CatchUp::None,
        cost: Cost::DEFAULT,
        timeout: Duration::from_secs(30),
        retries: 0,
        on_arrival: false,
        input: None,
        run: Run::Kind(kind.word),
    }
}

/// One job, or `None` after noting why not. Every key is asked for, so that one mistake does not hide the next.
fn job(section: &Section<'_>, name: Option<&Found<&str>>, kinds: &[JobKind]) -> Option<Job> {
    let name = name.and_then(|name| job_name(section, name));
    section.missing("cron", "a cron expression such as \"* * * * *\"");
    let cron = section.text("cron").and_then(|found| match Cron::parse(found.value) {
        Ok(cron) => Some(cron),
        Err(error) => {
            section.wrong(&found, format!("expected a cron expression such as {EVERY_MINUTE:?}: {error}"));
            None
        }
    });
    let zone = match section.text("timezone") {
        None => Some(None),
        Some(found) => match zones::read(found.value) {
            Ok(zone) => Some(Some(zone)),
            Err(problem) => {
                section.wrong(&found, problem);
                None
            }
        },
    };
    let catch_up = match section.text("catch_up") {
        None => Some(CatchUp::None),
        Some(found) => {
            let policy =
                CatchUp::WORDS.iter().find(|(word, _)| *word == found.value).map(|(_, policy)| *policy);
            if policy.is_none() {
                section.unknown_word(&found, &CatchUp::WORDS.map(|(word, _)| word));
            }
            policy
        }
    };
    let gate = match section.text("gate") {
        None => Some((Gate::Viewers, None)),
        Some(found) => gate(section, &found),
    };
    let cost_usd = section.number("cost_usd", 0.0..=Cost::MAX.as_usd());
    let cost = cost_usd.and_then(|usd| Cost::from_usd(usd).ok()).unwrap_or(Cost::DEFAULT);
    let timeout = Duration::from_secs(section.integer("timeout_sec", 1..=3_600).unwrap_or(30));
    let retries = section.integer("retries", 0..=10).unwrap_or(0) as u32;
    let on_arrival = section.boolean("on_arrival").unwrap_or(false);
    let input = section.text("input").and_then(|found| input(section, &found));
    let run = run(section, kinds);
    let (cron, (gate, room)) = (cron?, gate?);
    let cron = match zone? {
        Some(zone) => cron.in_zone(zone),
        None => cron,
    };
    let (name, catch_up, run) = (name?, catch_up?, run?);
    Some(Job { name, cron, gate, room, catch_up, cost, timeout, retries, on_arrival, input, run })
}

/// A gate, and the room it is about: `viewers`, `viewers:lobby`.
fn gate(section: &Section<'_>, found: &Found<&str>) -> Option<(Gate, Option<String>)> {
    let (word, room) = match found.value.split_once(':') {
        Some((word, room)) => (word, Some(room)),
        None => (found.value, None),
    };
    let Some((_, gate)) = GATES.iter().find(|(known, _)| *known == word) else {
        section.unknown_word(found, &GATES.map(|(word, _)| word));
        return None;
    };
    match room {
        None => Some((*gate, None)),
        Some(_) if *gate == Gate::Always => {
            section.wrong(found, "a gate that is always open is about no room".to_owned());
            None
        }
        Some(room) => match check_room_name("room", room) {
            Ok(()) => Some((*gate, Some(room.to_owned()))),
            Err(error) => {
                section.wrong(found, error.to_string());
                None
            }
        },
    }
}

/// An address if it looks like one, else a file.
fn input(section: &Section<'_>, found: &Found<&str>) -> Option<Input> {
    if found.value.is_empty() || found.value.contains('\0') {
        section.wrong(found, "expected a file or an http or https address".to_owned());
        return None;
    }
    match Url::parse(found.value) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Some(Input::Http(url)),
        _ => Some(Input::File(found.value.into())),
    }
}

fn job_name(section: &Section<'_>, name: &Found<&str>) -> Option<String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if name.value.is_empty() || name.value.len() > NAME_MAX_BYTES || !name.value.chars().all(fits) {
        let expected = format!("expected 1 to {NAME_MAX_BYTES} of a-z, 0-9, - and _");
        section.wrong(name, format!("{expected}, found {:?}", name.value));
        return None;
    }
    Some(name.value.to_owned())
}

const RUN_EXPECTED: &str = "{ http = { url = \"https://…\" } } or { command = [\"program\", \"argument\"] }";

fn run(section: &Section<'_>, kinds: &[JobKind]) -> Option<Run> {
    section.missing("run", RUN_EXPECTED);
    if section.kind("run") == Some("string") {
        let word = section.text("run")?;
        if let Some(kind) = kinds.iter().find(|kind| kind.word == word.value) {
            return Some(Run::Kind(kind.word));
        }
        let known: Vec<&str> = kinds.iter().map(|kind| kind.word).collect();
        if known.is_empty() {
            section.wrong(&word, format!("expected {RUN_EXPECTED}"));
        } else {
            section.unknown_word(&word, &known);
        }
        return None;
    }
    section.kind("run")?;
    let table = section.section("run");
    let run = match (table.kind("http"), table.kind("command")) {
        (Some(_), None) => http(&table.section("http")).map(Run::Http),
        (None, Some(_)) => command(&table),
        (Some(_), Some(_)) => {
            table.forbid("command", "a run is either an http call or a command, not both");
            None
        }
        (None, None) => {
            section.forbid("run", &format!("expected {RUN_EXPECTED}"));
            None
        }
    };
    table.finish();
    run
}

fn command(table: &Section<'_>) -> Option<Run> {
    let words = table.texts("command")?;
    let Some((program, arguments)) = words.split_first() else {
        table.forbid("command", "expected a program and its arguments, found an empty list");
        return None;
    };
    if let Some(word) =
        words.iter().find(|word| word.value.len() > TEXT_MAX_BYTES || word.value.contains('\0'))
    {
        table.wrong(word, format!("expected at most {TEXT_MAX_BYTES} bytes without a zero character"));
        return None;
    }
    if program.value.is_empty() {
        table.wrong(program, "expected the name of a program, found an empty text".to_owned());
        return None;
    }
    let arguments = arguments.iter().map(|word| word.value.to_owned()).collect();
    let env = table.texts("env").unwrap_or_default();
    let env = checked(table, &env, variable);
    Some(Run::Command { program: program.value.to_owned(), arguments, env })
}

/// The name of a variable.
fn variable(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.is_empty() || text.len() > NAME_MAX_BYTES || !text.chars().all(fits) {
        return Err(format!("expected the name of a variable, such as \"REPORT_KEY\", found {text:?}"));
    }
    Ok(text.to_owned())
}

fn http(table: &Section<'_>) -> Option<Call> {
    table.missing("url", "the address to call");
    let url = table.text("url").and_then(|found| match Url::parse(found.value) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.host().is_some() => Some(url),
        _ => {
            table.wrong(&found, "expected an http or https address".to_owned());
            None
        }
    });
    let method = method(table, Method::POST);
    let headers = headers(&table.section("headers"));
    let body = table.text("body").and_then(|found| bounded(table, found));
    let call = Call { url: url?, method: method?, headers, body: body.map(|found| found.value.to_owned()) };
    Some(call)
}

/// The method under `method`, `usual` where there is none.
pub(crate) fn method(table: &Section<'_>, usual: Method) -> Option<Method> {
    const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let Some(found) = table.text("method") else { return Some(usual) };
    let known = METHODS.iter().find(|method| **method == found.value);
    if known.is_none() {
        table.unknown_word(&found, &METHODS);
    }
    known.and_then(|method| method.parse().ok())
}

/// A text that is not absurdly long.
pub(crate) fn bounded<'a>(table: &Section<'_>, found: Found<&'a str>) -> Option<Found<&'a str>> {
    if found.value.len() <= TEXT_MAX_BYTES {
        return Some(found);
    }
    table.wrong(&found, format!("expected at most {TEXT_MAX_BYTES} bytes, found {}", found.value.len()));
    None
}

/// Header values may be credentials, so no message repeats one.
pub(crate) fn headers(table: &Section<'_>) -> Vec<(HeaderName, Secret)> {
    let pairs = table.pairs().into_iter().filter_map(|(name, value)| {
        let Ok(header) = name.value.parse::<HeaderName>() else {
            table.wrong(&name, format!("expected the name of a header, found {:?}", name.value));
            return None;
        };
        if HeaderValue::from_str(value.value).is_err() || value.value.len() > TEXT_MAX_BYTES {
            table.wrong(&value, "expected a header value of visible characters".to_owned());
            return None;
        }
        Some((header, Secret::new(value.value)))
    });
    pairs.collect()
}
