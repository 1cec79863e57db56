//! One cover as the cache stores it: printable text, dense, and readable without looking at its neighbours.
//!
//! The JSON forms spend most of their length on quotes, brackets, the thirteen digits of the key and the same
//! few words at the end of every Google URL. Here the ISBN takes five characters, one letter names the form,
//! and what can be told from the ISBN or from a short list is not repeated:
//!
//! | letter | form | then | length |
//! |---|---|---|---|
//! | `n` | NDL, named by the ISBN | nothing | 6 |
//! | `N` | NDL | name, space | |
//! | `s` | Rakuten, in the cabinet of the ISBN's last four digits, named by it | nothing | 6 |
//! | `S` | the same with a suffix such as `_1_2` | suffix, space | 11 |
//! | `r` | Rakuten, named by the ISBN | dir, space | 11 |
//! | `R` | Rakuten | dir, slash, name, space | |
//! | `a`-`e` | Google, a twelve-letter id and a usual ending | id | 18 |
//! | `g` | Google | rest, space | |
//! | `u` | anything | URL, space | |
//!
//! A space cannot occur in a [`CoverUrl`](super::CoverUrl), so it ends what has no fixed length.

use super::{Compressed, URL_MAX_BYTES, check, may_stand_in_url};
use crate::isbn::Isbn13;

/// What follows the id in the links that Google Books hands out, by zoom and with or without the curled corner.
const GOOGLE_ENDINGS: [&str; 5] = [
    "",
    "&printsec=frontcover&img=1&zoom=1&source=gbs_api",
    "&printsec=frontcover&img=1&zoom=1&edge=curl&source=gbs_api",
    "&printsec=frontcover&img=1&zoom=5&source=gbs_api",
    "&printsec=frontcover&img=1&zoom=5&edge=curl&source=gbs_api",
];
const GOOGLE_ID_BYTES: usize = 12;

const ISBN_DIGITS: usize = 5;
const END: char = ' ';

/// A cover in the text, its extent known but its content not yet looked at.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// The book it belongs to.
    pub(super) isbn: Isbn13,
    /// How many bytes it takes.
    pub(super) bytes: usize,
    letter: u8,
    payload: &'a str,
}

/// Appends one cover. True if it is made of known words, digits and ids alone, so that nothing in it could be refused.
pub(super) fn write(out: &mut String, isbn: Isbn13, form: &Compressed<'_>) -> bool {
    write_number(out, isbn.number(), ISBN_DIGITS);
    match form {
        Compressed::Ndl { other: None } => write_known(out, 'n', ""),
        Compressed::Ndl { other: Some(name) } => write_text(out, 'N', &[name]),
        Compressed::Rakuten { dir, other } => {
            let digits = isbn.digits();
            let usual = dir.as_bytes() == &digits[9..];
            match other {
                None if usual => write_known(out, 's', ""),
                None => write_text(out, 'r', &[dir]),
                Some(name) => match suffix(&digits, name) {
                    Some(suffix) if usual => write_text(out, 'S', &[suffix]),
                    _ => write_text(out, 'R', &[dir, "/", name]),
                },
            }
        }
        Compressed::Google { rest } => match usual_ending(rest) {
            Some((id, ending)) => write_known(out, char::from(b'a' + ending), id),
            None => write_text(out, 'g', &[rest]),
        },
        Compressed::Url { url } => write_text(out, 'u', &[url]),
    }
}

/// Finds the extent of the cover at the start of `text`.
pub(super) fn read(text: &str) -> Option<Entry<'_>> {
    let isbn = Isbn13::from_number(read_number(text.get(..ISBN_DIGITS)?)?)?;
    let letter = *text.as_bytes().get(ISBN_DIGITS)?;
    let rest = text.get(ISBN_DIGITS + 1..)?;
    let (payload, end) = match letter {
        b'n' | b's' => ("", 0),
        b'a'..=b'e' => (rest.get(..GOOGLE_ID_BYTES)?, 0),
        _ => (&rest[..rest.find(END)?], END.len_utf8()),
    };
    Some(Entry { isbn, bytes: ISBN_DIGITS + 1 + payload.len() + end, letter, payload })
}

impl<'a> Entry<'a> {
    /// Where the cover is. `None` if the entry is of no known form, or stands for nothing that may be shown.
    pub(super) fn form(self) -> Option<Compressed<'a>> {
        let Self { isbn, letter, payload, .. } = self;
        if payload.len() > URL_MAX_BYTES || !payload.chars().all(may_stand_in_url) {
            return None;
        }
        Some(match letter {
            b'n' => Compressed::Ndl { other: None },
            b'N' => Compressed::Ndl { other: Some(payload.into()) },
            b's' => Compressed::Rakuten { dir: last_four(isbn).into(), other: None },
            b'S' => {
                let name = format!("{isbn}{payload}");
                Compressed::Rakuten { dir: last_four(isbn).into(), other: Some(name.into()) }
            }
            b'r' => Compressed::Rakuten { dir: payload.into(), other: None },
            b'R' => {
                let (dir, name) = payload.split_once('/')?;
                Compressed::Rakuten { dir: dir.into(), other: Some(name.into()) }
            }
            b'a'..=b'e' => {
                let ending = GOOGLE_ENDINGS[usize::from(letter - b'a')];
                Compressed::Google { rest: format!("{payload}{ending}").into() }
            }
            b'g' => Compressed::Google { rest: payload.into() },
            b'u' => {
                check(payload).ok()?;
                Compressed::Url { url: payload.into() }
            }
            _ => return None,
        })
    }
}

fn write_known(out: &mut String, letter: char, id: &str) -> bool {
    out.push(letter);
    out.push_str(id);
    true
}

fn write_text(out: &mut String, letter: char, parts: &[&str]) -> bool {
    out.push(letter);
    parts.iter().for_each(|part| out.push_str(part));
    out.push(END);
    false
}

fn last_four(isbn: Isbn13) -> String {
    isbn.digits()[9..].iter().map(|digit| char::from(*digit)).collect()
}

fn suffix<'a>(digits: &[u8; 13], name: &'a str) -> Option<&'a str> {
    name.as_bytes().starts_with(digits).then(|| &name[digits.len()..])
}

fn usual_ending(rest: &str) -> Option<(&str, u8)> {
    let (id, ending) = rest.split_at_checked(GOOGLE_ID_BYTES)?;
    let ending = GOOGLE_ENDINGS.iter().position(|known| *known == ending)?;
    id.bytes().all(is_id_byte).then_some((id, ending as u8))
}

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Numbers are written in base 75 with the characters `0` to `z`: five digits hold any ISBN.
const BASE: u32 = 75;
const ZERO: u8 = b'0';
/// Digits that 32 bits have at most.
const DIGITS_MAX: usize = 6;

/// Appends `number` with exactly `digits` digits; what does not fit is cut off at the front.
pub(super) fn write_number(out: &mut String, number: u32, digits: usize) {
    // From the last digit on, into more places than any number needs.
    let (mut places, mut rest) = ([ZERO; DIGITS_MAX], number);
    for place in places.iter_mut().rev() {
        *place = ZERO + (rest % BASE) as u8;
        rest /= BASE;
    }
    out.push_str(str::from_utf8(&places[DIGITS_MAX - digits..]).expect("digits are ASCII"));
}

/// The number that `text` spells, if it does.
pub(super) fn read_number(text: &str) -> Option<u32> {
    text.bytes().try_fold(0_u32, |sum, byte| {
        let digit = byte.checked_sub(ZERO).map(u32::from).filter(|digit| *digit < BASE)?;
        sum.checked_mul(BASE)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::compressed::tests::{isbn, texts};
    use super::super::{CoverCache, CoverUrl};
    use super::*;

    fn pack(url: &str) -> String {
        let mut out = String::new();
        write(&mut out, isbn(), &Compressed::new(isbn(), &CoverUrl::parse(url).unwrap()));
        out
    }

    #[test]
    fn bk_06_the_usual_covers_take_six_to_eighteen_characters() {
        let rakuten = "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/";
        let google = "http://books.google.com/books/content?id=wttstgEACAAJ";
        let cases = [
            ("https://ndlsearch.ndl.go.jp/thumbnail/9784088511276.jpg".to_owned(), 6),
            (format!("{rakuten}1276/9784088511276.jpg?_ex=200x200"), 6),
            (format!("{rakuten}1276/9784088511276_1_2.jpg?_ex=200x200"), 11),
            (format!("{rakuten}5093/9784088511276.jpg?_ex=200x200"), 11),
            (google.to_owned(), 18),
            (format!("{google}&printsec=frontcover&img=1&zoom=1&source=gbs_api"), 18),
            (format!("{google}&printsec=frontcover&img=1&zoom=5&edge=curl&source=gbs_api"), 18),
        ];
        for (url, length) in cases {
            assert_eq!(pack(&url).len(), length, "{url}");
        }
    }

    #[test]
    fn bk_06_what_is_not_a_cover_reads_as_none() {
        let number = &pack("https://ndlsearch.ndl.go.jp/thumbnail/9784088511276.jpg")[..5];
        for text in [
            "",
            "zzzzzn",
            "00000",
            &format!("{number}q"),
            &format!("{number}aabc"),
            &format!("{number}aabcdefghijk<"),
            &format!("{number}ujavascript:alert(1) "),
            &format!("{number}uhttps://example.net/a.jpg"),
            &format!("{number}g\" "),
            &format!("{number}R1276 "),
            &format!("{number}表"),
        ] {
            assert_eq!(read(text).and_then(Entry::form), None, "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn bk_05_every_url_survives_packing_whatever_follows_it(text in texts(), after in any::<String>()) {
            let Ok(url) = CoverUrl::parse(text.clone()) else { return Ok(()) };
            let packed = pack(&text);
            let both = format!("{packed}{after}");
            let entry = read(&both).unwrap();
            prop_assert_eq!((entry.isbn, entry.bytes), (isbn(), packed.len()));
            prop_assert_eq!(entry.form().unwrap().expand(isbn()), Ok(url));
        }

        #[test]
        fn bk_05_a_text_is_taken_if_it_is_a_cover_and_only_then(text in texts(), more in 0..2_100_usize) {
            let text = text + &"x".repeat(more * usize::from(more > 1_900));
            let mut cache = CoverCache::new();
            let taken = cache.insert_text(isbn(), &text).map(|_| cache.get(isbn()).unwrap());
            prop_assert_eq!(taken, CoverUrl::parse(text));
        }

        #[test]
        fn bk_06_no_text_makes_the_reader_panic(text in any::<String>(), cut in "[0-z]{5}[a-zA-Z].{0,30}") {
            let _ = read(&text).map(Entry::form);
            let _ = read(&cut).map(Entry::form);
        }

        #[test]
        fn bk_06_numbers_survive(number in 0..BASE.pow(5)) {
            let mut out = String::new();
            write_number(&mut out, number, 5);
            prop_assert_eq!((out.len(), read_number(&out)), (5, Some(number)));
        }
    }
}
