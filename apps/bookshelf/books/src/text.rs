//! Text from outside, made fit to keep: one line, no control characters, bounded.

use syncline_core::text::one_line;

use crate::book::FIELD_MAX_CHARS;

/// `text` with every run of spaces and control characters made one space, cut at [`FIELD_MAX_CHARS`].
/// `None` if nothing is left.
pub(crate) fn tidy(text: &str) -> Option<String> {
    let tidy = one_line(text, FIELD_MAX_CHARS);
    (!tidy.is_empty()).then_some(tidy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bk_04_text_is_one_tidy_line() {
        assert_eq!(tidy(" 小さな港の\n　潮汐表\u{0} \t"), Some("小さな港の 潮汐表".into()));
        assert_eq!(tidy(" \u{7}\n"), None);
        assert_eq!(tidy(&"長".repeat(9_999)), Some("長".repeat(FIELD_MAX_CHARS)));
    }

    proptest! {
        #[test]
        fn bk_04_tidy_text_is_bounded_and_stays_as_it_is(text in any::<String>(), times in 1..200_usize) {
            if let Some(once) = tidy(&text.repeat(times)) {
                prop_assert!(once.chars().count() <= FIELD_MAX_CHARS && !once.contains(char::is_control));
                prop_assert_eq!(tidy(&once), Some(once));
            }
        }
    }
}
