//! `syncline token revoke`: takes tokens back before they end, on all nodes.

use std::io::{self, Read as _};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use syncline_client::answer::text;
use syncline_client::output::{self, WrongUse};
use syncline_client::{Method, Target};

/// More than any token is long.
const INPUT_MAX_BYTES: u64 = 64 * 1024;

/// What to take back.
#[derive(clap::Args)]
pub(super) struct Revoke {
    /// The token itself, which must have an id (jti), or - for standard input.
    #[arg(conflicts_with_all = ["id", "subject"], required_unless_present_any = ["id", "subject"])]
    token: Option<String>,
    /// The id (jti) of one token.
    #[arg(long, value_name = "JTI", conflicts_with = "subject")]
    id: Option<String>,
    /// A subject: everything that was issued for it so far.
    #[arg(long, value_name = "SUB")]
    subject: Option<String>,
    /// The issuer's name in syncline.toml; may be left out where there is one alone.
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Revoke {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut body = Map::new();
        body.extend(self.issuer.map(|issuer| ("issuer".to_owned(), issuer.into())));
        match (self.token, self.id, self.subject) {
            (Some(token), _, _) => body.insert("token".to_owned(), id_of(&token)?.into()),
            (None, Some(id), _) => body.insert("token".to_owned(), id.into()),
            (None, None, subject) => body.insert("subject".to_owned(), subject.into()),
        };
        let revoked =
            self.target.client()?.ask(Method::POST, &["api", "revocations"], &[], Some(&body)).await?;
        if self.target.json {
            return output::line(revoked);
        }
        let what = match text(&revoked, "kind") {
            "subject" => "everything issued so far for the subject",
            _ => "the token with the id",
        };
        let (issuer, value) =
            (text(&revoked, "issuer"), output::foreign(text(&revoked, "value")).into_owned());
        output::line(format_args!("taken back: {what} {value} of {issuer}, on all nodes within five seconds"))
    }
}

/// The id that a token says it has. Whether the token is genuine does not matter here.
fn id_of(token: &str) -> anyhow::Result<String> {
    let mut read = String::new();
    let token = if token == "-" {
        io::stdin()
            .take(INPUT_MAX_BYTES)
            .read_to_string(&mut read)
            .context("cannot read standard input as text")?;
        read.trim()
    } else {
        token
    };
    let wrong = |what: &str| WrongUse(what.to_owned());
    let claims = token.split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
    let claims: Option<Value> = claims.and_then(|claims| serde_json::from_slice(&claims).ok());
    let claims = claims.ok_or_else(|| wrong("this is no signed token: --id and --subject need none"))?;
    let id = claims["jti"].as_str().map(str::to_owned);
    Ok(id.ok_or_else(|| wrong("the token has no id (jti): take back what its --subject was given"))?)
}
