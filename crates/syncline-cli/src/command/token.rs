//! `syncline token`: makes and checks tokens of people, by the issuers of the configuration, without asking a node; and takes
//! tokens back, on a node.

mod check;
mod mint;
mod revoke;

use std::path::PathBuf;

use clap::Subcommand;
use syncline_node::config::{self, Config, Flags};

const EXAMPLES: &str = "\
Examples:
  syncline token mint --sub 7                  a token for the subject 7, for an hour
  syncline token mint --issuer shop --sub 7 --for 15m --may state:cart-7:read
                                               one that may less than its issuer allows
  syncline token mint --sub 7 --claim tenant=north
                                               with a claim that grants are filled from
  syncline token mint --issuer id --sub 7 --key-file id.private.pem --kid 2026-10
                                               for an issuer with ES256, RS256 or EdDSA
  syncline token check \"$TOKEN\"                who shows it, and what they may do
  syncline token check \"$TOKEN\" --need state:cart-7:write
                                               may it? if not, which grant is missing
  syncline token check - < token.txt           a token that no process list shows
  syncline token revoke --subject 7            take back everything issued for 7 so far
  syncline token revoke - < token.txt          take back one token, by its id

Issuers stand in syncline.toml as [[issuers]]; people get their tokens from your back
end, and this is to try and to look. Exit code 1: the token is not accepted, or lacks
what it needs.";

/// Make, check and take back tokens of people.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a token as an issuer of the configuration would.
    #[command(after_help = EXAMPLES)]
    Mint(mint::Mint),
    /// Say whether a node would accept a token or key, and what it may do.
    #[command(after_help = EXAMPLES)]
    Check(check::Check),
    /// Take tokens back before they end: one by its id, or all that a subject was given so far.
    #[command(after_help = EXAMPLES)]
    Revoke(revoke::Revoke),
}

impl Token {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Mint(mint) => mint.run(),
            Action::Check(check) => check.run().await,
            Action::Revoke(revoke) => revoke.run().await,
        }
    }
}

/// The configuration that a node here would have.
fn load(file: Option<PathBuf>) -> Result<Config, config::Error> {
    let flags = Flags { config: file, ..Flags::default() };
    Config::load(&flags, &|name| std::env::var(name).ok(), crate::parts::all())
}
