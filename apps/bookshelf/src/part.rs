//! The bookshelf as a part of a node.

use std::fmt;

use async_trait::async_trait;
use rust_embed::RustEmbed;
use syncline_store::Migrations;

use super::shelf_store::{MIGRATIONS, ShelfStore};
use super::{Shelf, ShelfSettings, config, http, presets};
use syncline_node::config::Settings;
use syncline_node::part::{BuildError, Page, Part, Routes, Setup, Topic};
use syncline_node::queue::{PartQueue, Queues};

/// From a scanned ISBN to a book with its cover.
#[derive(Debug, Default)]
pub struct BookshelfPart {
    settings: ShelfSettings,
}

/// Its page, and what the page needs beside the console's files.
#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/pages"]
struct Pages;

#[async_trait]
impl Part for BookshelfPart {
    fn name(&self) -> &'static str {
        "bookshelf"
    }

    fn about(&self) -> &'static str {
        "Scanned books with their covers, and saved searches"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["queue"]
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        self.settings = config::read(settings);
        for preset in presets::ALL {
            settings.tell(PartQueue { name: preset.name, settings: preset.settings() });
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        config::print(f, &self.settings)
    }

    fn secrets(&self) -> Vec<String> {
        self.settings.rakuten_application_id.iter().map(|id| id.expose().to_owned()).collect()
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&MIGRATIONS]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let queues = setup.need::<Queues>()?;
        let shelf = Shelf::new(&self.settings, ShelfStore::new(setup.store), queues, setup.events.clone());
        shelf.declare(&self.settings);
        let started = shelf.clone();
        setup.on_start(move |halt, tracker| started.start(halt, tracker));
        setup.offer(shelf);
        setup.topic(Topic::new("shelf").readable_by("shelf", "read"));
        let page = Page::new::<Pages>("/shelf", "shelf.html").in_menu("Bookshelf");
        setup.page("bookshelf", page.with_images_from(self.settings.cover_origins()));
        Ok(())
    }
}
