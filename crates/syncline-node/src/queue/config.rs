//! `[[queues]]`: any HTTP API as a paced queue, and the pace of queues that parts bring.
//!
//! Guarantees that names are unique, that paces are ones a queue can run at, and that a key has its place in each call.
//! Making the calls is the queue's business.

use std::fmt;
use std::time::Duration;

use http::{HeaderName, Method};
use syncline_core::queue::{CONCURRENCY_MAX, GroupSettings, SPAN_MAX, Settings};
use syncline_store::queue::RESULT_MAX_BYTES;

use super::template::{self, Escape, GroupTemplate, KEY, Template};
use crate::config::{self, Found, Section, checked, setting};
use crate::schedule::config as calls;
use crate::secret::{REDACTED, Secret, url_secrets};

/// Queues one file declares at most.
const QUEUES_MAX: usize = 64;

/// Longest name: it is part of rows, labels and addresses.
const NAME_MAX_BYTES: usize = 64;

/// Largest answer kept as a result, unless said otherwise; at most it is what the store keeps.
const RESULT_BYTES: u64 = 64 * 1024;

/// Results kept, unless said otherwise, and at most.
const RESULTS: u32 = 1_000_000;
const RESULTS_MAX: u64 = 100_000_000;

/// Longest time that results are kept, where one is named: ten years.
const RESULT_TTL_MAX_SEC: u64 = 10 * 366 * 24 * 60 * 60;

/// Most attempts at one key.
const ATTEMPTS_MAX: u64 = 1_000;

/// Attempts at a key whose calls fail and may do better, unless said otherwise.
pub(crate) const FAILURE_ATTEMPTS: u32 = 3;

/// The pace of a queue that says nothing of it: once a second, one at a time.
const USUAL: Settings = Settings::new(1, Duration::from_secs(1), Duration::from_secs(1));

/// The pace of a queue whose keys workers claim: as fast as they ask, with a minute for each key.
const USUAL_OF_WORKERS: Settings = {
    let mut settings = Settings::new(CONCURRENCY_MAX, Duration::ZERO, Duration::from_secs(1));
    settings.call_timeout = Duration::from_secs(60);
    settings
};

/// What only a queue with an API of its own has.
const API_KEYS: [&str; 7] =
    ["url", "method", "headers", "body", "success", "failure_attempts", "result_max_bytes"];

/// What of a queue is taken over while a node runs.
pub(super) const RELOADED: [&str; 10] = [
    "concurrency",
    "interval_ms",
    "retry_delay_ms",
    "timeout_sec",
    "max_attempts",
    "breaker_failures",
    "breaker_pause_sec",
    "group_concurrency",
    "group_interval_ms",
    "result_ttl_sec",
];

/// A queue as declared.
#[derive(Debug, Clone)]
pub struct Queue {
    /// Its name, unique.
    pub name: String,
    /// Its pace.
    pub settings: Settings,
    /// Results it keeps; of more the oldest go.
    pub results_max: u32,
    /// Who does its work.
    pub doer: Doer,
    /// The queue that keys with results go to.
    pub then: Option<String>,
    /// The pace of its groups, where it has any.
    pub groups: Option<GroupSettings>,
    /// Names the group of a key that comes without one.
    pub group: Option<GroupTemplate>,
    /// How long it keeps results; until there are too many if absent.
    pub result_ttl: Option<Duration>,
}

/// Who does the work of a declared queue.
#[derive(Debug, Clone)]
pub enum Doer {
    /// The node, by calls to an API.
    Api(Box<Api>),
    /// Workers that claim keys over HTTP.
    Workers,
    /// The part that brings the queue.
    Part,
}

/// A call to make for each key.
#[derive(Clone)]
pub struct Api {
    /// Where to.
    pub url: Template,
    /// How.
    pub method: Method,
    /// With which headers; their values may be credentials.
    pub headers: Vec<(HeaderName, Secret)>,
    /// With which body, and how a key is written in it.
    pub body: Option<(String, Escape)>,
    /// Which answers are results.
    pub success: Vec<Statuses>,
    /// Attempts at a key whose calls fail for another reason than 429 and may do better: it ends with an empty result then.
    pub failure_attempts: u32,
    /// Longest answer that is kept.
    pub result_max_bytes: usize,
}

/// Statuses from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statuses {
    /// The first.
    pub from: u16,
    /// The last.
    pub to: u16,
}

impl Statuses {
    /// Every 2xx.
    pub const OK: Statuses = Statuses { from: 200, to: 299 };

    /// Whether `status` is one of them.
    pub fn contains(self, status: u16) -> bool {
        (self.from..=self.to).contains(&status)
    }

    /// `404`, or `2xx` for a whole class.
    fn parse(text: &str) -> Result<Statuses, String> {
        let expected =
            || format!("expected a status such as \"404\", or a class such as \"2xx\", found {text:?}");
        let (from, to) = match text.strip_suffix("xx").map(str::parse::<u16>) {
            Some(class) => {
                let class = class.map_err(|_| expected())?;
                (class.saturating_mul(100), class.saturating_mul(100).saturating_add(99))
            }
            None => {
                let status = text.parse().map_err(|_| expected())?;
                (status, status)
            }
        };
        if from < 200 || to > 599 {
            return Err(expected());
        }
        if from == 429 {
            return Err("429 always means that the queue asks too fast".to_owned());
        }
        Ok(Statuses { from, to })
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.from == self.to { write!(f, "{}", self.from) } else { write!(f, "{}xx", self.from / 100) }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("url", &self.url).field("method", &self.method).finish_non_exhaustive()
    }
}

/// A queue that a part brings, told while the configuration is read: a table of its name may set its pace.
#[derive(Debug, Clone, Copy)]
pub struct PartQueue {
    /// Its name.
    pub name: &'static str,
    /// Its pace unless the file says otherwise.
    pub settings: Settings,
}

/// Every text of the queues that must not be shown.
pub(super) fn secrets(queues: &[Queue]) -> Vec<String> {
    let mut secrets = Vec::new();
    let apis = queues.iter().filter_map(|queue| match &queue.doer {
        Doer::Api(api) => Some(api),
        _ => None,
    });
    for api in apis {
        secrets.extend(url_secrets(api.url.as_str()));
        // What every call of its kind says is no secret, and hiding it would hide half the log.
        let headers = api.headers.iter().filter(|(name, _)| *name != http::header::CONTENT_TYPE);
        secrets.extend(headers.map(|(_, value)| value.expose().to_owned()));
    }
    secrets
}

/// A queue as a table of the file.
pub(super) fn print(f: &mut fmt::Formatter<'_>, queue: &Queue) -> fmt::Result {
    let Queue { name, settings, results_max, doer, then, groups, group, result_ttl } = queue;
    writeln!(f, "\n[[queues]]")?;
    setting(f, "name", name.as_str())?;
    setting(f, "concurrency", i64::from(settings.concurrency))?;
    setting(f, "interval_ms", settings.interval.as_millis() as i64)?;
    setting(f, "retry_delay_ms", settings.retry_delay.as_millis() as i64)?;
    setting(f, "timeout_sec", settings.call_timeout.as_secs() as i64)?;
    setting(f, "max_attempts", i64::from(settings.retry.max_attempts))?;
    setting(f, "breaker_failures", i64::from(settings.breaker_threshold))?;
    setting(f, "breaker_pause_sec", settings.breaker.initial_delay.as_secs() as i64)?;
    if let Some(then) = then {
        setting(f, "then", then.as_str())?;
    }
    if let Some(group) = group {
        setting(f, "group", group.as_str())?;
    }
    if let Some(groups) = groups {
        setting(f, "group_concurrency", i64::from(groups.concurrency))?;
        setting(f, "group_interval_ms", groups.interval.as_millis() as i64)?;
    }
    if let Some(ttl) = result_ttl {
        setting(f, "result_ttl_sec", ttl.as_secs() as i64)?;
    }
    match doer {
        Doer::Part => Ok(()),
        Doer::Workers => {
            setting(f, "results_max", i64::from(*results_max))?;
            setting(f, "workers", true)
        }
        Doer::Api(api) => {
            setting(f, "results_max", i64::from(*results_max))?;
            fmt_api(f, api)
        }
    }
}

fn fmt_api(f: &mut fmt::Formatter<'_>, api: &Api) -> fmt::Result {
    setting(f, "url", api.url.shown())?;
    setting(f, "method", api.method.as_str())?;
    for (name, value) in &api.headers {
        // What a body is decides how a key is written into it, and is no secret.
        let shown = if *name == http::header::CONTENT_TYPE { value.expose() } else { REDACTED };
        setting(f, &format!("headers.{name}"), shown)?;
    }
    if let Some((body, _)) = &api.body {
        let place = if body.contains(KEY) { KEY } else { "" };
        setting(f, "body", format!("{REDACTED}{place}"))?;
    }
    setting(f, "success", api.success.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    setting(f, "failure_attempts", i64::from(api.failure_attempts))?;
    setting(f, "result_max_bytes", api.result_max_bytes as i64)
}

/// The queues of a file.
pub(crate) fn read(settings: &config::Settings<'_>) -> Vec<Queue> {
    let of_parts: Vec<PartQueue> = settings.told().copied().collect();
    let mut queues: Vec<Queue> = Vec::new();
    let sections = settings.sections("queues").unwrap_or_default();
    let names: Vec<Option<String>> =
        sections.iter().map(|section| section.text("name").map(|name| name.value.to_owned())).collect();
    for (index, section) in sections.into_iter().enumerate() {
        let name = section.text("name");
        if let Some(name) = &name {
            if index >= QUEUES_MAX {
                section.wrong(name, format!("at most {QUEUES_MAX} queues are allowed"));
            } else if queues.iter().any(|queue| queue.name == name.value) {
                section.wrong(name, format!("another queue is already called {:?}", name.value));
            }
        }
        section.missing("name", "a name for the queue");
        let later: Vec<&str> = names[index + 1..].iter().flatten().map(String::as_str).collect();
        let then = then(&section, &later, &of_parts);
        queues.extend(queue(&section, name.as_ref(), &of_parts).map(|queue| Queue { then, ..queue }));
        section.finish();
    }
    queues
}

/// One queue, or `None` after noting why not. Every key is asked for, so that one mistake does not hide the next.
fn queue(section: &Section<'_>, name: Option<&Found<&str>>, of_parts: &[PartQueue]) -> Option<Queue> {
    let name_checked = name.and_then(|name| queue_name(section, name));
    let of_part = of_parts.iter().find(|queue| name_checked.as_deref() == Some(queue.name));
    let workers = section.boolean("workers").unwrap_or(false);
    let usual = if workers { USUAL_OF_WORKERS } else { USUAL };
    let settings = pace(section, of_part.map_or(usual, |queue| queue.settings));
    let doer = match of_part {
        Some(_) => {
            for key in API_KEYS.iter().chain(&[
                "workers",
                "results_max",
                "then",
                "group",
                "group_concurrency",
                "group_interval_ms",
                "result_ttl_sec",
            ]) {
                section.forbid(key, "this queue is brought by a part, and only its pace can be set");
            }
            Doer::Part
        }
        None if workers => {
            for key in API_KEYS {
                section.forbid(key, "workers do the work of this queue; it calls nobody");
            }
            Doer::Workers
        }
        None => Doer::Api(Box::new(api(section)?)),
    };
    let results_max = section.integer("results_max", 1..=RESULTS_MAX);
    let results_max = results_max.and_then(|results| u32::try_from(results).ok()).unwrap_or(RESULTS);
    let (group, groups) = groups(section);
    let result_ttl = section.integer("result_ttl_sec", 1..=RESULT_TTL_MAX_SEC).map(Duration::from_secs);
    let (name, settings) = (name_checked?, settings?);
    Some(Queue { name, settings, results_max, doer, then: None, groups, group, result_ttl })
}

/// How keys are in groups, and the pace of each. A queue has groups if it says anything of them.
fn groups(section: &Section<'_>) -> (Option<GroupTemplate>, Option<GroupSettings>) {
    let span_max = u64::try_from(SPAN_MAX.as_millis()).unwrap_or(u64::MAX);
    let template = section.text("group").and_then(|found| match GroupTemplate::parse(found.value) {
        Ok(template) => Some(template),
        Err(what) => {
            section.wrong(&found, what);
            None
        }
    });
    let concurrency = section.integer("group_concurrency", 1..=u64::from(CONCURRENCY_MAX));
    let interval = section.integer("group_interval_ms", 0..=span_max);
    if template.is_none() && concurrency.is_none() && interval.is_none() {
        return (None, None);
    }
    let usual = GroupSettings { concurrency: 1, interval: Duration::ZERO };
    let concurrency = concurrency.and_then(|count| u32::try_from(count).ok()).unwrap_or(usual.concurrency);
    let interval = interval.map_or(usual.interval, Duration::from_millis);
    (template, Some(GroupSettings { concurrency, interval }))
}

/// The queue that keys go to next. Only a queue further down, or one of a part, can be named, so that none leads back.
fn then(section: &Section<'_>, later: &[&str], of_parts: &[PartQueue]) -> Option<String> {
    let found = section.text("then")?;
    let is_known = later.contains(&found.value) || of_parts.iter().any(|queue| queue.name == found.value);
    if !is_known {
        let what = format!("expected a queue that is declared further down, found {:?}", found.value);
        section.wrong(&found, what);
    }
    is_known.then(|| found.value.to_owned())
}

fn queue_name(section: &Section<'_>, name: &Found<&str>) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.value.is_empty() || name.value.len() > NAME_MAX_BYTES || !name.value.chars().all(fits) {
        let expected = format!("expected 1 to {NAME_MAX_BYTES} of a-z, A-Z, 0-9, - and _");
        section.wrong(name, format!("{expected}, found {:?}", name.value));
        return None;
    }
    Some(name.value.to_owned())
}

fn pace(section: &Section<'_>, usual: Settings) -> Option<Settings> {
    let span_max = u64::try_from(SPAN_MAX.as_millis()).unwrap_or(u64::MAX);
    let ms = |key| section.integer(key, 0..=span_max).map(Duration::from_millis);
    let sec = |key| section.integer(key, 1..=span_max / 1_000).map(Duration::from_secs);
    let count = |key, max| section.integer(key, 1..=max).and_then(|count| u32::try_from(count).ok());
    let mut settings = usual;
    settings.concurrency = count("concurrency", u64::from(CONCURRENCY_MAX)).unwrap_or(usual.concurrency);
    settings.interval = ms("interval_ms").unwrap_or(usual.interval);
    if let Some(delay) = ms("retry_delay_ms") {
        settings.retry_delay = delay;
        settings.retry.initial_delay = delay;
        settings.retry.max_delay = settings.retry.max_delay.max(delay);
    }
    settings.call_timeout = sec("timeout_sec").unwrap_or(usual.call_timeout);
    settings.retry.max_attempts = count("max_attempts", ATTEMPTS_MAX).unwrap_or(usual.retry.max_attempts);
    settings.breaker_threshold = count("breaker_failures", 1_000_000).unwrap_or(usual.breaker_threshold);
    if let Some(pause) = sec("breaker_pause_sec") {
        settings.breaker.initial_delay = pause;
        settings.breaker.max_delay = settings.breaker.max_delay.max(pause);
    }
    match settings.check() {
        Ok(()) => Some(settings),
        Err(error) => {
            section.forbid("name", &error.to_string());
            None
        }
    }
}

fn api(section: &Section<'_>) -> Option<Api> {
    let what = "an address with {key} in it, such as \"https://api.example/items/{key}\", or workers = true";
    section.missing("url", what);
    let url_found = section.text("url");
    let url = url_found.as_ref().and_then(|found| match Template::parse(found.value) {
        Ok(url) => Some(url),
        Err(what) => {
            section.wrong(found, what);
            None
        }
    });
    let body = section.text("body").and_then(|found| calls::bounded(section, found));
    let usual = if body.is_some() { Method::POST } else { Method::GET };
    let method = calls::method(section, usual);
    let mut headers = calls::headers(&section.section("headers"));
    let body = body.map(|found| {
        let declared = headers.iter().find(|(name, _)| *name == http::header::CONTENT_TYPE);
        let escape = Escape::of(declared.map_or("application/json", |(_, value)| value.expose()));
        if escape.is_none() && template::has_key(found.value) {
            let what = "a key can be written into a body of JSON, of a form, of XML or of text/plain; \
                 for another content-type put {key} into the address";
            section.wrong(&found, what.to_owned());
        }
        if declared.is_none() {
            headers.push((http::header::CONTENT_TYPE, Secret::new("application/json")));
        }
        (found.value.to_owned(), escape.unwrap_or(Escape::Plain))
    });
    let success = section.texts("success").unwrap_or_default();
    let success = checked(section, &success, Statuses::parse);
    let success = if success.is_empty() { vec![Statuses::OK] } else { success };
    let failure_attempts = section.integer("failure_attempts", 1..=ATTEMPTS_MAX);
    let failure_attempts = failure_attempts.map_or(FAILURE_ATTEMPTS, |attempts| attempts as u32);
    let result_bytes =
        section.integer("result_max_bytes", 1..=RESULT_MAX_BYTES as u64).unwrap_or(RESULT_BYTES);
    let (url, method) = (url?, method?);
    if !url.has_key() && !body.as_ref().is_some_and(|(body, _)| template::has_key(body)) {
        let what = "the key has no place: write {key} into the address or the body";
        url_found.iter().for_each(|found| section.wrong(found, what.to_owned()));
        return None;
    }
    let result_max_bytes = usize::try_from(result_bytes).unwrap_or(usize::MAX);
    Some(Api { url, method, headers, body, success, failure_attempts, result_max_bytes })
}
