//! `[shelf]`: where the book APIs are.

use std::collections::BTreeSet;
use std::fmt;

use syncline_books::request::Base;
use syncline_books::{google, ndl, rakuten};
use url::Url;

use syncline_node::config::{Settings, setting};
use syncline_node::secret::{REDACTED, Secret};

/// Where the pictures of each source are, as long as its API is the real one.
const GOOGLE_PICTURES: [&str; 2] = ["https://books.google.com", "http://books.google.com"];
const RAKUTEN_PICTURES: [&str; 1] = ["https://thumbnail.image.rakuten.co.jp"];

/// The bookshelf as configured.
#[derive(Debug, Clone)]
pub struct ShelfSettings {
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

impl ShelfSettings {
    /// Whether Rakuten can be asked: it wants an id, and a stand-in or a proxy in its place may not.
    pub fn asks_rakuten(&self) -> bool {
        self.rakuten_application_id.is_some() || self.rakuten != base(rakuten::BASE_URL)
    }

    /// The origins covers may come from, and no others.
    pub fn cover_origins(&self) -> Vec<String> {
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

impl Default for ShelfSettings {
    fn default() -> ShelfSettings {
        ShelfSettings {
            ndl: base(ndl::BASE_URL),
            ndl_thumbnail: base(ndl::THUMBNAIL_BASE_URL),
            google: base(google::BASE_URL),
            rakuten: base(rakuten::BASE_URL),
            rakuten_application_id: None,
        }
    }
}

pub(super) fn read(settings: &mut Settings<'_>) -> ShelfSettings {
    let section = settings.section("shelf");
    // Before there was a list of apps it said whether there is a shelf; now the list does.
    let _ = section.boolean("enabled");
    let keys = [
        ("ndl_base_url", "shelf.ndl_base_url", "NDL_BASE_URL"),
        ("ndl_thumbnail_base_url", "shelf.ndl_thumbnail_base_url", "NDL_THUMBNAIL_BASE_URL"),
        ("google_books_base_url", "shelf.google_books_base_url", "GOOGLE_BOOKS_BASE_URL"),
        ("rakuten_base_url", "shelf.rakuten_base_url", "RAKUTEN_BASE_URL"),
    ];
    let bases = keys.map(|(key, path, variable)| {
        let parse = |text: &str| Base::parse(text).map_err(|error| error.to_string());
        settings.value(&section, (key, path), variable, parse)
    });
    let id = ("rakuten_application_id", "shelf.rakuten_application_id");
    let id = settings.value(&section, id, "RAKUTEN_APPLICATION_ID", application_id);
    section.finish();

    let usual = ShelfSettings::default();
    let [ndl, thumbnail, google, rakuten] = bases;
    // The library's pictures are where its search is, unless somebody says otherwise.
    let thumbnail = thumbnail.or_else(|| ndl.as_ref().map(|ndl| base(&format!("{}/thumbnail", origin(ndl)))));
    ShelfSettings {
        ndl: ndl.unwrap_or(usual.ndl),
        ndl_thumbnail: thumbnail.unwrap_or(usual.ndl_thumbnail),
        google: google.unwrap_or(usual.google),
        rakuten: rakuten.unwrap_or(usual.rakuten),
        rakuten_application_id: id,
    }
}

pub(super) fn print(f: &mut fmt::Formatter<'_>, shelf: &ShelfSettings) -> fmt::Result {
    writeln!(f, "\n[shelf]")?;
    setting(f, "ndl_base_url", shelf.ndl.to_string())?;
    setting(f, "ndl_thumbnail_base_url", shelf.ndl_thumbnail.to_string())?;
    setting(f, "google_books_base_url", shelf.google.to_string())?;
    setting(f, "rakuten_base_url", shelf.rakuten.to_string())?;
    let id = shelf.rakuten_application_id.as_ref();
    id.map_or(Ok(()), |_| setting(f, "rakuten_application_id", REDACTED))
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
