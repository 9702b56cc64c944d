//! Base64 with padding: encoding, and the position of the first error.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};

pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns the position of the first byte that is not base64. Bits that the last character has too
/// many are ignored, as Go does.
pub(crate) fn first_error(text: &str) -> Option<usize> {
    let letters = text.trim_end_matches('=').len();
    match STANDARD.decode(text) {
        Ok(_) | Err(DecodeError::InvalidLastSymbol(..)) => None,
        Err(DecodeError::InvalidByte(position, _)) => Some(position.min(letters)),
        Err(_) => Some(letters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_vectors() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, expected) in vectors {
            assert_eq!(encode(plain.as_bytes()), expected);
            assert_eq!(first_error(expected), None);
        }
        assert_eq!(encode(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn what_is_not_base64_is_found() {
        assert_eq!(first_error("data:image/png;base64,AAAA"), Some(4));
        assert_eq!(first_error("AAA"), Some(3));
        assert_eq!(first_error("A==="), Some(1));
        assert_eq!(first_error("AAA\n"), Some(3));
    }
}
