//! The padding that hides the lengths of tokens in a stream.

/// Returns the padding of an event whose delta is `delta`. Delta and padding together have a multiple of 16 characters.
///
/// OpenAI's padding is random. This padding is the same in every run.
pub(super) fn obfuscation(delta: &str) -> String {
    let missing = LETTERS.len() - delta.chars().count() % LETTERS.len();
    LETTERS.chars().take(missing).collect()
}

const LETTERS: &str = "aZ3kQ9xLb7Rm0TyW";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obfuscation_pads_to_a_multiple_of_16_characters() {
        for delta in ["", "a", "añ🦀", "0123456789abcdef", "0123456789abcdefg"] {
            let both = delta.chars().count() + obfuscation(delta).chars().count();
            assert_eq!(both % 16, 0, "{delta}");
            assert!(!obfuscation(delta).is_empty());
        }
    }
}
