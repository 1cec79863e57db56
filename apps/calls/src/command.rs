//! `syncline demo call`: calls that nobody made, recorded as an application with an outbox would.
//!
//! The files are written and synced first; then the call, the recording's row and their entries are committed in one
//! transaction, so that no entry ever stands for a file that is not there.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use syncline_client::answer::now_ms;
use syncline_client::command::{AppCommand, DEMO};
use syncline_client::{output, stop_signal};
use syncline_core::outbox::Moment;
use syncline_node::config::{Config, Flags};
use syncline_node::part::Part;
use syncline_store::Store;
use uuid::Uuid;

use crate::call_box::{self as calls, CallBox};
use crate::file_kind::{USUAL_FOLDER, VARIABLE};
use crate::invent::{InventedCall, SAMPLE_RATE, invent};

const EXAMPLES: &str = "\
Examples:
  export DATABASE_URL=sqlite:box.db
  syncline demo call                     one call, with a recording to listen to
  syncline demo call --count 100         a hundred of them
  syncline demo call --every 10          one every ten seconds, until Ctrl-C
  syncline outbox list                   what serversync will send of them";

const GROUP_EXAMPLES: &str = "  \
  DATABASE_URL=sqlite:box.db syncline demo call --every 10
                                            a call now and then, for serversync";

/// The commands that calls add to a program. `parts` gives the program's own, all of which it takes to read the configuration
/// that names the database.
#[must_use]
pub fn commands(parts: fn() -> Vec<Box<dyn Part>>) -> Vec<AppCommand> {
    let call = AppCommand::new("call", move |call: Call| call.run(parts()));
    vec![call.in_group(DEMO, GROUP_EXAMPLES)]
}

/// Take calls that nobody made, as an application with an outbox would.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct Call {
    /// How many. [default: 1, or no end with --every]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: Option<u64>,
    /// Seconds from one to the next.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Leave out the recordings.
    #[arg(long)]
    without_recording: bool,
    /// The folder with a folder for each call.
    #[arg(long, env = VARIABLE, default_value = USUAL_FOLDER, value_name = "FOLDER")]
    recordings: PathBuf,
    /// The application's database. [env: DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Call {
    async fn run(self, parts: Vec<Box<dyn Part>>) -> anyhow::Result<()> {
        let flags = Flags { database_url: self.database_url.clone(), ..Flags::default() };
        let config = Config::load(&flags, &|name| std::env::var(name).ok(), parts)?;
        let url = config.database_url.expose();
        let stop = stop_signal()?;
        // The outbox has to be there before anything can be put into it.
        Store::open(url).await.context("cannot open the database")?.close().await;
        let mut calls = CallBox::open(url).await.context("cannot open the database")?;
        let count = self.count.unwrap_or(if self.every.is_some() { u64::MAX } else { 1 });
        let taking = async {
            for number in 0..count {
                if let (Some(every), 1..) = (self.every, number) {
                    tokio::time::sleep(Duration::from_secs(every)).await;
                }
                self.take(&mut calls).await?;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            taken = taking => taken,
            () = stop => Ok(()),
        }
    }

    async fn take(&self, calls: &mut CallBox) -> anyhow::Result<()> {
        let invented = invent(rand::random());
        let began_ms = now_ms().saturating_sub(u64::from(invented.duration_sec) * 1_000);
        let call = calls::Call {
            id: Uuid::new_v4().to_string(),
            recording_id: (!self.without_recording).then(|| Uuid::new_v4().to_string()),
            caller_number: invented.caller.clone(),
            disposition: invented.disposition.to_owned(),
            started_at: Moment::from_us(i64::try_from(began_ms * 1_000).unwrap_or(i64::MAX)).to_string(),
            duration_sec: invented.duration_sec,
        };
        if let Some(recording) = &call.recording_id {
            write(&self.recordings, &call.id, recording, &invented).with_context(|| {
                format!("cannot write the recording of {} to {}", call.id, self.recordings.display())
            })?;
        }
        calls.record(&call).await?;
        if self.json {
            return output::line(json!({
                "callLogId": call.id, "recordingId": call.recording_id, "callerNumber": call.caller_number,
                "disposition": call.disposition, "durationSec": call.duration_sec,
            }));
        }
        let calls::Call { id, caller_number, disposition, duration_sec, .. } = &call;
        output::line(format_args!("{id}  {caller_number}  {disposition}, {duration_sec} s"))
    }
}

/// Returns when the files are on the disk.
fn write(root: &Path, call: &str, recording: &str, invented: &InventedCall) -> std::io::Result<()> {
    let folder = root.join(call);
    fs::create_dir_all(&folder)?;
    let meta = json!({
        "callLogId": call, "recordingId": recording, "durationSec": invented.duration_sec, "channels": 1,
        "sampleRate": SAMPLE_RATE,
    });
    let files = [("mixed.wav", invented.wav.as_slice()), ("meta.json", meta.to_string().as_bytes())]
        .map(|(name, bytes)| (folder.join(name), bytes.to_vec()));
    for (path, bytes) in files {
        let mut file = File::create(path)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
    }
    File::open(&folder)?.sync_all()?;
    File::open(root)?.sync_all()
}
