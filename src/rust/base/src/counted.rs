//! Words of messages: numbers with a noun, as in "1 program" and "2 programs", and text that may be long.

/// The number and the noun, which gets an `s` for any number but 1.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// The first `most` characters of a text, and "..." if there are more.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn only_one_is_singular() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "byte")), ["0 bytes", "1 byte", "2 bytes"]);
    }
}
