//! `syncline key`: makes keys for boxes, dashboards and servers. It changes no file and asks no node.

use clap::Subcommand;
use serde_json::json;
use syncline_client::output::{self, WrongUse};
use syncline_core::access::{Grant, InvalidGrant};
use syncline_node::access::{KeySettings, check_harmless, check_name, new_key};
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

A grant is system:name:verbs; a name is exact or ends in *. The table for syncline.toml
goes to standard output, the key itself to standard error: it is shown this once, and
the file has its hash. A node that is started again knows the key; to take it back,
remove its table.";

/// Make keys for boxes, dashboards and servers.
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
        /// Print JSON, for programs.
        #[arg(long)]
        json: bool,
    },
}

impl Key {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Action::Add { name, may, public, origin, json } = self.action;
        add(&name, &may, public, &origin, json)
    }
}

fn add(name: &str, may: &[String], public: bool, origins: &[String], as_json: bool) -> anyhow::Result<()> {
    let name = check_name(name).map_err(WrongUse)?;
    let may = may.iter().map(|text| grant(text, public)).collect::<Result<_, WrongUse>>()?;
    let origins =
        origins.iter().map(|text| origin(text).map_err(|what| WrongUse(format!("--origin: {what}"))));
    let origins = origins.collect::<Result<Vec<_>, WrongUse>>()?;
    if public && origins.is_empty() {
        return Err(
            WrongUse("a publishable key needs an --origin, such as https://shop.example".to_owned()).into()
        );
    }
    let (key, hash) = new_key(public);
    let settings = KeySettings { name, hash, may, public, origins };
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

fn grant(text: &str, public: bool) -> Result<Grant, WrongUse> {
    let wrong = |what: String| WrongUse(format!("--may {text}: {what}"));
    let grant: Grant = text.parse().map_err(|error: InvalidGrant| wrong(error.to_string()))?;
    if public {
        check_harmless(&grant).map_err(wrong)?;
    }
    Ok(grant)
}
