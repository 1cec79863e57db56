//! The gallery as a part of a node: a job that paints, and the pictures it has painted.

use std::sync::Arc;

use async_trait::async_trait;
use rust_embed::RustEmbed;
use syncline_store::{Error, Migrations, Step, parts};

use super::{FILES, Gallery, LAST_SNAPSHOT, NOTES, Scene, http};
use syncline_node::config::Settings;
use syncline_node::kv::{Keys, ReservedKeys, Stored};
use syncline_node::part::{BuildError, Page, Part, Routes, Setup};
use syncline_node::schedule::{Firing, JobKind, JobKinds, JobWork};

/// Where the pictures are: a space of keys that is the gallery's alone.
const SPACE: &str = "gallery";

/// Pictures that were in the users' space move to the gallery's.
static GALLERY: Migrations = Migrations {
    needs: &[&parts::KV],
    ..Migrations::new(
        "gallery",
        &[Step {
            version: 1,
            name: "a space of its own",
            sqlite: include_str!("../migrations/1_space.sqlite.sql"),
            postgres: include_str!("../migrations/1_space.postgres.sql"),
        }],
    )
};

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
        vec![&parts::KV, &GALLERY]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let gallery = Gallery::new(setup.store.kv_space(SPACE)?);
        setup.need::<JobKinds>()?.add(KIND, Arc::new(Painting(gallery.clone())));
        if let Some(keys) = setup.find::<ReservedKeys>() {
            keys.hide(NOTES, "they were the gallery's: /api/pictures lists them");
            keys.hide(FILES, "they were the gallery's: /api/pictures lists them");
            keys.show(LAST_SNAPSHOT, "the gallery's job writes it", Arc::new(LastKey(gallery.clone())));
        }
        setup.offer(gallery);
        setup.page("gallery", Page::new::<Pages>("/gallery", "gallery.html").in_menu("Gallery"));
        Ok(())
    }
}

/// The last snapshot as a key that other programs read.
struct LastKey(Gallery);

#[async_trait]
impl Keys for LastKey {
    async fn list(&self, prefix: &str, after: Option<&str>, _: usize) -> Result<(Vec<Stored>, bool), Error> {
        let is_asked = LAST_SNAPSHOT.starts_with(prefix) && after.is_none_or(|after| after < LAST_SNAPSHOT);
        let last = if is_asked { self.get(LAST_SNAPSHOT).await? } else { None };
        Ok((last.into_iter().collect(), false))
    }

    async fn get(&self, key: &str) -> Result<Option<Stored>, Error> {
        if key != LAST_SNAPSHOT {
            return Ok(None);
        }
        let last = self.0.last_snapshot().await?;
        Ok(last.map(|entry| Stored::new(entry.key.into(), entry.value, entry.ttl_left)))
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
