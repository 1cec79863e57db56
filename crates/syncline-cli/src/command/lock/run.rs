//! `syncline lock run`: a command that runs only while this process holds the lock.
//!
//! The lease is renewed while the command runs. It counts from before each request left, on two clocks, with a margin:
//! when it is no longer certain the command gets SIGTERM, and SIGKILL before anybody else can hold the lock. Nothing that the
//! command started outlives the lease, nor this process, however that ends: a keeper sees to it. What it ends with is what this ends with; a signal it died of is 128 plus its
//! number, as in a shell.
//!
//! Frozen together with this process, or writing at the very moment the lease ends, a command can still be late: the
//! token it is given is for the resource to tell.

mod child;
mod hold;
mod keeper;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use syncline_client::answer::{number, span, text};
use syncline_client::output::{Shown, WrongUse};
use syncline_client::{Client, Refusal, Target, Wait};
use syncline_core::lock::{LeaseId, Name, Ttl};

pub(super) use self::child::become_command;
use self::child::{Child, Ended};
use self::hold::{Hold, Lost};
pub(super) use self::keeper::keep;
use crate::exit::Exit;

/// Longest wait that one request asks for; a longer one takes several.
const WAIT_STEP: Duration = Duration::from_secs(20);
/// How long to rest when the node cannot be asked while we wait.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Run a command while holding a lock.
#[derive(clap::Args)]
#[command(after_help = super::EXAMPLES)]
pub(crate) struct Run {
    /// The lock's name.
    name: Name,
    /// How long to wait for the lock, such as 30s; 0 to give up at once.
    #[arg(long, value_name = "DURATION", default_value = "forever")]
    wait: Wait,
    /// How long the lock stays taken when this process dies, in seconds (1 to 3600).
    #[arg(long, value_name = "SECONDS", default_value = "15")]
    ttl: f64,
    /// Who we are, for others to read; this machine and process if absent.
    #[arg(long)]
    holder: Option<String>,
    /// Keep SYNCLINE_TOKEN from the command; without this it is in its environment, for `syncline` commands in it.
    #[arg(long)]
    hide_token: bool,
    #[command(flatten)]
    target: Target,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let ttl = Ttl::from_ms((self.ttl * 1_000.0) as u64).map_err(|error| wrong(error.to_string()))?;
        let client = self.target.client()?;
        let holder = self.holder.clone().unwrap_or_else(default_holder);
        let Some(hold) = self.acquire(&client, &holder, ttl).await? else { return Err(Shown.into()) };
        let mut child = match Child::start(&self.command, &self.name, &hold, self.hide_token) {
            Ok(child) => child,
            Err(error) => {
                self.give_back(&client, &hold).await;
                return Err(error);
            }
        };
        let outcome = {
            let keeping = hold.keep(&client);
            tokio::select! {
                ended = child.ended() => Ok(ended?),
                lost = keeping => Err(lost),
            }
        };
        match outcome {
            Ok(ended) => {
                self.give_back(&client, &hold).await;
                finish(ended)
            }
            Err(lost) => {
                self.say(
                    &json!({ "event": "lost", "name": self.name, "reason": lost.reason }),
                    &lost_words(&self.name, &lost),
                );
                child.stop(lost.kill_at).await?;
                Err(Shown.into())
            }
        }
    }

    /// Waits for the lock. `None` when the time was up, which has been said.
    async fn acquire(&self, client: &Client, holder: &str, ttl: Ttl) -> anyhow::Result<Option<Hold>> {
        let lease = LeaseId::from_random(rand::random());
        let deadline = self.wait.deadline();
        // Asked without waiting first, so that whoever has to wait learns at once for whom.
        let (mut step, mut said, mut reached) = (Duration::ZERO, None, false);
        loop {
            let error = match Hold::acquire(client, &self.name, (lease, holder), ttl, step).await {
                Ok(hold) => return Ok(Some(hold)),
                Err(error) => error,
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match error.downcast_ref::<Refusal>() {
                Some(refusal) if refusal.code() == "held" => {
                    reached = true;
                    if left.is_some_and(|left| left.is_zero()) {
                        self.say(&held(&self.name, refusal, "refused"), &format!("error: {refusal}"));
                        return Ok(None);
                    }
                    let by = text(&refusal.body, "holder").to_owned();
                    if said.as_ref() != Some(&by) {
                        self.say(
                            &held(&self.name, refusal, "waiting"),
                            &waiting_words(&self.name, &refusal.body),
                        );
                        said = Some(by);
                    }
                }
                // A node that stops, or was there a moment ago, may come back.
                Some(refusal) if refusal.status.is_server_error() => tokio::time::sleep(RETRY_AFTER).await,
                None if reached => tokio::time::sleep(RETRY_AFTER).await,
                _ => return Err(error),
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(error);
            }
            step = left.map_or(WAIT_STEP, |left| left.min(WAIT_STEP));
        }
    }

    async fn give_back(&self, client: &Client, hold: &Hold) {
        if let Err(error) = hold.release(client).await {
            let words = format!("warning: {} was not given back and ends by itself: {error:#}", self.name);
            self.say(&json!({ "event": "not-released", "name": self.name }), &words);
        }
    }

    /// Standard output is the command's; what we have to say goes to standard error.
    fn say(&self, facts: &Value, words: &str) {
        let mut out = io::stderr();
        // Nobody is left to tell if even this cannot be written.
        let _ = if self.target.json { writeln!(out, "{facts}") } else { writeln!(out, "{words}") };
    }
}

fn finish(ended: Ended) -> anyhow::Result<()> {
    match ended {
        Ended::Code(0) => Ok(()),
        Ended::Code(code) => Err(Exit(code).into()),
        Ended::Signal(signal) => Err(Exit(128_u8.saturating_add(signal)).into()),
    }
}

fn held(name: &Name, refusal: &Refusal, event: &str) -> Value {
    let body = &refusal.body;
    json!({ "event": event, "name": name, "holder": body["holder"], "token": body["token"], "expiresInMs": body["expiresInMs"] })
}

fn waiting_words(name: &Name, body: &Value) -> String {
    match text(body, "holder") {
        "" => format!("waiting for {name}"),
        holder => format!("waiting for {name}: held by {holder}, {} left", span(number(body, "expiresInMs"))),
    }
}

fn lost_words(name: &Name, lost: &Lost) -> String {
    format!("error: lost the lock {name}: {}; the command is stopped", lost.reason)
}

fn wrong(sentence: String) -> anyhow::Error {
    WrongUse(sentence).into()
}

fn default_holder() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(|c| !c.is_control()).take(60).collect();
    format!("{host}:{}", std::process::id())
}
