//! The short forms of a cover URL, as they are exchanged in JSON.
//!
//! | source  | URL | form |
//! |---|---|---|
//! | NDL     | `https://ndlsearch.ndl.go.jp/thumbnail/{name}.jpg` | `["n"]`, or `["n", name]` if the name is not the book's ISBN |
//! | Rakuten | `https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/{dir}/{name}.jpg?_ex=200x200` | `["r", dir]` or `["r", dir, name]` |
//! | Google  | `http://books.google.com/books/content?id={rest}` | `["g", rest]` |
//! | other   | any | `[url]` |
//!
//! A URL that is almost, but not exactly, of one of these shapes is kept whole, so expanding always gives back
//! the very same text. A text of one element that is not a URL at all cannot be confused with `["n"]`, because
//! only a [`CoverUrl`] is ever compressed.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::{CoverUrl, Refused};
use crate::isbn::Isbn13;

const NDL: (&str, &str) = ("https://ndlsearch.ndl.go.jp/thumbnail/", ".jpg");
const RAKUTEN: (&str, &str) =
    ("https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/", ".jpg?_ex=200x200");
const GOOGLE: &str = "http://books.google.com/books/content?id=";

/// A cover URL relative to the book it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compressed<'a> {
    /// A thumbnail of the National Diet Library.
    Ndl {
        /// The picture's name where it is not the book's own ISBN.
        other: Option<Cow<'a, str>>,
    },
    /// A picture of Rakuten Books.
    Rakuten {
        /// The cabinet it stands in.
        dir: Cow<'a, str>,
        /// The picture's name where it is not the book's own ISBN.
        other: Option<Cow<'a, str>>,
    },
    /// A picture of Google Books.
    Google {
        /// All that follows `id=`.
        rest: Cow<'a, str>,
    },
    /// Anything else, whole.
    Url {
        /// The URL.
        url: Cow<'a, str>,
    },
}

impl<'a> Compressed<'a> {
    /// The shortest form of `url` for the book `isbn`.
    #[must_use]
    pub fn new(isbn: Isbn13, url: &'a CoverUrl) -> Self {
        Self::of(isbn, url.as_str())
    }

    /// The same of a text that may be no cover.
    pub(super) fn of(isbn: Isbn13, url: &'a str) -> Self {
        ndl(isbn, url)
            .or_else(|| rakuten(isbn, url))
            .or_else(|| url.strip_prefix(GOOGLE).map(|rest| Self::Google { rest: rest.into() }))
            .unwrap_or(Self::Url { url: url.into() })
    }

    /// Reads the parts of the JSON array, checking that they make a URL that may be shown.
    pub fn from_parts<S: AsRef<str>>(isbn: Isbn13, parts: &'a [S]) -> Result<Self, Malformed> {
        let text = |at: usize| Cow::from(parts[at].as_ref());
        let form = match (parts.first().map(AsRef::as_ref), parts.len()) {
            (Some("n"), 1) => Self::Ndl { other: None },
            (Some("n"), 2) => Self::Ndl { other: Some(text(1)) },
            (Some("r"), 2) => Self::Rakuten { dir: text(1), other: None },
            (Some("r"), 3) => Self::Rakuten { dir: text(1), other: Some(text(2)) },
            (Some("g"), 2) => Self::Google { rest: text(1) },
            (Some(_), 1) => Self::Url { url: text(0) },
            _ => return Err(Malformed::Form { parts: parts.len() }),
        };
        form.expand(isbn)?;
        Ok(form)
    }

    /// The parts of the JSON array: one to three texts.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let [first, second, third] = match self {
            Self::Ndl { other } => [Some("n"), other.as_deref(), None],
            Self::Rakuten { dir, other } => [Some("r"), Some(dir.as_ref()), other.as_deref()],
            Self::Google { rest } => [Some("g"), Some(rest.as_ref()), None],
            Self::Url { url } => [Some(url.as_ref()), None, None],
        };
        first.into_iter().chain(second).chain(third)
    }

    /// The whole URL. Never fails for a form that [`new`](Self::new) or [`from_parts`](Self::from_parts) made.
    pub fn expand(&self, isbn: Isbn13) -> Result<CoverUrl, Refused> {
        let own = isbn.to_string();
        CoverUrl::parse(match self {
            Self::Ndl { other } => format!("{}{}{}", NDL.0, other.as_deref().unwrap_or(&own), NDL.1),
            Self::Rakuten { dir, other } => {
                format!("{}{dir}/{}{}", RAKUTEN.0, other.as_deref().unwrap_or(&own), RAKUTEN.1)
            }
            Self::Google { rest } => format!("{GOOGLE}{rest}"),
            Self::Url { url } => url.clone().into_owned(),
        })
    }
}

/// Why an array is not a compressed cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Not one of the six forms.
    #[error("an array of {parts} parts is not a compressed cover")]
    Form {
        /// How many parts there are.
        parts: usize,
    },
    /// The URL it stands for may not be shown.
    #[error(transparent)]
    Url(#[from] Refused),
}

fn ndl(isbn: Isbn13, url: &str) -> Option<Compressed<'_>> {
    let name = url.strip_prefix(NDL.0)?.strip_suffix(NDL.1)?;
    is_segment(name).then(|| Compressed::Ndl { other: unless_own(isbn, name) })
}

fn rakuten(isbn: Isbn13, url: &str) -> Option<Compressed<'_>> {
    let (dir, name) = url.strip_prefix(RAKUTEN.0)?.strip_suffix(RAKUTEN.1)?.split_once('/')?;
    (is_segment(dir) && is_segment(name))
        .then(|| Compressed::Rakuten { dir: dir.into(), other: unless_own(isbn, name) })
}

/// One step of a path and nothing more, so that the form means what it says.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '?', '#'])
}

fn unless_own(isbn: Isbn13, name: &str) -> Option<Cow<'_, str>> {
    (name.as_bytes() != isbn.digits()).then_some(Cow::Borrowed(name))
}

impl Serialize for Compressed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut array = serializer.serialize_seq(Some(self.parts().count()))?;
        for part in self.parts() {
            array.serialize_element(part)?;
        }
        array.end()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn isbn() -> Isbn13 {
        "9784088511276".parse().unwrap()
    }

    #[test]
    fn bk_05_the_six_forms() {
        let cases = [
            ("https://ndlsearch.ndl.go.jp/thumbnail/9784088511276.jpg", r#"["n"]"#),
            ("https://ndlsearch.ndl.go.jp/thumbnail/9784123456789.jpg", r#"["n","9784123456789"]"#),
            (
                "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/1276/9784088511276.jpg?_ex=200x200",
                r#"["r","1276"]"#,
            ),
            (
                "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/6789/9784123456789.jpg?_ex=200x200",
                r#"["r","6789","9784123456789"]"#,
            ),
            (
                "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/1276/9784088511276_1_2.jpg?_ex=200x200",
                r#"["r","1276","9784088511276_1_2"]"#,
            ),
            (
                "http://books.google.com/books/content?id=wttstgEACAAJ&printsec=frontcover&img=1",
                r#"["g","wttstgEACAAJ&printsec=frontcover&img=1"]"#,
            ),
            ("https://example.net/covers/1.png", r#"["https://example.net/covers/1.png"]"#),
        ];
        for (url, json) in cases {
            let url = CoverUrl::parse(url).unwrap();
            assert_eq!(serde_json::to_string(&Compressed::new(isbn(), &url)).unwrap(), json);
            let parts: Vec<String> = serde_json::from_str(json).unwrap();
            assert_eq!(Compressed::from_parts(isbn(), &parts).unwrap().expand(isbn()), Ok(url));
        }
    }

    #[test]
    fn bk_05_what_only_looks_like_a_known_shape_is_kept_whole() {
        for url in [
            "http://ndlsearch.ndl.go.jp/thumbnail/9784088511276.jpg",
            "https://ndlsearch.ndl.go.jp/thumbnail/9784088511276.jpg?x",
            "https://ndlsearch.ndl.go.jp/thumbnail/.jpg",
            "https://ndlsearch.ndl.go.jp/thumbnail/a/9784088511276.jpg",
            "https://ndlsearch.ndl.go.jp/thumbnail/?9784088511276.jpg",
            "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/1276/9784088511276.jpg?_ex=300x300",
            "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/9784088511276.jpg?_ex=200x200",
            "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet//9784088511276.jpg?_ex=200x200",
            "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/1/2/9784088511276.jpg?_ex=200x200",
            "https://books.google.com/books/content?id=wttstgEACAAJ",
        ] {
            let cover = CoverUrl::parse(url).unwrap();
            assert_eq!(Compressed::new(isbn(), &cover).parts().collect::<Vec<_>>(), [url]);
        }
    }

    #[test]
    fn bk_05_a_foreign_array_is_refused() {
        let form = |parts| Err(Malformed::Form { parts });
        let refused = |reason| Err(Malformed::Url(reason));
        let cases: [(&[&str], _); 9] = [
            (&[], form(0)),
            (&["n", "1", "2"], form(3)),
            (&["g"], refused(Refused::Scheme)),
            (&["r"], refused(Refused::Scheme)),
            (&["x", "y"], form(2)),
            (&["r", "1", "2", "3"], form(4)),
            (&["javascript:alert(1)"], refused(Refused::Scheme)),
            (&["g", "a b"], refused(Refused::Character { character: ' ', at: 42 })),
            (&["n", "\""], refused(Refused::Character { character: '"', at: 38 })),
        ];
        for (parts, expected) in cases {
            assert_eq!(Compressed::from_parts(isbn(), parts), expected, "{parts:?}");
        }
    }

    /// URLs of the known shapes with hostile, empty and foreign parts, and texts that are no URLs at all.
    pub(crate) fn texts() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just(String::new()),
            Just("9784088511276".to_owned()),
            Just("9784088511276_1_2".to_owned()),
            Just("1276".to_owned()),
            "[0-9]{4}",
            "[0-9]{13}",
            "[A-Za-z0-9_-]{12}",
            "[ -~]{0,20}",
            any::<String>(),
        ];
        let ends = prop_oneof![
            Just(String::new()),
            Just(".jpg".to_owned()),
            Just(".jpg?_ex=200x200".to_owned()),
            Just("&printsec=frontcover&img=1&zoom=1&source=gbs_api".to_owned()),
            Just("&printsec=frontcover&img=1&zoom=1&edge=curl&source=gbs_api".to_owned()),
        ];
        let starts = prop_oneof![
            Just(NDL.0.to_owned()),
            Just(RAKUTEN.0.to_owned()),
            Just(GOOGLE.to_owned()),
            Just("https://".to_owned()),
            Just("http://例え.jp/".to_owned()),
            any::<String>(),
        ];
        (starts, part.clone(), prop_oneof![Just(""), Just("/")], part, ends)
            .prop_map(|(start, one, slash, two, end)| format!("{start}{one}{slash}{two}{end}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn bk_05_every_url_survives_the_round_trip_through_json(text in texts()) {
            let Ok(url) = CoverUrl::parse(text.clone()) else { return Ok(()) };
            let json = serde_json::to_string(&Compressed::new(isbn(), &url)).unwrap();
            let parts: Vec<String> = serde_json::from_str(&json).unwrap();
            let back = Compressed::from_parts(isbn(), &parts).unwrap().expand(isbn()).unwrap();
            prop_assert_eq!(back.as_str(), text);
        }
    }
}
