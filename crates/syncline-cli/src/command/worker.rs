//! `syncline worker`: any program as the worker of a queue.
//!
//! The command is run once for each key: its input is on standard input, its result what it writes to standard output, as JSON
//! if it is JSON and as a text otherwise. The lease on a key is extended while its command runs; a command whose lease is lost
//! is ended, with everything it started, and so is every command when this process dies: the keeper of `lock run` sees to it.

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use syncline_client::answer::{items, number, span, text};
use syncline_client::output::{self, Shown, Tone, foreign, toned};
use syncline_client::{Client, Method, Refusal, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// How long one question for keys waits at the node.
const WAIT: Duration = Duration::from_secs(20);
/// How long the node may take beyond that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to rest when the node cannot be asked.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest output that is read; the node keeps less.
const OUTPUT_MAX_BYTES: u64 = 1024 * 1024;
/// A command that ends with this code says that the key will never work (EX_DATAERR of sysexits.h).
const REFUSED: i32 = 65;
/// Keys that one question claims at most.
const CLAIM_MAX: usize = 100;

const EXAMPLES: &str = "\
Examples:
  syncline worker thumbnails -- ./thumbnail.sh        run it for each key
  syncline worker mails --concurrency 4 -- ./send.py  four at once
  syncline worker import --until-empty -- ./load      end when nothing is left to do

The command finds the key in SYNCLINE_KEY, the queue in SYNCLINE_QUEUE, the attempt in SYNCLINE_ATTEMPT,
and its input as JSON on standard input. Standard output is its result: JSON, or else a text. Exit code 0
is done, 65 is never (the key fails), any other brings the key back until its attempts are used up.";

/// Run a command for each key of a queue.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Worker {
    /// The queue's name; it must be declared with workers = true.
    queue: String,
    /// Commands at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    concurrency: u16,
    /// How long a key stays ours when this process dies, in seconds; the queue's timeout_sec if absent.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lease: Option<u64>,
    /// End once no key may start and none runs, instead of waiting for more.
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    target: Target,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// How a key's command ended.
struct Ended {
    token: String,
    key: String,
    took: Duration,
    outcome: Outcome,
}

enum Outcome {
    Done(Value),
    Failed {
        reason: String,
        refused: bool,
    },
    /// Somebody else may have the key by now, or it was removed.
    Lost,
    /// It was not begun, or ended by us: the key goes back as it was.
    Stopped,
}

impl Worker {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = Arc::new(self.target.client()?);
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut runs: JoinSet<Ended> = JoinSet::new();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (mut ending, mut failed) = (false, false);
        let wait = if self.until_empty { Duration::ZERO } else { WAIT };
        // A question is not dropped because a command ends meanwhile: the keys of its answer would be nobody's until their leases end.
        let mut asked = None;
        loop {
            let free = usize::from(self.concurrency).saturating_sub(runs.len());
            if ending {
                asked = None;
            } else if free > 0 && asked.is_none() {
                asked = Some(Box::pin(self.claim(&client, free.min(CLAIM_MAX), wait)));
            }
            if asked.is_none() && runs.is_empty() {
                break;
            }
            let claimed = async {
                match asked.as_mut() {
                    Some(asked) => asked.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = interrupt.recv() => stop_taking(&mut ending, &stop),
                _ = terminate.recv() => stop_taking(&mut ending, &stop),
                Some(ended) = runs.join_next() => {
                    failed |= self.settle(&client, ended.context("a command's task failed")?).await?;
                }
                claimed = claimed => {
                    asked = None;
                    let tasks = claimed?;
                    for task in items(&tasks, "tasks") {
                        let work = Work {
                            client: Arc::clone(&client),
                            queue: self.queue.clone(),
                            token: text(task, "token").to_owned(),
                            lease: Duration::from_millis(number(task, "leaseMs")),
                        };
                        runs.spawn(work.perform(task.clone(), self.start(task), stopped.clone()));
                    }
                    if self.until_empty && items(&tasks, "tasks").is_empty() {
                        ending = runs.is_empty();
                        if let Some(ended) = runs.join_next().await {
                            failed |= self.settle(&client, ended.context("a command's task failed")?).await?;
                        }
                    }
                }
            }
        }
        if failed && self.until_empty { Err(Shown.into()) } else { Ok(()) }
    }

    /// Asks for keys until the node has answered. A node that is away may come back; one that refuses will not change its mind.
    async fn claim(&self, client: &Client, max: usize, wait: Duration) -> anyhow::Result<Value> {
        let mut body = json!({ "max": max, "waitMs": wait.as_millis() as u64 });
        if let Some(lease) = self.lease {
            body["leaseMs"] = json!(lease * 1_000);
        }
        let path = ["api", "queues", &self.queue, "claim"];
        let mut said = false;
        loop {
            match client.ask_within(Method::POST, &path, &[], Some(&body), wait + ANSWER_TIMEOUT).await {
                Ok(tasks) => return Ok(tasks),
                Err(error) => {
                    let refusal = error.downcast_ref::<Refusal>();
                    let lasting = |refusal: &Refusal| {
                        !refusal.status.is_server_error() && refusal.status.as_u16() != 429
                    };
                    if self.until_empty || refusal.is_some_and(lasting) {
                        return Err(error);
                    }
                    if !std::mem::replace(&mut said, true) {
                        output::warn(format_args!("{error:#}; asking again"));
                    }
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Starts the command for a key, under a keeper that ends it with us.
    fn start(&self, task: &Value) -> anyhow::Result<Child> {
        let ourselves = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(ourselves);
        command.args(["lock", "keep", &std::process::id().to_string(), "--"]).args(&self.command);
        command
            .env("SYNCLINE_QUEUE", &self.queue)
            .env("SYNCLINE_KEY", text(task, "key"))
            .env("SYNCLINE_ATTEMPT", number(task, "attempt").to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command.spawn().context("cannot start the command")
    }

    /// Tells the node how a key's command ended; true if the key brought nothing.
    async fn settle(&self, client: &Client, ended: Ended) -> anyhow::Result<bool> {
        let Ended { token, key, took, outcome } = ended;
        let (verb, body, failed) = match &outcome {
            Outcome::Done(result) => {
                ("complete", json!({ "tasks": [{ "token": token, "result": result }] }), false)
            }
            Outcome::Failed { reason, refused } => {
                let cause = if *refused { "refused" } else { "error" };
                ("fail", json!({ "tasks": [{ "token": token, "reason": reason, "cause": cause }] }), true)
            }
            Outcome::Stopped => ("release", json!({ "tokens": [token] }), true),
            Outcome::Lost => {
                self.tell(&key, "lost", took, "its lease is over, or it was removed")?;
                return Ok(true);
            }
        };
        let path = ["api", "queues", &self.queue, verb];
        loop {
            match client.ask(Method::POST, &path, &[], Some(&body)).await {
                Ok(answer) => {
                    let state = items(&answer, "tasks").first().map_or("", |task| text(task, "state"));
                    let reason = if let Outcome::Failed { reason, .. } = &outcome { reason } else { "" };
                    self.tell(&key, state, took, reason)?;
                    return Ok(failed || state != "done");
                }
                Err(error) => match error.downcast_ref::<Refusal>() {
                    Some(refusal) if refusal.code() == "lease-lost" => {
                        self.tell(&key, "lost", took, "its lease was over")?;
                        return Ok(true);
                    }
                    Some(refusal) if !refusal.status.is_server_error() => return Err(error),
                    // Its answer is worth more than our patience: the lease decides how long.
                    _ => {
                        output::warn(format_args!("{key}: {error:#}; telling it again"));
                        tokio::time::sleep(RETRY_AFTER).await;
                    }
                },
            }
        }
    }

    fn tell(&self, key: &str, state: &str, took: Duration, reason: &str) -> anyhow::Result<()> {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if self.target.json {
            return output::line(json!({ "key": key, "state": state, "tookMs": took_ms, "reason": reason }));
        }
        let tone = match state {
            "done" => Tone::Good,
            "failed" | "dead" => Tone::Bad,
            _ => Tone::Doubtful,
        };
        let reason = if reason.is_empty() { String::new() } else { format!("  {}", foreign(reason)) };
        output::line(format_args!("{}  {}  {}{reason}", foreign(key), toned(tone, state), span(took_ms)))
    }
}

/// Takes no more keys; asked a second time, gives back what runs.
fn stop_taking(ending: &mut bool, stop: &tokio::sync::watch::Sender<bool>) {
    if std::mem::replace(ending, true) {
        stop.send_replace(true);
    } else {
        output::warn("takes no more keys and waits for its commands; once more to end them");
    }
}

/// A key that is worked on.
struct Work {
    client: Arc<Client>,
    queue: String,
    token: String,
    lease: Duration,
}

impl Work {
    /// Runs the key's command to its end, and extends the lease meanwhile.
    async fn perform(
        self,
        task: Value,
        child: anyhow::Result<Child>,
        mut stopped: tokio::sync::watch::Receiver<bool>,
    ) -> Ended {
        let (key, began) = (text(&task, "key").to_owned(), Instant::now());
        let outcome = match child {
            Err(error) => Outcome::Failed { reason: format!("{error:#}"), refused: false },
            Ok(child) => {
                let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
                let mut ended = std::pin::pin!(ended(child, task.get("input").cloned()));
                let ended_by_us = tokio::select! {
                    outcome = &mut ended => return Ended { token: self.token, key, took: began.elapsed(), outcome },
                    () = self.keep(began) => Outcome::Lost,
                    _ = stopped.wait_for(|stopped| *stopped) => Outcome::Stopped,
                };
                // For the keeper: the time is up.
                if let Some(pid) = pid {
                    let _ = kill_process(pid, Signal::ALARM);
                }
                let _ = ended.await;
                ended_by_us
            }
        };
        Ended { token: self.token, key, took: began.elapsed(), outcome }
    }

    /// Extends the lease until that is refused, or until it has run out.
    async fn keep(&self, began: Instant) {
        let mut good_until = began + self.lease;
        let path = ["api", "queues", &self.queue, "extend"];
        let body = json!({ "tokens": [self.token] });
        loop {
            tokio::time::sleep(self.lease / 3).await;
            let asked = Instant::now();
            match self.client.ask(Method::POST, &path, &[], Some(&body)).await {
                Ok(_) => good_until = asked + self.lease,
                Err(error) => {
                    let refusal = error.downcast_ref::<Refusal>();
                    let refused = refusal.is_some_and(|refusal| refusal.code() == "lease-lost");
                    if refused || Instant::now() >= good_until {
                        return;
                    }
                }
            }
        }
    }
}

/// Feeds the command and reads what it says.
async fn ended(mut child: Child, input: Option<Value>) -> Outcome {
    let input = input.map(|input| input.to_string()).unwrap_or_default();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input is free not to.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let read = async |pipe: Option<&mut (dyn tokio::io::AsyncRead + Unpin + Send)>| {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = (&mut *pipe).take(OUTPUT_MAX_BYTES).read_to_end(&mut bytes).await;
            let _ = tokio::io::copy(pipe, &mut tokio::io::sink()).await;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (mut stdout, mut stderr) = (stdout, stderr);
    let ((), said, complained) = tokio::join!(
        feed,
        read(stdout.as_mut().map(|pipe| pipe as _)),
        read(stderr.as_mut().map(|pipe| pipe as _))
    );
    match child.wait().await {
        Ok(status) if status.success() => {
            let said = said.trim_end();
            Outcome::Done(serde_json::from_str(said).unwrap_or_else(|_| Value::String(said.to_owned())))
        }
        Ok(status) => {
            let last = complained.trim_end().lines().last().unwrap_or_default();
            let code =
                status.code().map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            let reason = if last.is_empty() { code } else { format!("{last} ({code})") };
            Outcome::Failed { reason, refused: status.code() == Some(REFUSED) }
        }
        Err(error) => Outcome::Failed { reason: error.to_string(), refused: false },
    }
}
