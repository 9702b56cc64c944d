//! Splits a text into pieces of a fixed number of characters.

/// Splits `text` into pieces of `chars` characters (Unicode scalar values). The last piece may be shorter. An empty
/// text has no pieces. Zero `chars` means 1.
pub(crate) fn chunks(text: &str, chars: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(chars.max(1)).map_or(rest.len(), |(index, _)| index);
        let (chunk, after) = rest.split_at(end);
        rest = after;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, chars: usize, expected: &[&str]) {
        assert_eq!(chunks(text, chars).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn chunks_split_only_between_characters() {
        check("", 3, &[]);
        check("abc", 3, &["abc"]);
        check("abcd", 3, &["abc", "d"]);
        check("aé漢🦀", 1, &["a", "é", "漢", "🦀"]);
        check("🦀🦀🦀", 2, &["🦀🦀", "🦀"]);
        check("ab", 0, &["a", "b"]);
    }
}
