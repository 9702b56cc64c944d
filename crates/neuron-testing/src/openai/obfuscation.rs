//! The strings that hide the lengths of tokens.

/// Returns the padding for an event with this delta. The length of delta and padding together is a multiple of sixteen
/// characters. The vendor's padding is random. This padding is the same in every run.
pub(super) fn obfuscation(delta: &str) -> String {
    let missing = LETTERS.len() - delta.chars().count() % LETTERS.len();
    LETTERS.chars().take(missing).collect()
}

const LETTERS: &str = "aZ3kQ9xLb7Rm0TyW";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_evened_out() {
        for delta in ["", "a", "añ🦀", "0123456789abcdef", "0123456789abcdefg"] {
            let both = delta.chars().count() + obfuscation(delta).chars().count();
            assert_eq!(both % 16, 0, "{delta}");
            assert!(!obfuscation(delta).is_empty());
        }
    }
}
