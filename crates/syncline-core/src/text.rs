//! Text that others wrote, made fit for a log line, a reason or a field: one line, no control characters, bounded.
//!
//! Whoever repeats foreign text cuts it here, so that it has the same shape and the same limit everywhere.

/// The most characters of a foreign text that a log line or a reason repeats.
pub const EXCERPT_MAX_CHARS: usize = 200;

/// The beginning of a foreign text on one line, cut at [`EXCERPT_MAX_CHARS`].
#[must_use]
pub fn excerpt(text: &str) -> String {
    one_line(text, EXCERPT_MAX_CHARS)
}

/// The end of a foreign text on one line, as long as an [`excerpt`]: a program says last what went wrong.
#[must_use]
pub fn excerpt_of_end(text: &str) -> String {
    let line = one_line(text, usize::MAX);
    let excess = line.chars().count().saturating_sub(EXCERPT_MAX_CHARS);
    line.chars().skip(excess).collect::<String>().trim_start().to_owned()
}

/// `text` on one line: every run of white space and control characters becomes one space, none is at either end, and the
/// line is cut at `max_chars`. The rest of a long text is not looked at.
#[must_use]
pub fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut room = max_chars;
    let is_gap = |character: char| character.is_whitespace() || character.is_control();
    for word in text.split(is_gap).filter(|word| !word.is_empty()) {
        if room == 0 {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
            room -= 1;
        }
        let before = line.len();
        line.extend(word.chars().take(room));
        room -= line[before..].chars().count();
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hs_11_an_excerpt_is_one_line_of_bounded_length() {
        assert_eq!(excerpt("  out of\r\n\torder\u{1b}[0m "), "out of order [0m");
        assert_eq!((excerpt(""), excerpt(" \u{7}\n")), (String::new(), String::new()));
        assert_eq!(excerpt(&"x".repeat(10_000)).chars().count(), EXCERPT_MAX_CHARS);
        // The last character would be the space between two words.
        assert_eq!(excerpt(&"注 ".repeat(10_000)).chars().count(), EXCERPT_MAX_CHARS - 1);
    }

    #[test]
    fn hs_11_the_end_of_a_text_is_cut_at_its_beginning() {
        let long = format!("{}\nthe disk is full\n", "noise ".repeat(1_000));
        let end = excerpt_of_end(&long);
        assert!(end.ends_with("noise the disk is full"), "{end}");
        assert!((EXCERPT_MAX_CHARS - 1..=EXCERPT_MAX_CHARS).contains(&end.chars().count()), "{end}");
        assert_eq!(excerpt_of_end(" all\tof it\n"), "all of it");
    }

    proptest! {
        #[test]
        fn hs_11_a_line_is_bounded_and_stays_as_it_is(text in any::<String>(), max_chars in 0..50_usize) {
            let once = one_line(&text, max_chars);
            prop_assert!(once.chars().count() <= max_chars && !once.contains(char::is_control));
            prop_assert_eq!(one_line(&once, max_chars), once);
        }
    }
}
