//! Asks a running node over HTTP.
//!
//! Finds it by `SYNCLINE_URL`, shows `SYNCLINE_TOKEN`, follows no redirects and turns every refusal into the sentence the
//! node gave for it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{Stream, StreamExt, TryStreamExt};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{items, text};
use crate::output;

/// How long a node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest silence on a stream; a node breaks it every 15 seconds.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(45);

/// Longest answer, and longest refusal, that is read. What is at the address may be no node at all.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;
const REFUSAL_MAX_BYTES: usize = 64 * 1024;

/// Names that are told where none is like the one that was asked for.
const NAMES_SHOWN: usize = 8;

/// Longest event that is read from a stream.
const EVENT_MAX_BYTES: usize = 1024 * 1024;

/// Which node to ask.
#[derive(clap::Args)]
pub struct Target {
    /// The node's address.
    #[arg(long, env = "SYNCLINE_URL", default_value = "http://127.0.0.1:3000", value_name = "URL")]
    url: Url,
    /// Print JSON, for programs.
    #[arg(long)]
    pub json: bool,
    /// What to show the node; @FILE reads it from a file. In the environment it is in no list of processes.
    #[arg(
        id = "bearer",
        long = "token",
        env = "SYNCLINE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    token: Option<String>,
}

/// The node said no, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{sentence} ({})", status.as_u16())]
pub struct Refusal {
    /// How it was refused.
    pub status: StatusCode,
    sentence: String,
    /// The whole answer.
    pub body: Value,
}

impl Refusal {
    /// The stable word for it.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

/// What a browser is told that asks before it sends a page's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// Anything but success refuses.
    pub status: StatusCode,
    /// The origin whose pages may ask.
    pub allow_origin: Option<String>,
    /// With which methods.
    pub allow_methods: Option<String>,
    /// With which headers.
    pub allow_headers: Option<String>,
}

/// A node to ask.
pub struct Client {
    http: reqwest::Client,
    url: Url,
    token: Option<String>,
}

impl Target {
    /// A client for it. Nothing is asked yet.
    pub fn client(&self) -> anyhow::Result<Client> {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(ANSWER_TIMEOUT)
            .read_timeout(STREAM_SILENCE_MAX)
            .build()
            .context("cannot prepare requests")?;
        let token = match self.token.as_deref().and_then(|token| token.strip_prefix('@')) {
            Some(file) => {
                let read = std::fs::read_to_string(file);
                Some(read.with_context(|| format!("cannot read the token in {file}"))?.trim().to_owned())
            }
            None => self.token.clone(),
        };
        Ok(Client { http, url: self.url.clone(), token: token.filter(|token| !token.is_empty()) })
    }
}

impl Client {
    /// Asks and waits for the whole answer. `path` is a list of segments, each of which may hold anything.
    pub async fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> anyhow::Result<Value> {
        self.ask_within(method, path, query, body, ANSWER_TIMEOUT).await
    }

    /// The same, for a question that may take its time, or has little.
    pub async fn ask_within(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&(impl Serialize + ?Sized)>,
        timeout: Duration,
    ) -> anyhow::Result<Value> {
        let mut request = self.request(method, path, query)?.timeout(timeout);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = match self.send(request).await {
            Err(error) => return Err(self.with_names(error, path).await),
            Ok(response) => response,
        };
        let whole =
            whole(response, ANSWER_MAX_BYTES).await.with_context(|| format!("cannot ask {}", self.url))?;
        serde_json::from_slice(&whole).with_context(|| format!("{} did not answer with JSON", self.url))
    }

    /// Reads from a node.
    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, query, None::<&()>).await
    }

    /// The node's events of a topic, as they come, until the stream breaks.
    pub async fn events(
        &self,
        topics: &str,
    ) -> anyhow::Result<impl Stream<Item = anyhow::Result<(String, String)>> + use<>> {
        let request = self.request(Method::GET, &["api", "events"], &[("topics", topics)])?;
        let bytes = self.send(request).await?.bytes_stream().map_err(anyhow::Error::from).boxed();
        let events = futures::stream::try_unfold((bytes, Vec::new()), async |(mut bytes, mut read)| {
            loop {
                if let Some(event) = next_event(&mut read) {
                    return Ok(Some((event, (bytes, read))));
                }
                if read.len() > EVENT_MAX_BYTES {
                    bail!("an event is larger than {EVENT_MAX_BYTES} bytes");
                }
                match bytes.try_next().await? {
                    Some(more) => read.extend_from_slice(&more),
                    None => return Ok(None),
                }
            }
        });
        Ok(events.boxed())
    }

    /// Asks as the browser of a page of `origin` does before it sends a request with a token. Nothing is read but the head
    /// of the answer; whatever stands before the node may have written it.
    pub async fn preflight(&self, path: &[&str], origin: &str, method: &str) -> anyhow::Result<Preflight> {
        let mut url = self.url.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
            Err(()) => bail!("{} is not the address of a node", self.url),
        }
        let request = self.http.request(Method::OPTIONS, url).timeout(ANSWER_TIMEOUT);
        let request = request.header("origin", origin).header("access-control-request-method", method);
        let request = request.header("access-control-request-headers", "authorization,content-type");
        let answer = request.send().await.with_context(|| format!("cannot ask {}", self.url))?;
        let header = |name: &str| {
            let value = answer
                .headers()
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            value.filter(|value| !value.is_empty())
        };
        Ok(Preflight {
            status: answer.status(),
            allow_origin: header("access-control-allow-origin"),
            allow_methods: header("access-control-allow-methods"),
            allow_headers: header("access-control-allow-headers"),
        })
    }

    /// What is called like none of its kind is told with the names that are most like it, or with those there are.
    async fn with_names(&self, error: anyhow::Error, path: &[&str]) -> anyhow::Error {
        let (&["api", kind @ ("queues" | "jobs"), wanted, ..], Some(refusal)) =
            (path, error.downcast_ref::<Refusal>())
        else {
            return error;
        };
        if refusal.status != StatusCode::NOT_FOUND {
            return error;
        }
        let listed = async {
            let answer =
                self.send(self.request(Method::GET, &["api", kind], &[])?.timeout(ANSWER_TIMEOUT)).await?;
            anyhow::Ok(serde_json::from_slice::<Value>(&whole(answer, ANSWER_MAX_BYTES).await?)?)
        };
        let Ok(listed) = listed.await else { return error };
        let known: Vec<&str> = items(&listed, kind).iter().map(|each| text(each, "name")).collect();
        let Some(hint) = suggestion(wanted, &known) else { return error };
        let Refusal { status, sentence, body } = refusal;
        Refusal { status: *status, sentence: format!("{sentence}; {hint}"), body: body.clone() }.into()
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> anyhow::Result<RequestBuilder> {
        let mut url = self.url.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
            Err(()) => bail!("{} is not the address of a node", self.url),
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let asked = output::is_verbose()
            .then(|| (request.try_clone().and_then(|it| it.build().ok()), Instant::now()));
        let sent = request.send().await;
        if let Some((Some(request), since)) = asked {
            let came = sent.as_ref().map_or("no answer".to_owned(), |response| response.status().to_string());
            let (method, url, took) = (request.method(), request.url(), since.elapsed().as_millis());
            output::remark(format_args!("{method} {url}: {came} in {took} ms"))?;
        }
        let response = match sent {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                bail!(
                    "nothing answers at {}: is a node running there? (`syncline serve` starts one)",
                    self.url
                )
            }
            Err(error) => {
                return Err(error.without_url()).with_context(|| format!("cannot ask {}", self.url));
            }
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            bail!("the node at {} asks for its token: set SYNCLINE_TOKEN", self.url);
        }
        let body = whole(response, REFUSAL_MAX_BYTES).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match body["error"].as_str().map(str::to_owned) {
            Some(sentence) => Err(Refusal { status, sentence, body }.into()),
            None => bail!("{} answered {status}: is that a Syncline node?", self.url),
        }
    }
}

/// Which of the known names was meant, or which there are.
fn suggestion(wanted: &str, known: &[&str]) -> Option<String> {
    if known.contains(&wanted) {
        return None;
    }
    let likeness = |name: &&&str| strsim::jaro_winkler(&wanted.to_lowercase(), &name.to_lowercase());
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    Some(if likeness(&best) > 0.75 {
        format!("did you mean {best:?}?")
    } else {
        let shown = known.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
        let more = if known.len() > NAMES_SHOWN { ", …" } else { "" };
        format!("there are {shown}{more}")
    })
}

/// The whole body, if it is not too long.
async fn whole(response: Response, max_bytes: usize) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(reqwest::Error::without_url)?);
        if body.len() > max_bytes {
            bail!("the answer is longer than {max_bytes} bytes");
        }
    }
    Ok(body)
}

/// Takes the next whole event off what has been read: its name and its data. Comments are passed over.
fn next_event(read: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        let end = read.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = read.drain(..end + 2).collect();
        let block = String::from_utf8_lossy(&block);
        let (mut name, mut data) = (String::new(), Vec::new());
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut name),
                "data" => data.push(value),
                _ => {}
            }
        }
        if !name.is_empty() || !data.is_empty() {
            return Some((name, data.join("\n")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cn_23_a_name_that_is_none_is_told_with_the_one_that_was_meant() {
        assert_eq!(suggestion("wrods", &["lookups", "words"]).as_deref(), Some("did you mean \"words\"?"));
        assert_eq!(suggestion("x", &["lookups", "words"]).as_deref(), Some("there are lookups, words"));
        assert_eq!(suggestion("words", &["words"]), None);
        assert_eq!(suggestion("words", &[]), None);
    }

    #[test]
    fn events_are_read_whole_whatever_the_pieces() {
        let stream = ": keep-alive\n\nevent: viewer\ndata: {\"viewers\":1}\n\nretry: 2000\nevent:job\ndata:a\ndata: b\n\n";
        for size in [1, 2, 3, 7, stream.len()] {
            let (mut read, mut events) = (Vec::new(), Vec::new());
            for piece in stream.as_bytes().chunks(size) {
                read.extend_from_slice(piece);
                events.extend(std::iter::from_fn(|| next_event(&mut read)));
            }
            let expected = [("viewer", "{\"viewers\":1}"), ("job", "a\nb")];
            let events: Vec<_> = events.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }
}
