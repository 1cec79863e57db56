//! Text that others wrote, cut to what a log line or a list can hold.

/// As much of a foreign text as is worth telling.
pub(crate) const EXCERPT_MAX_CHARS: usize = 200;

/// The beginning of a foreign text on one line: every run of white space and control characters becomes one space, and
/// what is longer than [`EXCERPT_MAX_CHARS`] is cut off.
pub(crate) fn excerpt(text: &str) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        // Four bytes are the most that a character takes; the rest of a long text is not looked at.
        if line.len() >= 4 * EXCERPT_MAX_CHARS {
            break;
        }
    }
    line.chars().take(EXCERPT_MAX_CHARS).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_line_of_bounded_length() {
        assert_eq!(excerpt("  out of\r\n\torder\u{1b}[0m "), "out of order [0m");
        assert_eq!(excerpt(""), "");
        for long in ["x".repeat(10_000), "注 ".repeat(10_000)] {
            assert!((199..=EXCERPT_MAX_CHARS).contains(&excerpt(&long).chars().count()), "{long:.10}");
        }
    }
}
