//! Books that nobody wrote, made from nothing but their number.
//!
//! Every valid ISBN has the same book in every process that uses the same seed, so a test knows what a shelf must show
//! without asking anybody. Some numbers no library knows, some books have no picture anywhere: the
//! [`Shares`] say how many.

mod words;

use syncline_books::book::{Book, Published};
use syncline_books::{CoverUrl, Isbn13};

use super::settings::Shares;
use words::{GENRES, NAMES, PLACES, PUBLISHERS, SERIES, THINGS, TRAITS};

/// Books that a search by words looks through. Any ISBN can be asked for, listed or not.
pub const LISTED: u32 = 600;

/// All there is to know about the invented books.
#[derive(Debug, Clone)]
pub struct Catalogue {
    seed: u64,
    shares: Shares,
}

/// One book and who knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the library's record says. Its cover is left out: the library keeps pictures elsewhere.
    pub book: Book,
    /// Whether the library knows it; if not, no scan finds it.
    pub in_library: bool,
    /// Whether the library has its picture.
    pub thumbnail: bool,
    /// Whether Google knows it.
    pub google: Held,
    /// Whether Rakuten sells it.
    pub rakuten: Held,
}

/// What a shop has of a book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Nothing.
    Nothing,
    /// Its data.
    Data,
    /// Its data and its picture.
    Picture,
}

impl Catalogue {
    /// The catalogue of `seed`.
    #[must_use]
    pub fn new(seed: u64, shares: Shares) -> Self {
        Self { seed, shares }
    }

    /// The book of this number.
    #[must_use]
    pub fn entry(&self, isbn: Isbn13) -> Entry {
        let mut dice = Dice::new(self.seed, isbn);
        let book = invent(isbn, &mut dice);
        let shares = self.shares;
        Entry {
            book,
            in_library: dice.below(shares.library),
            thumbnail: dice.below(shares.thumbnail),
            google: dice.held(shares.google),
            rakuten: dice.held(shares.rakuten),
        }
    }

    /// The `n`th number of an endless list without order. No number comes twice before the millionth.
    #[must_use]
    pub fn isbn(&self, n: u32) -> Isbn13 {
        // A step that shares no factor with the modulus visits every number once.
        const STEP: u64 = 386_117;
        let number = (self.seed % 1_000_000 + u64::from(n) * STEP) % 1_000_000;
        let stem = format!("978499{number:06}");
        (0..10)
            .find_map(|check| Isbn13::parse(&format!("{stem}{check}")).ok())
            .expect("one of ten check digits is right")
    }

    /// The first `count` numbers of the list.
    #[must_use]
    pub fn isbns(&self, count: u32) -> Vec<Isbn13> {
        (0..count).map(|n| self.isbn(n)).collect()
    }

    /// Where the cover of a book must end up being, if the stand-ins listen at `origin`: the library's picture, or else
    /// Rakuten's, or else Google's.
    #[must_use]
    pub fn cover(&self, isbn: Isbn13, origin: &str) -> Option<CoverUrl> {
        let entry = self.entry(isbn);
        let url = match (entry.thumbnail, entry.rakuten, entry.google) {
            (true, _, _) => format!("{origin}/ndl/thumbnail/{isbn}.jpg"),
            (false, Held::Picture, _) => rakuten_picture(origin, isbn, 200),
            (false, _, Held::Picture) => google_picture(origin, isbn, 1),
            _ => return None,
        };
        CoverUrl::parse(url).ok()
    }
}

/// Where Rakuten's picture of a book is.
pub(super) fn rakuten_picture(origin: &str, isbn: Isbn13, pixels: u32) -> String {
    let digits = isbn.to_string();
    format!("{origin}/rakuten/cabinet/{}/{digits}.jpg?_ex={pixels}x{pixels}", &digits[9..])
}

/// Where Google's picture of a book is.
pub(super) fn google_picture(origin: &str, isbn: Isbn13, zoom: u32) -> String {
    format!("{origin}/google/books/content?id={isbn}&printsec=frontcover&img=1&zoom={zoom}&source=gbs_api")
}

fn invent(isbn: Isbn13, dice: &mut Dice) -> Book {
    let (quality, place, thing) = (dice.pick(TRAITS), dice.pick(PLACES), dice.pick(THINGS));
    let authors = 1 + usize::from(dice.below(0.2));
    let mut names: Vec<String> = Vec::new();
    while names.len() < authors {
        let (family, given) = (dice.pick(NAMES).0, dice.pick(NAMES).1);
        let name = format!("{family} {given}");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let volume = dice.below(0.3).then(|| (1 + dice.number(9)).to_string());
    let series = dice.below(0.4).then(|| dice.pick(SERIES).to_owned());
    let published = format!("{}-{:02}", 1965 + dice.number(60), 1 + dice.number(12));
    Book {
        title: format!("{}{}の{}", quality.0, place.0, thing.0),
        title_reading: Some(format!("{} {} ノ {}", quality.1, place.1, thing.1)),
        volume,
        series,
        authors: names,
        publisher: Some(dice.pick(PUBLISHERS).to_owned()),
        published: Published::parse(&published),
        extent: Some(format!("{}p ; {}cm", 96 + dice.number(400), 15 + dice.number(9))),
        price: dice.below(0.8).then(|| format!("{}円", 500 + 20 * dice.number(120))),
        ndc: Some(dice.pick(GENRES).to_owned()),
        ..Book::new(isbn)
    }
}

/// Draws that depend on nothing but the seed, the number of the book, and how many came before.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64, isbn: Isbn13) -> Self {
        let digits = isbn.digits().iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        Self(seed.rotate_left(32) ^ digits)
    }

    /// From plain numbers, such as how many calls there were.
    pub(super) fn of(seed: u64, one: u64, other: u64) -> Self {
        Self(seed.rotate_left(40) ^ one.rotate_left(56) ^ other)
    }

    /// SplitMix64: a well-known mixer whose every output depends on every bit of the state.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to `end`, which it never is.
    pub(super) fn number(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Of the books a shop has, one in four has no picture.
    fn held(&mut self, share: f64) -> Held {
        match (self.below(share), self.below(0.75)) {
            (false, _) => Held::Nothing,
            (true, false) => Held::Data,
            (true, true) => Held::Picture,
        }
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.number(list.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::new(1, Shares::default())
    }

    #[test]
    fn bk_04_a_number_has_the_same_book_every_time_and_another_seed_another_book() {
        let isbn = "9784000000079".parse().unwrap();
        assert_eq!(catalogue().entry(isbn), catalogue().entry(isbn));
        assert_ne!(catalogue().entry(isbn), Catalogue::new(8, Shares::default()).entry(isbn));
    }

    #[test]
    fn bk_04_the_list_has_no_number_twice() {
        let isbns: BTreeSet<Isbn13> = catalogue().isbns(20_000).into_iter().collect();
        assert_eq!(isbns.len(), 20_000);
    }

    #[test]
    fn bk_03_every_kind_of_book_is_among_the_first_three_hundred() {
        let entries: Vec<Entry> =
            catalogue().isbns(300).into_iter().map(|isbn| catalogue().entry(isbn)).collect();
        let has = |what: &str, wanted: fn(&Entry) -> bool| {
            assert!(entries.iter().any(wanted), "no book {what}");
        };
        has("that the library does not know", |entry| !entry.in_library);
        has("with the library's picture", |entry| entry.in_library && entry.thumbnail);
        let shops = |entry: &Entry| (entry.in_library && !entry.thumbnail, entry.google, entry.rakuten);
        let pairs: BTreeSet<String> =
            entries.iter().map(shops).filter(|shops| shops.0).map(|shops| format!("{shops:?}")).collect();
        assert_eq!(pairs.len(), 9, "every pair of what two shops have: {pairs:#?}");
    }

    #[test]
    fn bk_03_shares_of_none_and_all_are_exact() {
        let none = Shares { library: 0.0, thumbnail: 0.0, google: 0.0, rakuten: 0.0 };
        let all = Shares { library: 1.0, thumbnail: 1.0, google: 1.0, rakuten: 1.0 };
        for isbn in catalogue().isbns(100) {
            let entry = Catalogue::new(1, none).entry(isbn);
            let shops = (entry.google, entry.rakuten);
            assert_eq!(
                (entry.in_library, entry.thumbnail, shops),
                (false, false, (Held::Nothing, Held::Nothing))
            );
            let entry = Catalogue::new(1, all).entry(isbn);
            assert!(entry.in_library && entry.thumbnail && entry.google != Held::Nothing);
        }
    }
}
