//! The gallery as a part of a node: a job that paints, and the pictures it has painted.

use std::sync::Arc;

use async_trait::async_trait;
use rust_embed::RustEmbed;
use syncline_store::{Migrations, parts};

use super::{FILES, Gallery, LAST_SNAPSHOT, NOTES, Scene, http};
use syncline_node::config::Settings;
use syncline_node::kv::ReservedKeys;
use syncline_node::part::{BuildError, Page, Part, Routes, Setup};
use syncline_node::schedule::{Firing, JobKind, JobKinds, JobWork};

/// The word for the job in the configuration.
const KIND: &str = "picture";

/// A picture of the moment, painted while somebody watches.
#[derive(Debug, Default)]
pub struct GalleryPart;

/// Its page, and what the page needs beside the console's files.
#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/pages"]
struct Pages;

#[async_trait]
impl Part for GalleryPart {
    fn name(&self) -> &'static str {
        "gallery"
    }

    fn about(&self) -> &'static str {
        "A picture of the moment, painted while somebody watches"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["viewer"]
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        settings.tell(JobKind { word: KIND, by_default: true });
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::KV]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let gallery = Gallery::new(Arc::clone(setup.kv));
        setup.need::<JobKinds>()?.add(KIND, Arc::new(Painting(gallery.clone())));
        if let Some(keys) = setup.find::<ReservedKeys>() {
            keys.reserve(NOTES, "they are the gallery's");
            keys.reserve(FILES, "they are the gallery's");
            keys.reserve(LAST_SNAPSHOT, "the gallery's job writes it");
        }
        setup.offer(gallery);
        setup.page("gallery", Page::new::<Pages>("/gallery", "gallery.html").in_menu("Gallery"));
        Ok(())
    }
}

/// Paints a picture for each firing.
struct Painting(Gallery);

#[async_trait]
impl JobWork for Painting {
    async fn run(&self, firing: &Firing) -> Result<String, String> {
        let scene = Scene::of(firing.bucket, firing.viewers);
        let painted = self.0.add(scene, firing.bucket).await;
        painted.map(|picture| picture.object_key).map_err(|error| format!("cannot keep the picture: {error}"))
    }

    fn input_hash(&self, firing: &Firing) -> Option<String> {
        Some(Scene::of(firing.bucket, firing.viewers).hash())
    }
}
