//! `syncline token mint`: makes a token as an issuer of the configuration would.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Map, Value, json};
use syncline_client::output::{self, WrongUse};
use syncline_core::access::{Grant, InvalidGrant};
use syncline_node::access::{
    Algorithm, CredentialSettings, Credentials, IssuerSettings, KeySource, Refusal, Signer, mint,
};
use syncline_node::clock;

/// Claims that have flags of their own, or that only the issuer's settings decide.
const OWN_CLAIMS: [&str; 8] = ["iss", "aud", "exp", "iat", "nbf", "jti", "sub", "may"];

/// What to put into it.
#[derive(clap::Args)]
pub(super) struct Mint {
    /// The issuer, by its name in the configuration. Not needed where there is one.
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// For whom it is: the claim `sub`.
    #[arg(long, value_name = "SUBJECT")]
    sub: Option<String>,
    /// A grant that it asks for, instead of all that its issuer allows. Can be given several times.
    #[arg(long, value_name = "GRANT")]
    may: Vec<String>,
    /// How long it counts, as in 90s, 15m, 1h or 2d.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    lifetime: Duration,
    /// Another claim, with a text. Can be given several times.
    #[arg(long, value_name = "NAME=TEXT", value_parser = claim)]
    claim: Vec<(String, String)>,
    /// The issuer's private key (PEM, PKCS #8), where it signs with one.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The id of that key.
    #[arg(long, value_name = "ID", requires = "key_file")]
    kid: Option<String>,
    /// The configuration file. [env: SYNCLINE_CONFIG] [default: syncline.toml here, or where systemd says]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Mint {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = super::load(self.config.clone())?;
        let issuer = self.issuer(&config.credentials)?;
        let claims = self.claims(issuer)?;
        let (signer, kid) = self.signer(issuer)?;
        let token =
            mint(issuer.algorithm, &signer, kid.as_deref(), &claims).context("this key cannot sign")?;
        // A published key would have to be fetched first.
        if matches!(issuer.keys, KeySource::Listed(_)) {
            match Credentials::new(&config.credentials).principal(token.as_bytes(), clock::wall()) {
                Ok(principal) if principal.grants().is_empty() => {
                    output::warn("it may do nothing: `syncline token check` shows what fills which grant");
                }
                Ok(_) => {}
                Err(Refusal::Invalid(why)) => output::warn(format_args!("a node would refuse it: {why}")),
                Err(refusal) => output::warn(format_args!("a node would refuse it: {}", refusal.code())),
            }
        }
        if self.json {
            output::line(json!({ "token": token, "claims": claims }))
        } else {
            output::line(token)
        }
    }

    fn issuer<'c>(&self, credentials: &'c CredentialSettings) -> Result<&'c IssuerSettings, WrongUse> {
        let issuers = credentials.issuers.as_slice();
        let names = || issuers.iter().map(|issuer| issuer.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&self.issuer, issuers) {
            (_, []) => Err(WrongUse(
                "the configuration has no [[issuers]]: docs/access.md shows one; --config names another file"
                    .to_owned(),
            )),
            (None, [only]) => Ok(only),
            (None, _) => Err(WrongUse(format!("which issuer? --issuer, one of {}", names()))),
            (Some(name), _) => {
                let found = issuers.iter().find(|issuer| issuer.name == *name);
                found.ok_or_else(|| WrongUse(format!("there is no issuer {name:?}, only {}", names())))
            }
        }
    }

    fn claims(&self, issuer: &IssuerSettings) -> Result<Map<String, Value>, WrongUse> {
        if self.lifetime > issuer.max_age {
            let most = issuer.max_age.as_secs();
            return Err(WrongUse(format!(
                "--for: tokens of {} count for {most}s at most (max_age_sec)",
                issuer.name
            )));
        }
        let now = clock::wall().as_ms() / 1_000;
        let mut claims = Map::from_iter([
            ("iss".to_owned(), json!(issuer.issuer)),
            ("aud".to_owned(), json!(issuer.audience)),
            ("iat".to_owned(), json!(now)),
            ("exp".to_owned(), json!(now + self.lifetime.as_secs())),
            // By its id this one token can be taken back.
            ("jti".to_owned(), json!(format!("{:032x}", rand::random::<u128>()))),
        ]);
        if let Some(sub) = &self.sub {
            claims.insert("sub".to_owned(), json!(sub));
        }
        for text in &self.may {
            let wrong = |error: InvalidGrant| WrongUse(format!("--may {text}: {error}"));
            text.parse::<Grant>().map_err(wrong)?;
        }
        if !self.may.is_empty() {
            claims.insert("may".to_owned(), json!(self.may));
        }
        for (name, value) in &self.claim {
            if OWN_CLAIMS.contains(&name.as_str()) {
                return Err(WrongUse(format!("--claim: {name} is not set this way; see --help")));
            }
            claims.insert(name.clone(), json!(value));
        }
        Ok(claims)
    }

    fn signer(&self, issuer: &IssuerSettings) -> anyhow::Result<(Signer, Option<String>)> {
        if let Some(path) = &self.key_file {
            let pem = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            if issuer.algorithm == Algorithm::Hs256 {
                let what =
                    format!("{} signs with the secret in its settings and has no private key", issuer.name);
                return Err(WrongUse(what).into());
            }
            let signer = Signer::private(issuer.algorithm, &pem);
            let signer = signer.map_err(|what| WrongUse(format!("--key-file {}: {what}", path.display())))?;
            return Ok((signer, self.kid.clone()));
        }
        if issuer.algorithm != Algorithm::Hs256 {
            let what = format!(
                "{} signs with {}, and the configuration has its public keys alone: name the private one by --key-file",
                issuer.name,
                issuer.algorithm.as_str()
            );
            return Err(WrongUse(what).into());
        }
        let signer = issuer.signer(clock::wall());
        let (signer, kid) =
            signer.with_context(|| format!("every key of {} has ended (until)", issuer.name))?;
        Ok((signer, kid.map(str::to_owned)))
    }
}

fn claim(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=TEXT, as in tenant=north")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time, as in 90s, 15m, 1h or 2d".to_owned();
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 24 * 3_600,
        _ => return Err(expected()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| expected())?;
    if count == 0 {
        return Err(expected());
    }
    Ok(Duration::from_secs(u64::from(count) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_has_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3_600), ("2d", 172_800)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "h", "1", "0s", "-1h", "1.5h", "1w", "1日"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
