//! The calls of a telephone exchange as a part of a node: its kinds of entities, and recordings received, kept and played.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use rust_embed::RustEmbed;
use syncline_core::outbox::EntityType;
use syncline_store::Migrations;

use crate::recording::table::{MIGRATIONS, RecordingTable};
use crate::recording::{RecordingSettings, Recordings, config, http};
use syncline_node::config::Settings;
use syncline_node::inbox::{EntityKind, FileType};
use syncline_node::part::{BuildError, Page, Part, Routes, Setup, Topic};

/// The kinds of entities of an exchange, and whether each may be edited here. What has happened is not edited.
const ENTITY_TYPES: [(&str, bool); 7] = [
    ("call_log", false),
    ("recording", false),
    ("registered_number", true),
    ("routing_rule", true),
    ("ivr_flow", true),
    ("schedule", true),
    ("announcement", true),
];

/// The entity type that stands for the sound of a call.
const RECORDING_FILE: FileType = FileType { name: "recording_file", path: "/api/ingest/recording-file" };

/// Calls and their recordings.
#[derive(Debug, Default)]
pub struct CallsPart {
    settings: RecordingSettings,
}

/// Its page, and what the page needs beside the console's files.
#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/pages"]
struct Pages;

#[async_trait]
impl Part for CallsPart {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn about(&self) -> &'static str {
        "Calls of a telephone exchange and their recordings"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["outbox"]
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        self.settings = config::read(settings);
        for (name, editable) in ENTITY_TYPES {
            let entity_type = EntityType::new(name).expect("the names are constants");
            settings.tell(EntityKind { entity_type, editable });
        }
        settings.tell(RECORDING_FILE);
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        config::print(f, &self.settings)
    }

    fn secrets(&self) -> Vec<String> {
        let keys = self.settings.s3.iter().flat_map(|s3| [&s3.access_key_id, &s3.secret_access_key]);
        keys.map(|key| key.expose().to_owned()).collect()
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&MIGRATIONS]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let recordings = Recordings::new(&self.settings, RecordingTable::new(setup.store), setup.registry);
        recordings.prepare().await.map_err(|cause| {
            let folder = self.settings.dir.display();
            BuildError::Other(format!("cannot use the recordings folder {folder}: {cause}"))
        })?;
        setup.offer(Arc::new(recordings));
        setup.topic(Topic::new("recording").readable_by("recording", "read"));
        setup.page("calls", Page::new::<Pages>("/calls", "calls.html").in_menu("Calls"));
        Ok(())
    }
}
