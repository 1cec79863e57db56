//! The effective configuration as a file that could be loaded again, with everything hidden that may be a secret: tokens,
//! headers, bodies, arguments of commands, and all of an address behind its host.

use std::fmt::{self, Display, Write};

use super::template::KEY;
use super::{Api, Config, Input, Job, Place, Queue, Run};
use crate::secret::{REDACTED, redact_url};

impl Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, place) in self.sources.iter().filter(|(_, place)| **place != Place::Default) {
            writeln!(f, "# {key} comes from: {place}")?;
        }
        setting(f, "listen", self.listen.to_string())?;
        setting(f, "data", self.data.display().to_string())?;
        setting(f, "database_url", self.database_shown())?;
        if self.token.is_some() {
            setting(f, "token", REDACTED)?;
        }
        if let Some(url) = &self.public_base_url {
            setting(f, "public_base_url", url.as_str())?;
        }
        setting(f, "allowed_hosts", self.allowed_hosts.clone())?;
        if self.jobs.is_empty() {
            writeln!(f, "jobs = []")?;
        }
        self.fmt_tables(f)?;
        self.jobs.iter().try_for_each(|job| fmt_job(f, job))?;
        self.queues.iter().try_for_each(|queue| fmt_queue(f, queue))?;
        self.entities.iter().try_for_each(|entity| {
            writeln!(f, "\n[[entities]]")?;
            setting(f, "name", entity.entity_type.as_str())?;
            setting(f, "settings", entity.settings)
        })
    }
}

impl Config {
    fn fmt_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[log]")?;
        setting(f, "level", self.log.level.as_str())?;
        setting(f, "format", self.log.format.as_str())?;

        let limits = &self.limits;
        writeln!(f, "\n[limits]")?;
        setting(f, "connections", limits.connections as i64)?;
        setting(f, "connections_per_address", limits.connections_per_address as i64)?;
        setting(f, "event_streams", limits.event_streams as i64)?;
        setting(f, "header_timeout_sec", limits.header_timeout.as_secs() as i64)?;
        setting(f, "body_idle_timeout_sec", limits.body_idle_timeout.as_secs() as i64)?;
        setting(f, "request_timeout_sec", limits.request_timeout.as_secs() as i64)?;
        setting(f, "upload_timeout_sec", limits.upload_timeout.as_secs() as i64)?;
        setting(f, "drain_timeout_sec", limits.drain_timeout.as_secs() as i64)?;

        let viewer = &self.viewer;
        writeln!(f, "\n[viewer]")?;
        setting(f, "allowed_origins", viewer.allowed_origins.clone())?;
        setting(f, "max_sessions", viewer.max_sessions as i64)?;
        setting(f, "new_sessions_per_minute", i64::from(viewer.new_sessions_per_minute))?;
        setting(f, "trust_forwarded_for", viewer.trust_forwarded_for)?;

        let shelf = &self.shelf;
        writeln!(f, "\n[shelf]")?;
        setting(f, "enabled", shelf.enabled)?;
        setting(f, "ndl_base_url", shelf.ndl.to_string())?;
        setting(f, "ndl_thumbnail_base_url", shelf.ndl_thumbnail.to_string())?;
        setting(f, "google_books_base_url", shelf.google.to_string())?;
        setting(f, "rakuten_base_url", shelf.rakuten.to_string())?;
        shelf
            .rakuten_application_id
            .as_ref()
            .map_or(Ok(()), |_| setting(f, "rakuten_application_id", REDACTED))?;
        self.fmt_recordings(f)
    }
}

impl Config {
    fn fmt_recordings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recordings = &self.recordings;
        writeln!(f, "\n[recordings]")?;
        setting(f, "dir", recordings.dir.display().to_string())?;
        setting(f, "max_bytes", recordings.max_bytes as i64)?;
        let Some(s3) = &recordings.s3 else { return Ok(()) };
        setting(f, "s3.endpoint", s3.endpoint.as_str())?;
        setting(f, "s3.bucket", s3.bucket.as_str())?;
        setting(f, "s3.region", s3.region.as_str())?;
        setting(f, "s3.prefix", s3.prefix.as_str())?;
        setting(f, "s3.path_style", s3.path_style)?;
        setting(f, "s3.access_key_id", REDACTED)?;
        setting(f, "s3.secret_access_key", REDACTED)
    }
}

fn fmt_queue(f: &mut fmt::Formatter<'_>, queue: &Queue) -> fmt::Result {
    let Queue { name, settings, results_max, api } = queue;
    writeln!(f, "\n[[queues]]")?;
    setting(f, "name", name.as_str())?;
    setting(f, "concurrency", i64::from(settings.concurrency))?;
    setting(f, "interval_ms", settings.interval.as_millis() as i64)?;
    setting(f, "retry_delay_ms", settings.retry_delay.as_millis() as i64)?;
    setting(f, "timeout_sec", settings.call_timeout.as_secs() as i64)?;
    setting(f, "max_attempts", i64::from(settings.retry.max_attempts))?;
    setting(f, "breaker_failures", i64::from(settings.breaker_threshold))?;
    setting(f, "breaker_pause_sec", settings.breaker.initial_delay.as_secs() as i64)?;
    let Some(api) = api else { return Ok(()) };
    setting(f, "results_max", i64::from(*results_max))?;
    fmt_api(f, api)
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

fn fmt_job(f: &mut fmt::Formatter<'_>, job: &Job) -> fmt::Result {
    writeln!(f, "\n[[jobs]]")?;
    setting(f, "name", job.name.as_str())?;
    setting(f, "cron", job.cron.as_str())?;
    setting(f, "gate", job.gate.as_str())?;
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
        Run::Picture => setting(f, "run", "picture"),
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

fn setting(f: &mut impl Write, key: &str, value: impl Into<toml::Value>) -> fmt::Result {
    writeln!(f, "{key} = {}", value.into())
}
