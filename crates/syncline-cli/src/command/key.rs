//! `syncline key`: makes, lists and removes keys for boxes, dashboards and servers. A key is made for `syncline.toml` without
//! asking a node, or on a running node, which shares it with all nodes of its database.

use clap::Subcommand;
use serde_json::{Value, json};
use syncline_client::answer::{items, now_ms, span, text};
use syncline_client::output::{self, Tone, WrongUse, toned};
use syncline_client::{Method, Target};
use syncline_core::access::{Grant, InvalidGrant};
use syncline_node::access::{KeySettings, Vocabulary, check_harmless, check_name, new_key};
use syncline_node::config::origin;

const EXAMPLES: &str = "\
Examples:
  syncline key add box-7 --may ingest:box-7:send
                                     a box that may only send as itself
  syncline key add wallboard --may 'state:*:read' --may 'queue:*:read' >> syncline.toml
                                     a dashboard that may only look
  syncline key add menu --may state:menu:read --public --origin https://shop.example
                                     for a page without a back end; everybody sees it
  syncline key add box-7 --may ingest:box-7:send --json
                                     key and table for a program
  syncline key add box-7 --may ingest:box-7:send --stored
                                     on a running node, for all nodes of its database
  syncline key list                  all keys, and when each was last shown
  syncline key remove box-7          refuse it from now on, on all nodes

A grant is system:name:verbs; a name is exact or ends in *. The table for syncline.toml
goes to standard output, the key itself to standard error: it is shown this once, and
the file has its hash. A node that reads its file again (SIGHUP) knows the key. With
--stored the database has the hash, no file is changed, and the key is the output.";

/// Make, list and remove keys for boxes, dashboards and servers.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a key, and the table of syncline.toml that makes it known.
    #[command(after_help = EXAMPLES)]
    Add {
        /// Its name, under which it acts.
        name: String,
        /// What it may do, as in queue:covers:add,read. Can be given several times.
        #[arg(long, value_name = "GRANT", required = true)]
        may: Vec<String>,
        /// Make it publishable: for pages, with harmless verbs alone.
        #[arg(long)]
        public: bool,
        /// An origin whose pages may show it, as in https://shop.example. Can be given several times.
        #[arg(long, value_name = "URL")]
        origin: Vec<String>,
        /// Make it on a running node instead of for a file.
        #[arg(long)]
        stored: bool,
        #[command(flatten)]
        target: Target,
    },
    /// List the keys with their grants and their last use.
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Refuse a key from now on, on all nodes, and end the streams that it opened.
    Remove {
        /// Its name.
        name: String,
        #[command(flatten)]
        target: Target,
    },
}

impl Key {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Add { name, may, public, origin, stored: false, target } => {
                add(&name, &may, public, &origin, target.json)
            }
            Action::Add { name, may, public, origin, stored: true, target } => {
                let new = json!({ "name": name, "may": may, "public": public, "origins": origin });
                store(&target, &new).await
            }
            Action::List { target } => list(&target).await,
            Action::Remove { name, target } => remove(&target, &name).await,
        }
    }
}

async fn store(target: &Target, new: &Value) -> anyhow::Result<()> {
    let made = target.client()?.ask(Method::POST, &["api", "keys"], &[], Some(new)).await?;
    if target.json {
        return output::line(made);
    }
    output::remark("the key, shown this once:")?;
    output::line(text(&made, "key"))
}

async fn list(target: &Target) -> anyhow::Result<()> {
    let answer = target.client()?.get(&["api", "keys"], &[]).await?;
    if target.json {
        return output::line(answer);
    }
    let keys = items(&answer, "keys");
    if keys.is_empty() {
        return output::line(toned(Tone::Quiet, "no keys"));
    }
    for key in keys {
        let used = match key["lastUsedAt"].as_u64() {
            None => "never used".to_owned(),
            Some(at) => {
                let from =
                    key["lastUsedFrom"].as_str().map(|from| format!(" from {from}")).unwrap_or_default();
                format!("last used {} ago{from}", span(now_ms().saturating_sub(at)))
            }
        };
        let about = format!("{}, of the {}, {used}", text(key, "kind"), text(key, "source"));
        output::line(format_args!("{}  {}", text(key, "name"), toned(Tone::Quiet, about)))?;
        for grant in items(key, "grants").iter().filter_map(Value::as_str) {
            output::line(format_args!("  {grant}"))?;
        }
    }
    Ok(())
}

async fn remove(target: &Target, name: &str) -> anyhow::Result<()> {
    let removed = target.client()?.ask(Method::DELETE, &["api", "keys", name], &[], None::<&()>).await?;
    if target.json {
        return output::line(removed);
    }
    output::line("removed: all nodes refuse it within five seconds")?;
    if removed["inFile"] == true {
        output::remark("syncline.toml still has its table, which nobody needs any more")?;
    }
    Ok(())
}

fn add(name: &str, may: &[String], public: bool, origins: &[String], as_json: bool) -> anyhow::Result<()> {
    let name = check_name(name).map_err(WrongUse)?;
    let parts = crate::parts::all();
    let words = Vocabulary::of(parts.iter().map(|part| &**part));
    let may = may.iter().map(|text| grant(text, public, &words)).collect::<Result<_, WrongUse>>()?;
    let origins =
        origins.iter().map(|text| origin(text).map_err(|what| WrongUse(format!("--origin: {what}"))));
    let origins = origins.collect::<Result<Vec<_>, WrongUse>>()?;
    if public && origins.is_empty() {
        return Err(
            WrongUse("a publishable key needs an --origin, such as https://shop.example".to_owned()).into()
        );
    }
    let (key, hash) = new_key(public);
    let quota = KeySettings::usual_quota(public);
    let settings = KeySettings { name, hash, may, public, origins, quota, sender: None };
    if as_json {
        let table = settings.to_string();
        let hash = settings.hash.to_string();
        return output::line(
            json!({ "name": settings.name, "key": key.expose(), "hash": hash, "toml": table }),
        );
    }
    output::line(settings.to_string().trim_end())?;
    output::remark(format_args!("the key, shown this once: {}", key.expose()))
}

fn grant(text: &str, public: bool, words: &Vocabulary) -> Result<Grant, WrongUse> {
    let wrong = |what: String| WrongUse(format!("--may {text}: {what}"));
    let grant: Grant = text.parse().map_err(|error: InvalidGrant| wrong(error.to_string()))?;
    words.check(grant.system(), grant.verbs()).map_err(wrong)?;
    if public {
        check_harmless(&grant).map_err(wrong)?;
    }
    Ok(grant)
}
