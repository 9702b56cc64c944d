//! The strings that hide how long tokens are.

/// Returns what is added to an event whose delta is so long: together they have a multiple of
/// sixteen characters. The vendor's are random; these are the same in every run.
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
