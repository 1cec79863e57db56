//! `syncline token check`: whether a node would accept a token or key, what it may do, and which grant is missing.

use std::io::{self, Read as _};
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use syncline_client::output::{self, Shown, Tone, WrongUse, toned};
use syncline_core::access::{Grant, InvalidGrant, Need};
use syncline_core::outbox::Moment;
use syncline_core::time::Timestamp;
use syncline_node::access::{Credentials, Principal, PrincipalKind, Refusal};
use syncline_node::clock;

/// More than any token is long.
const INPUT_MAX_BYTES: u64 = 64 * 1024;

/// What to look at.
#[derive(clap::Args)]
pub(super) struct Check {
    /// The token or key, or - for standard input.
    token: String,
    /// What it is to be allowed, as in state:cart-7:read. Can be given several times.
    #[arg(long, value_name = "SYSTEM:NAME:VERB")]
    need: Vec<String>,
    /// The configuration file. [env: SYNCLINE_CONFIG] [default: syncline.toml here, or where systemd says]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let needs = self.need.iter().map(|text| need(text)).collect::<Result<Vec<_>, _>>()?;
        let config = super::load(self.config.clone())?;
        let credentials = Credentials::new(&config.credentials);
        if credentials.is_empty() {
            let what = "the configuration has neither [[keys]] nor [[issuers]]: --config names another file";
            return Err(WrongUse(what.to_owned()).into());
        }
        let presented = if self.token == "-" {
            let mut read = String::new();
            let mut input = io::stdin().take(INPUT_MAX_BYTES);
            input.read_to_string(&mut read).context("cannot read standard input as text")?;
            read
        } else {
            self.token.clone()
        };
        credentials.fetch_keys().await.into_iter().for_each(output::warn);
        match credentials.principal(presented.trim().as_bytes(), clock::wall()) {
            Ok(principal) => self.show(&principal, &needs),
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&self, refusal: Refusal) -> anyhow::Result<()> {
        let why = match refusal {
            Refusal::Unknown => "it is neither a key of this configuration nor a signed token",
            Refusal::Expired => "it has expired",
            Refusal::Invalid(why) => why,
            Refusal::Revoked => "it was taken back",
        };
        if self.json {
            output::line(json!({ "accepted": false, "code": refusal.code(), "why": why }))?;
        } else {
            output::line(format_args!("{}: {why} ({})", toned(Tone::Bad, "not accepted"), refusal.code()))?;
        }
        Err(Shown.into())
    }

    fn show(&self, principal: &Principal, needs: &[(String, String, String)]) -> anyhow::Result<()> {
        let asked: Vec<(Need<'_>, bool)> = needs
            .iter()
            .map(|(system, name, verb)| Need { system, verb, name: Some(name) })
            .map(|need| (need, principal.may(need)))
            .collect();
        let grants: Vec<String> = principal.grants().iter().map(Grant::to_string).collect();
        let ends = principal.ends_at().map(moment);
        let is_key = principal.kind() == PrincipalKind::Key;
        if self.json {
            let needs: Vec<Value> = asked
                .iter()
                .map(|(need, allowed)| json!({ "need": need.to_string(), "allowed": allowed }))
                .collect();
            output::line(json!({
                "accepted": true, "kind": if is_key { "key" } else { "token" }, "name": principal.name(),
                "subject": principal.subject(), "ends_at": ends, "grants": grants, "needs": needs,
            }))?;
        } else {
            let subject = output::foreign(principal.subject().unwrap_or_default()).into_owned();
            let who = if is_key {
                format!("the key {}", principal.name())
            } else {
                format!("a token of {} for {subject}", principal.name())
            };
            let until = ends.map_or(String::new(), |ends| format!(", until {ends}"));
            output::line(format_args!("{}: {who}{until}", toned(Tone::Good, "accepted")))?;
            for grant in &grants {
                output::line(format_args!("  may {}", output::foreign(grant)))?;
            }
            if grants.is_empty() {
                output::line("  may nothing")?;
            }
            for (need, allowed) in &asked {
                let (tone, word) = if *allowed { (Tone::Good, "yes") } else { (Tone::Bad, "no") };
                let missing = if *allowed { "" } else { ", this grant is missing" };
                output::line(format_args!("{need}: {}{missing}", toned(tone, word)))?;
            }
        }
        if asked.iter().all(|(_, allowed)| *allowed) { Ok(()) } else { Err(Shown.into()) }
    }
}

/// System, name and verb of what is needed: one thing, and one thing done to it.
fn need(text: &str) -> Result<(String, String, String), WrongUse> {
    let wrong = |what: String| WrongUse(format!("--need {text}: {what}"));
    let grant: Grant = text.parse().map_err(|error: InvalidGrant| wrong(error.to_string()))?;
    let parts = text.split_once(':').and_then(|(system, rest)| Some((system, rest.rsplit_once(':')?)));
    match parts {
        Some((system, (name, verb))) if !name.ends_with('*') && grant.verbs().count() == 1 => {
            Ok((system.to_owned(), name.to_owned(), verb.to_owned()))
        }
        _ => Err(wrong("a request needs one verb on one name, as in state:cart-7:read".to_owned())),
    }
}

fn moment(at: Timestamp) -> String {
    Moment::from_us(i64::try_from(at.as_ms().saturating_mul(1_000)).unwrap_or(i64::MAX)).to_string()
}
