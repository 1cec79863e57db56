//! `[shelf]`: whether there is a bookshelf, and where the book APIs are.

use std::collections::BTreeSet;

use syncline_books::request::Base;
use syncline_books::{google, ndl, rakuten};
use url::Url;

use super::Layers;
use crate::secret::Secret;

/// Where the pictures of each source are, as long as its API is the real one.
const GOOGLE_PICTURES: [&str; 2] = ["https://books.google.com", "http://books.google.com"];
const RAKUTEN_PICTURES: [&str; 1] = ["https://thumbnail.image.rakuten.co.jp"];

/// The bookshelf as configured.
#[derive(Debug, Clone)]
pub struct Shelf {
    /// Whether this node has one.
    pub enabled: bool,
    /// The library's search.
    pub ndl: Base,
    /// The library's pictures.
    pub ndl_thumbnail: Base,
    /// Google Books.
    pub google: Base,
    /// Rakuten Books.
    pub rakuten: Base,
    /// The key to Rakuten Books. Without one it is only asked where its address is one's own.
    pub rakuten_application_id: Option<Secret>,
}

impl Shelf {
    /// Whether Rakuten can be asked: it wants an id, and a stand-in or a proxy in its place may not.
    pub fn asks_rakuten(&self) -> bool {
        self.rakuten_application_id.is_some() || self.rakuten != base(rakuten::BASE_URL)
    }

    /// The origins covers may come from, and no others.
    pub fn cover_origins(&self) -> Vec<String> {
        if !self.enabled {
            return Vec::new();
        }
        let mut origins = BTreeSet::from([origin(&self.ndl_thumbnail)]);
        for (set, usual, pictures) in [
            (&self.google, google::BASE_URL, GOOGLE_PICTURES.as_slice()),
            (&self.rakuten, rakuten::BASE_URL, RAKUTEN_PICTURES.as_slice()),
        ] {
            if *set == base(usual) {
                origins.extend(pictures.iter().map(|origin| (*origin).to_owned()));
            } else {
                origins.insert(origin(set));
            }
        }
        origins.into_iter().collect()
    }
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf {
            enabled: true,
            ndl: base(ndl::BASE_URL),
            ndl_thumbnail: base(ndl::THUMBNAIL_BASE_URL),
            google: base(google::BASE_URL),
            rakuten: base(rakuten::BASE_URL),
            rakuten_application_id: None,
        }
    }
}

pub(super) fn read(layers: &mut Layers<'_>) -> Shelf {
    let section = layers.root.section("shelf");
    let enabled = section.boolean("enabled");
    let keys = [
        ("ndl_base_url", "shelf.ndl_base_url", "NDL_BASE_URL"),
        ("ndl_thumbnail_base_url", "shelf.ndl_thumbnail_base_url", "NDL_THUMBNAIL_BASE_URL"),
        ("google_books_base_url", "shelf.google_books_base_url", "GOOGLE_BOOKS_BASE_URL"),
        ("rakuten_base_url", "shelf.rakuten_base_url", "RAKUTEN_BASE_URL"),
    ];
    let bases = keys.map(|(key, path, variable)| {
        let file = section.text(key).map(|found| (section.place(&found), found.value.to_owned()));
        let parse = |text: &str| Base::parse(text).map_err(|error| error.to_string());
        layers.choose(path, ("", None), variable, file, parse)
    });
    let id = section.text("rakuten_application_id");
    let id = id.map(|found| (section.place(&found), found.value.to_owned()));
    let variable = "RAKUTEN_APPLICATION_ID";
    let id = layers.choose("shelf.rakuten_application_id", ("", None), variable, id, application_id);
    section.finish();

    let usual = Shelf::default();
    let [ndl, thumbnail, google, rakuten] = bases;
    // The library's pictures are where its search is, unless somebody says otherwise.
    let thumbnail = thumbnail.or_else(|| ndl.as_ref().map(|ndl| base(&format!("{}/thumbnail", origin(ndl)))));
    Shelf {
        enabled: enabled.unwrap_or(usual.enabled),
        ndl: ndl.unwrap_or(usual.ndl),
        ndl_thumbnail: thumbnail.unwrap_or(usual.ndl_thumbnail),
        google: google.unwrap_or(usual.google),
        rakuten: rakuten.unwrap_or(usual.rakuten),
        rakuten_application_id: id,
    }
}

fn application_id(text: &str) -> Result<Secret, String> {
    rakuten::ApplicationId::parse(text).map_err(|error| error.to_string())?;
    Ok(Secret::new(text.trim()))
}

fn base(url: &str) -> Base {
    Base::parse(url).expect("a constant, or an origin that was checked before")
}

fn origin(base: &Base) -> String {
    let url = Url::parse(&base.to_string()).expect("a base is an address");
    url.origin().ascii_serialization()
}
