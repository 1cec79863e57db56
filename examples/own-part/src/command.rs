//! `sign`: a command of one's own, which asks a running node.

use serde_json::json;
use syncline_client::command::AppCommand;
use syncline_client::{Method, Target, output};

/// The commands of the guest book, for any program that takes them up.
pub fn commands() -> Vec<AppCommand> {
    vec![AppCommand::new("sign", Sign::run)]
}

/// Sign the guest book of a running node.
#[derive(clap::Args)]
struct Sign {
    /// Who was here.
    name: String,
    #[command(flatten)]
    target: Target,
}

impl Sign {
    async fn run(self) -> anyhow::Result<()> {
        let body = json!({ "name": self.name });
        let path = ["api", "guestbook", "entries"];
        let entry = self.target.client()?.ask(Method::POST, &path, &[], Some(&body)).await?;
        if self.target.json {
            output::line(entry)
        } else {
            output::line(format_args!("{} was here", self.name))
        }
    }
}
