//! The cover cache against a localStorage that counts like a browser: capacity, order, restarts, damage.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use syncline_books::cover::{CoverCache, CoverUrl, Inserted, KEY_PREFIX, STORED_MAX_BYTES, Write};
use syncline_books::isbn::Isbn13;

/// localStorage: texts by key.
#[derive(Debug, Clone, Default)]
struct Storage(BTreeMap<String, String>);

impl Storage {
    fn apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        for write in writes {
            match write {
                Write::Set { key, text } => drop(self.0.insert(key, text)),
                Write::Remove { key } => drop(self.0.remove(&key)),
            }
        }
    }

    /// Two bytes per UTF-16 unit, keys included.
    fn bytes(&self) -> usize {
        self.0.iter().map(|(key, text)| 2 * (key.encode_utf16().count() + text.encode_utf16().count())).sum()
    }

    fn load(&self) -> CoverCache {
        CoverCache::load(&self.0)
    }
}

/// The `n`th of many different ISBNs, spread over the numbers of Japan.
fn isbn(n: usize) -> Isbn13 {
    let nine = 400_000_000 + (n * 104_729) % 100_000_000;
    let sum: usize =
        format!("978{nine}").bytes().zip([1, 3].iter().cycle()).map(|(d, w)| usize::from(d - b'0') * w).sum();
    format!("978{nine}{}", (10 - sum % 10) % 10).parse().expect("the check digit is right")
}

fn ndl(n: usize) -> String {
    format!("https://ndlsearch.ndl.go.jp/thumbnail/{}.jpg", isbn(n))
}

fn rakuten(n: usize, dir: &str, suffix: &str) -> String {
    let isbn = isbn(n);
    format!("https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/{dir}/{isbn}{suffix}.jpg?_ex=200x200")
}

/// Rakuten files a picture under the last four digits of its ISBN, newer ones with a suffix.
fn rakuten_as_found(n: usize) -> String {
    rakuten(n, &isbn(n).to_string()[9..], ["", "_1_2", "_1_3"][n % 3])
}

/// Google's links as its API gives them: an id of twelve letters, then always the same words.
fn google_as_found(n: usize) -> String {
    let id = format!("{:08x}EACAAJ", n * 2_654_435_761 % (1 << 32));
    let edge = ["", "&edge=curl"][n % 2];
    let id = &id[id.len() - 12..];
    format!(
        "http://books.google.com/books/content?id={id}&printsec=frontcover&img=1&zoom=1{edge}&source=gbs_api"
    )
}

fn google_bare(n: usize) -> String {
    format!("http://books.google.com/books/content?id={n:012}")
}

/// How many covers fit before the first has to go.
fn capacity(url: impl Fn(usize) -> String) -> usize {
    let mut cache = CoverCache::new();
    let mut storage = Storage::default();
    let full = (0..).find(|n| {
        let inserted = cache.insert(isbn(*n), &CoverUrl::parse(url(*n)).expect("a cover"));
        assert_ne!(inserted, Inserted::Unchanged);
        inserted != Inserted::Stored { dropped: 0 }
    });
    storage.apply(cache.flush());
    assert_eq!(storage.bytes(), cache.stored_bytes());
    assert!(storage.bytes() <= STORED_MAX_BYTES);
    full.expect("it fills up")
}

#[test]
fn bk_06_the_capacity_figures_are_reached_in_two_mebibytes_of_utf_16() {
    let reached = [
        ("NDL", 95_000, capacity(ndl)),
        ("Rakuten, as found", 72_000, capacity(rakuten_as_found)),
        ("Rakuten, any cabinet", 72_000, capacity(|n| rakuten(n, &format!("{:04}", n * 7 % 10_000), ""))),
        ("Google, as found", 58_000, capacity(google_as_found)),
        ("Google, only the id", 58_000, capacity(google_bare)),
    ];
    for (source, wanted, fitted) in reached {
        println!("{source}: {fitted} covers fit, {wanted} wanted");
        assert!(fitted >= wanted, "{source}: {fitted} covers fit, {wanted} wanted");
    }
}

#[test]
fn bk_06_a_full_cache_stays_full_and_forgets_only_the_oldest() {
    let mut cache = CoverCache::new();
    let urls = |n| CoverUrl::parse(google_as_found(n)).unwrap();
    for n in 0..120_000 {
        cache.insert(isbn(n), &urls(n));
        assert!(cache.stored_bytes() <= STORED_MAX_BYTES);
    }
    assert!(cache.len() >= 58_000, "{}", cache.len());
    let first = 120_000 - cache.len();
    for n in 0..120_000 {
        assert_eq!(cache.get(isbn(n)), (n >= first).then(|| urls(n)), "{n}");
    }
}

#[test]
fn bk_06_an_insert_writes_one_small_value() {
    let mut cache = CoverCache::new();
    let mut storage = Storage::default();
    for n in 0..100_000 {
        cache.insert(isbn(n), &CoverUrl::parse(google_as_found(n)).unwrap());
    }
    storage.apply(cache.flush());
    for n in 100_000..101_000 {
        cache.insert(isbn(n), &CoverUrl::parse(google_as_found(n)).unwrap());
        let writes = cache.flush();
        // Two at a boundary: the segment that was finished, and the next.
        assert!((1..=2).contains(&writes.len()), "{n}: {}", writes.len());
        for write in &writes {
            let Write::Set { text, .. } = write else { panic!("{write:?}") };
            assert!(2 * text.len() <= STORED_MAX_BYTES / 64);
        }
        storage.apply(writes);
    }
    assert_eq!(storage.bytes(), cache.stored_bytes());
}

#[test]
fn bk_06_an_insert_of_the_same_cover_writes_nothing() {
    let mut cache = CoverCache::new();
    let url = CoverUrl::parse(ndl(1)).unwrap();
    assert_eq!(cache.insert(isbn(1), &url), Inserted::Stored { dropped: 0 });
    assert_eq!(cache.flush().len(), 1);
    assert_eq!(cache.insert(isbn(1), &url), Inserted::Unchanged);
    assert_eq!(cache.flush(), []);
    assert_eq!(cache.insert(isbn(1), &CoverUrl::parse(ndl(2)).unwrap()), Inserted::Stored { dropped: 0 });
    assert_eq!((cache.len(), cache.get(isbn(1)).unwrap().as_str()), (1, ndl(2).as_str()));
}

#[test]
fn bk_06_corrupt_foreign_and_over_large_values_are_misses_and_removed() {
    let mut cache = CoverCache::new();
    for n in 0..5_000 {
        cache.insert(isbn(n), &CoverUrl::parse(google_as_found(n)).unwrap());
    }
    let mut storage = Storage::default();
    storage.apply(cache.flush());
    let whole = storage.0.clone();
    let key = |index: usize| format!("{KEY_PREFIX}{index:02}");
    let last = whole.len() - 1;
    storage.0.get_mut(&key(0)).unwrap().replace_range(40..41, "~");
    let cut = storage.0[&key(1)].len() / 2;
    storage.0.get_mut(&key(1)).unwrap().truncate(cut);
    storage.0.insert(key(2), "{\"9784000000079\":[\"n\"]}".into());
    storage.0.insert(key(40), "1".repeat(STORED_MAX_BYTES));
    storage.0.insert(key(41), whole[&key(3)].clone());
    storage.0.insert(format!("{KEY_PREFIX}99"), "x".into());
    storage.0.insert("theirs".into(), "untouched".into());

    let mut loaded = storage.load();
    for n in 0..5_000 {
        let url = loaded.get(isbn(n));
        assert!(url.is_none() || url.unwrap().as_str() == google_as_found(n));
    }
    storage.apply(loaded.flush());
    let kept: Vec<_> = (3..=last).map(key).chain(["theirs".into()]).collect();
    assert_eq!(storage.0.keys().cloned().collect::<Vec<_>>(), kept);
    assert!(kept.iter().filter(|key| *key != "theirs").all(|key| storage.0[key] == whole[key]));
    assert!(loaded.len() > 1_500 && loaded.len() < 5_000);
}

#[test]
fn bk_06_of_two_values_under_one_key_the_newer_counts() {
    let key = format!("{KEY_PREFIX}00");
    // After a lap around the ring the first segment holds later covers.
    let values = [100, 60_000].map(|covers| {
        let mut cache = CoverCache::new();
        for n in 0..covers {
            cache.insert(isbn(n), &CoverUrl::parse(google_as_found(n)).unwrap());
        }
        let mut storage = Storage::default();
        storage.apply(cache.flush());
        (key.clone(), storage.0[&key].clone())
    });
    let newer = CoverCache::load([values[1].clone()]);
    for items in [[&values[0], &values[1]], [&values[1], &values[0]]] {
        let cache = CoverCache::load(items.map(|(key, text)| (key, text)));
        assert_eq!(cache.len(), newer.len());
        assert!((0..60_000).all(|n| cache.get(isbn(n)) == newer.get(isbn(n))));
    }
}

#[test]
fn bk_06_a_hundred_thousand_covers_load_as_they_were_stored() {
    let mut cache = CoverCache::new();
    for n in 0..100_000 {
        let url = [ndl, rakuten_as_found, google_as_found][n % 3](n);
        cache.insert(isbn(n), &CoverUrl::parse(url).unwrap());
    }
    let mut storage = Storage::default();
    storage.apply(cache.flush());
    let mut loaded = storage.load();
    assert_eq!((loaded.len(), loaded.stored_bytes()), (cache.len(), cache.stored_bytes()));
    assert_eq!(loaded.flush(), []);
    for n in 0..100_000 {
        assert_eq!(loaded.get(isbn(n)), cache.get(isbn(n)));
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Book, length of its URL, and whether it has letters of more than one byte.
    Insert(usize, usize, bool),
    Remove(usize),
    Flush,
    /// The page dies after this many of the writes that were due.
    Restart(usize),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // URLs of up to 2,000 bytes fill the ring with some 1,000 covers.
    let step = prop_oneof![
        400 => (0..1_500_usize, 20..2_000_usize, any::<bool>()).prop_map(|(n, len, wide)| Step::Insert(n, len, wide)),
        20 => (0..1_500_usize).prop_map(Step::Remove),
        4 => Just(Step::Flush),
        2 => (0..4_usize).prop_map(Step::Restart),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..2_000)
}

fn url_of(len: usize, wide: bool, version: usize) -> CoverUrl {
    let letters = if wide { "表".repeat(len / 3) } else { "a".repeat(len) };
    CoverUrl::parse(format!("https://example.net/{version}/{letters}")).expect("a cover")
}

/// The newest URL of each book with the moment it was stored; the cache may know a suffix in time of these.
#[derive(Default)]
struct Model {
    newest: HashMap<usize, (usize, CoverUrl)>,
}

impl Model {
    /// Everything known is right, and nothing was forgotten before something older.
    fn check(&self, cache: &CoverCache) -> Result<(), TestCaseError> {
        let mut known_since = usize::MAX;
        let mut forgotten_last = 0;
        for (n, (moment, url)) in &self.newest {
            match cache.get(isbn(*n)) {
                Some(known) => {
                    prop_assert_eq!(&known, url);
                    known_since = known_since.min(*moment);
                }
                None => forgotten_last = forgotten_last.max(*moment),
            }
        }
        prop_assert!(forgotten_last < known_since, "forgot {forgotten_last}, but knows {known_since}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bk_06_under_any_use_the_size_holds_covers_are_right_and_the_oldest_go_first(steps in steps()) {
        let (mut cache, mut storage, mut model) = (CoverCache::new(), Storage::default(), Model::default());
        for (moment, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(n, len, wide) => {
                    let url = url_of(len, wide, moment);
                    cache.insert(isbn(n), &url);
                    prop_assert_eq!(cache.get(isbn(n)), Some(url.clone()));
                    model.newest.insert(n, (moment + 1, url));
                }
                Step::Remove(n) => {
                    let known = cache.get(isbn(n)).is_some();
                    prop_assert_eq!(cache.remove(isbn(n)), known);
                    prop_assert_eq!(cache.get(isbn(n)), None);
                    model.newest.remove(&n);
                }
                Step::Flush => {
                    storage.apply(cache.flush());
                    prop_assert_eq!(storage.bytes(), cache.stored_bytes());
                }
                Step::Restart(written) => {
                    let due = cache.flush();
                    let all = written >= due.len();
                    storage.apply(due.into_iter().take(written));
                    prop_assert!(storage.bytes() <= STORED_MAX_BYTES);
                    cache = storage.load();
                    if all {
                        model.check(&cache)?;
                    }
                    // Covers that never reached the storage are forgotten, and those overwritten there are back.
                    model.newest.retain(|n, (_, url)| cache.get(isbn(*n)).as_ref() == Some(url));
                    for n in 0..1_500 {
                        let back = cache.get(isbn(n)).is_some() && !model.newest.contains_key(&n);
                        prop_assert!(!(back && all), "{n} came back from nowhere");
                        if back {
                            cache.remove(isbn(n));
                        }
                    }
                }
                Step::Clear => {
                    cache.clear();
                    model.newest.clear();
                    prop_assert!(cache.is_empty());
                }
            }
            prop_assert!(cache.stored_bytes() <= STORED_MAX_BYTES);
        }
        model.check(&cache)?;
        storage.apply(cache.flush());
        prop_assert_eq!(storage.bytes(), cache.stored_bytes());
        let loaded = storage.load();
        model.check(&loaded)?;
        prop_assert_eq!(loaded.len(), cache.len());
    }

    #[test]
    fn bk_06_a_poisoned_storage_never_yields_a_cover_that_may_not_be_shown(
        values in prop::collection::vec((0..70_usize, any::<String>()), 0..20),
    ) {
        let mut storage = Storage::default();
        for (index, value) in values {
            storage.0.insert(format!("{KEY_PREFIX}{index:02}"), value);
        }
        let mut cache = storage.load();
        prop_assert!(cache.is_empty());
        storage.apply(cache.flush());
        prop_assert!(storage.0.is_empty());
    }
}

#[test]
fn bk_06_ten_thousand_mutations_of_stored_values_never_yield_a_wrong_cover() {
    let mut cache = CoverCache::new();
    for n in 0..60 {
        let url = [ndl, rakuten_as_found, google_as_found, google_bare][n % 4](n);
        cache.insert(isbn(n), &CoverUrl::parse(url).unwrap());
    }
    let Write::Set { key, text } = cache.flush().remove(0) else { panic!() };
    let mut random = 1_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % below
    };
    for _ in 0..10_000 {
        let mut bytes = text.clone().into_bytes();
        match next(4) {
            0 => bytes.truncate(next(bytes.len())),
            1 => drop(bytes.splice(next(bytes.len()).., text.bytes().take(next(40)))),
            2 => bytes.swap(3, next(text.len())),
            _ => (0..=next(3)).for_each(|_| bytes[next(text.len())] = b' ' + next(95) as u8),
        }
        let mutated = String::from_utf8(bytes).unwrap();
        let loaded = CoverCache::load([(&key, &mutated)]);
        assert!(mutated == text || loaded.is_empty(), "{mutated}");
    }
}
