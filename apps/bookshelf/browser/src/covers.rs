//! The covers a page remembers, for JavaScript: [`syncline_books::cover::CoverCache`] with texts at its edges.
//!
//! What to keep, what to drop and how small it can be written is decided there; reading and writing localStorage is
//! done in `js/bookshelf/covers.js`. Every method is total: a text that is no ISBN has no cover.

use syncline_books::cover::{URL_MAX_BYTES, Write};
use syncline_books::{Isbn13, cover};
use wasm_bindgen::prelude::wasm_bindgen;

/// Room for an ISBN with all that people put around it.
const ISBN_MAX_BYTES: usize = 256;

/// Covers by ISBN, never more than 2 MiB.
#[wasm_bindgen]
#[derive(Debug)]
pub struct CoverCache {
    covers: cover::CoverCache,
    /// On their way from or to localStorage. One text after the other: lists of texts would cost every page the code
    /// that carries them.
    items: Vec<(String, String)>,
    /// Where JavaScript writes an ISBN and a URL for [`set`](CoverCache::set): two texts that are passed cost more than what
    /// is done with them. It never moves.
    texts: Box<[u8]>,
}

/// What became of a cover. Reasons in words would cost every page the tables that print any character.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is remembered.
    Stored,
    /// The first text is no ISBN.
    NoIsbn,
    /// The second is no URL that may be shown.
    NoCover,
}

#[wasm_bindgen]
impl CoverCache {
    /// An empty cache, to be filled by [`add`](Self::add) and [`load`](Self::load).
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        let texts = vec![0; ISBN_MAX_BYTES + URL_MAX_BYTES].into();
        Self { covers: cover::CoverCache::new(), items: Vec::new(), texts }
    }

    /// An item of localStorage for [`load`](Self::load), or what [`flush`](Self::flush) has to write.
    pub fn add(&mut self, key: String, text: String) {
        self.items.push((key, text));
    }

    /// Takes up what an earlier page left, instead of what is here. What is not ours is not looked at, what is
    /// damaged is left out.
    pub fn load(&mut self) {
        self.covers = cover::CoverCache::load(self.items.drain(..));
    }

    /// What the keys in localStorage begin with.
    #[wasm_bindgen(getter, js_name = keyPrefix)]
    #[must_use]
    pub fn key_prefix(&self) -> String {
        cover::KEY_PREFIX.to_owned()
    }

    /// The cover of a book, if it is remembered.
    #[must_use]
    pub fn get(&self, isbn: &str) -> Option<String> {
        Some(self.covers.get(Isbn13::parse(isbn).ok()?)?.as_str().to_owned())
    }

    /// Where the ISBN of the next [`set`](Self::set) goes.
    #[wasm_bindgen(getter, js_name = isbnAt)]
    #[must_use]
    pub fn isbn_at(&self) -> usize {
        self.texts.as_ptr().addr()
    }

    /// Where its URL goes, which is also where the room for the ISBN ends.
    #[wasm_bindgen(getter, js_name = urlAt)]
    #[must_use]
    pub fn url_at(&self) -> usize {
        self.isbn_at() + ISBN_MAX_BYTES
    }

    /// Where the room for the URL ends.
    #[wasm_bindgen(getter, js_name = urlEnd)]
    #[must_use]
    pub fn url_end(&self) -> usize {
        self.isbn_at() + self.texts.len()
    }

    /// Remembers a cover as the newest, if ISBN and URL, of so many bytes each, are what they should be.
    pub fn set(&mut self, isbn_bytes: usize, url_bytes: usize) -> Told {
        let (isbn, url) = self.texts.split_at(ISBN_MAX_BYTES);
        let isbn = isbn.get(..isbn_bytes).and_then(|isbn| str::from_utf8(isbn).ok());
        let Some(isbn) = isbn.and_then(|isbn| Isbn13::parse(isbn).ok()) else { return Told::NoIsbn };
        let url = url.get(..url_bytes).and_then(|url| str::from_utf8(url).ok());
        let stored = url.is_some_and(|url| self.covers.insert_text(isbn, url).is_ok());
        if stored { Told::Stored } else { Told::NoCover }
    }

    /// Forgets a cover; false if it was not remembered.
    pub fn delete(&mut self, isbn: &str) -> bool {
        Isbn13::parse(isbn).is_ok_and(|isbn| self.covers.remove(isbn))
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.covers.clear();
    }

    /// Prepares what has to be written; tells how many items.
    pub fn flush(&mut self) -> usize {
        let writes = self.covers.flush().into_iter().map(|write| match write {
            Write::Set { key, text } => (key, text),
            Write::Remove { key } => (key, String::new()),
        });
        self.items = writes.collect();
        // Taken from the end.
        self.items.reverse();
        self.items.len()
    }

    /// The key of the next item to write.
    #[wasm_bindgen(getter, js_name = nextKey)]
    #[must_use]
    pub fn next_key(&self) -> String {
        self.items.last().map_or_else(String::new, |(key, _)| key.clone())
    }

    /// Its text, once; an empty one means that the item is to be removed.
    #[wasm_bindgen(js_name = takeText)]
    pub fn take_text(&mut self) -> String {
        self.items.pop().map_or_else(String::new, |(_, text)| text)
    }

    /// How many covers are remembered.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn size(&self) -> usize {
        self.covers.len()
    }

    /// What they take in localStorage.
    #[wasm_bindgen(getter, js_name = storedBytes)]
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.covers.stored_bytes()
    }
}

impl Default for CoverCache {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cache: &mut CoverCache, isbn: &str, url: &str) -> Told {
        cache.texts[..isbn.len()].copy_from_slice(isbn.as_bytes());
        cache.texts[ISBN_MAX_BYTES..][..url.len()].copy_from_slice(url.as_bytes());
        cache.set(isbn.len(), url.len())
    }

    fn flushed(cache: &mut CoverCache) -> Vec<(String, String)> {
        (0..cache.flush()).map(|_| (cache.next_key(), cache.take_text())).collect()
    }

    #[test]
    fn bk_06_covers_survive_the_way_through_storage() {
        let mut cache = CoverCache::new();
        let url = "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/7654/9784101010014.jpg";
        assert_eq!(set(&mut cache, "978-4-10-101001-4", url), Told::Stored);
        let items = flushed(&mut cache);
        assert!(items.len() == 1 && items[0].0.starts_with(&cache.key_prefix()), "{items:?}");

        let mut again = CoverCache::new();
        items.into_iter().for_each(|(key, text)| again.add(key, text));
        again.load();
        assert_eq!(again.get("4101010013").as_deref(), Some(url), "the same book by its old number");
        assert_eq!((again.size(), again.delete("9784101010014"), again.size()), (1, true, 0));
        let gone = flushed(&mut again);
        assert_eq!((gone.len(), gone[0].1.as_str()), (1, ""));
    }

    #[test]
    fn bk_05_what_cannot_be_a_cover_is_refused() {
        let mut cache = CoverCache::new();
        assert_eq!(set(&mut cache, "123", "https://example.com/a.jpg"), Told::NoIsbn);
        assert_eq!(set(&mut cache, "9784101010014", "javascript:alert(1)"), Told::NoCover);
        assert_eq!((cache.set(usize::MAX, 1), cache.set(13, usize::MAX)), (Told::NoIsbn, Told::NoCover));
        assert_eq!((cache.size(), cache.get("no isbn"), cache.delete("")), (0, None, false));
        cache.clear();
        assert_eq!((cache.flush(), cache.next_key(), cache.take_text()), (0, String::new(), String::new()));
    }
}
