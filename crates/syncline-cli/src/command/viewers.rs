//! `syncline viewers`: who is watching, once or live.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use syncline_client::answer::{items, text};
use syncline_client::output::{self, Tone, toned};
use syncline_client::{Client, Target};

/// How long to wait before a broken stream is opened again.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  syncline viewers                   how many are watching now, by node
  syncline viewers --watch           the same, live, until Ctrl-C
  syncline viewers rooms             rooms with somebody in them
  syncline viewers room doc-7        who is in a room
  syncline viewers --json | jq .viewers
  syncline viewers --watch --json    one JSON object per change, for programs";

/// Show who is watching.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Viewers {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    target: Target,
    /// Go on showing changes until Ctrl-C.
    #[arg(long)]
    watch: bool,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List rooms with somebody in them, on all nodes.
    Rooms {
        /// What their names begin with; all rooms if absent.
        #[arg(default_value = "")]
        prefix: String,
        /// At most this many, 1,000 at most.
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Only rooms behind this one.
        #[arg(long, value_name = "ROOM")]
        after: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Show who is in a room.
    Room {
        /// The room.
        room: String,
        #[command(flatten)]
        target: Target,
    },
}

impl Viewers {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Some(Action::Rooms { prefix, limit, after, target }) => {
                return rooms(&target, &prefix, limit, after.as_deref()).await;
            }
            Some(Action::Room { room, target }) => return people(&target, &room).await,
            None => {}
        }
        let client = self.target.client()?;
        if self.watch {
            return self.watch(&client).await;
        }
        let viewers = client.get(&["api", "viewer"], &[]).await?;
        if self.target.json { output::line(viewers) } else { show(&viewers) }
    }

    async fn watch(&self, client: &Client) -> anyhow::Result<()> {
        let mut connected_before = false;
        loop {
            let trouble = match self.follow(client).await {
                // A node that was never reached is an error; one that went away may come back.
                Err(error) if !connected_before => return Err(error),
                Err(error) => format!("lost the node ({error:#}); waiting"),
                Ok(()) => "the node ended the stream; waiting".to_owned(),
            };
            self.say(&toned(Tone::Doubtful, trouble))?;
            connected_before = true;
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    async fn follow(&self, client: &Client) -> anyhow::Result<()> {
        let mut events = client.events("viewer").await?.boxed();
        while let Some((name, data)) = events.try_next().await? {
            if name != "viewer" {
                continue;
            }
            if self.target.json {
                output::line(data)?;
            } else {
                self.say(&summary(&serde_json::from_str(&data)?))?;
            }
        }
        Ok(())
    }

    /// On a terminal one line that changes, elsewhere one line each time.
    fn say(&self, text: &str) -> anyhow::Result<()> {
        match (self.target.json, output::is_terminal()) {
            (true, _) => Ok(()),
            (false, true) => output::replace_line(text),
            (false, false) => output::line(text),
        }
    }
}

async fn rooms(target: &Target, prefix: &str, limit: u32, after: Option<&str>) -> anyhow::Result<()> {
    let limit = limit.to_string();
    let mut query = vec![("prefix", prefix), ("limit", limit.as_str())];
    query.extend(after.map(|after| ("after", after)));
    let listing = target.client()?.get(&["api", "viewer", "rooms"], &query).await?;
    if target.json {
        return output::line(listing);
    }
    let rooms = items(&listing, "rooms");
    if rooms.is_empty() {
        return output::line(toned(Tone::Quiet, "nobody is in any room"));
    }
    let head = format_args!("{:<40} {:>7} {:>9} {:>9}", "room", "people", "sessions", "in sight");
    output::line(toned(Tone::Quiet, head))?;
    for room in rooms {
        output::line(format_args!(
            "{:<40} {:>7} {:>9} {:>9}",
            output::foreign(text(room, "room")),
            number(room, "people"),
            number(room, "sessions"),
            number(room, "visible")
        ))?;
    }
    match listing["next"].as_str() {
        Some(next) => output::remark(format_args!("there are more: go on with --after {next:?}")),
        None => Ok(()),
    }
}

async fn people(target: &Target, room: &str) -> anyhow::Result<()> {
    let client = target.client()?;
    let counts = client.get(&["api", "viewer", "rooms", room], &[]).await?;
    let people = client.get(&["api", "viewer", "rooms", room, "people"], &[("limit", "1000")]).await?;
    if target.json {
        let mut both = counts;
        both["named"] = people["people"].clone();
        return output::line(both);
    }
    let (count, sessions) = (number(&counts, "people"), number(&counts, "sessions"));
    output::line(format_args!(
        "{count} people, {sessions} sessions, {} in sight",
        number(&counts, "visible")
    ))?;
    for person in items(&people, "people") {
        let sessions = number(person, "sessions");
        let verified = if person["verified"] == true { "verified" } else { "" };
        let line = format!("{:<40} {sessions:>9} {verified}", output::foreign(text(person, "user")));
        output::line(line.trim_end())?;
    }
    Ok(())
}

fn show(viewers: &Value) -> anyhow::Result<()> {
    output::line(summary(viewers))?;
    let nodes = viewers["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    if nodes.is_empty() {
        return Ok(());
    }
    output::line(toned(Tone::Quiet, format_args!("{:<40} {:>9} {:>9}", "node", "viewers", "in sight")))?;
    for node in nodes {
        let name = node["node"].as_str().unwrap_or("?");
        output::line(format_args!(
            "{name:<40} {:>9} {:>9}",
            number(node, "viewers"),
            number(node, "visible")
        ))?;
    }
    Ok(())
}

fn summary(viewers: &Value) -> String {
    let (count, visible) = (number(viewers, "viewers"), number(viewers, "visible"));
    match count {
        0 => toned(Tone::Quiet, "nobody is watching"),
        1 => toned(
            Tone::Good,
            format_args!("1 viewer, {}", if visible == 1 { "page in sight" } else { "page hidden" }),
        ),
        _ => toned(Tone::Good, format_args!("{count} viewers, {visible} with the page in sight")),
    }
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}
