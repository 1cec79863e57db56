//! A guest book: a part of one's own, with a section of the configuration, two routes, a topic and a command.
//!
//! Entries are keys of the store, so that every node of one database shows them.

mod command;

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use syncline_core::kv::Key;
use syncline_node::Context;
use syncline_node::config::Settings;
use syncline_node::http::Error;
use syncline_node::http::body::Json;
use syncline_node::part::{BuildError, Name, Part, Routes, Rules, Service, Setup, Topic};
use syncline_store::kv::Kv;
use syncline_store::{Migrations, parts};
use utoipa::ToSchema;
use utoipa_axum::routes;

pub use command::commands;

const PREFIX: &str = "guestbook:";

/// The part, as configured.
#[derive(Default)]
pub struct Guestbook {
    entries_max: usize,
}

#[async_trait]
impl Part for Guestbook {
    fn name(&self) -> &'static str {
        "guestbook"
    }

    fn about(&self) -> &'static str {
        "Who was here"
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        let section = settings.section("guestbook");
        self.entries_max = section.integer("entries_max", 1..=1_000).unwrap_or(100) as usize;
        section.finish();
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::KV]
    }

    fn routes(&self) -> Routes {
        // There is one book, so a grant is for all of it: `guestbook:*:read`, `guestbook:*:sign`.
        let reading = Rules::new().needs("guestbook", "read", Name::All);
        let signing = Rules::new().needs("guestbook", "sign", Name::All).body_max_bytes(4_096);
        Routes::new().with_rules(reading, routes!(list)).with_rules(signing, routes!(sign))
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        setup.offer(Book { kv: Arc::clone(setup.kv), entries_max: self.entries_max });
        setup.topic(Topic::new("guestbook").readable_by("guestbook", "read"));
        Ok(())
    }
}

/// The service behind the routes.
#[derive(Clone)]
struct Book {
    kv: Arc<dyn Kv>,
    entries_max: usize,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Entry {
    name: String,
}

#[derive(Serialize, ToSchema)]
struct Entries {
    entries: Vec<Entry>,
}

/// Lists who was here.
#[utoipa::path(get, path = "/api/guestbook", tag = "guestbook", responses((status = 200, body = Entries)))]
async fn list(Service(book): Service<Book>) -> Result<axum::Json<Entries>, Error> {
    let kept = book.kv.list(PREFIX, book.entries_max).await?;
    Ok(axum::Json(Entries { entries: kept.into_iter().map(|entry| Entry { name: entry.value }).collect() }))
}

/// Signs the book; the same name counts once.
#[utoipa::path(post, path = "/api/guestbook/entries", tag = "guestbook", request_body = Entry,
    responses((status = 200, body = Entry), (status = 400)))]
async fn sign(
    State(node): State<Arc<Context>>,
    Service(book): Service<Book>,
    Json(entry): Json<Entry>,
) -> Result<axum::Json<Entry>, Error> {
    let key = Key::new(format!("{PREFIX}{}", entry.name))?;
    book.kv.put(&key, &entry.name, None).await?;
    node.events.publish("guestbook.signed", &entry);
    Ok(axum::Json(entry))
}
