//! Encodes base64 with padding, decodes it leniently, and finds the first error in a base64 text at the position that Go reports.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// A decoder of base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64 in the standard or the URL-safe alphabet, with or without padding, as the JSON format of protocol
/// buffers does. Returns `None` if the text is not valid.
pub(crate) fn decode_lenient(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text.replace('-', "+").replace('_', "/")).ok()
}

/// Returns the byte offset of the first error in a base64 text, as Go's decoder reports it. Returns `None` if the text
/// is valid.
///
/// The decoder of the `base64` crate is not used, because it reports another offset for some texts.
pub(crate) fn first_error(text: &str) -> Option<usize> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let letters = text.trim_end_matches('=');
    let is_whole = text.len().is_multiple_of(4) && text.len() - letters.len() <= 2;
    let wrong = letters.bytes().position(|byte| !is_letter(byte));
    wrong.or((!is_whole).then_some(letters.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_matches_the_vectors_of_rfc_4648() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, expected) in vectors {
            assert_eq!(encode(plain.as_bytes()), expected);
            assert_eq!(first_error(expected), None);
        }
        assert_eq!(encode(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn decode_lenient_takes_both_alphabets_with_or_without_padding() {
        for text in ["//79Zg==", "__79Zg==", "__79Zg"] {
            assert_eq!(decode_lenient(text), Some(vec![0xff, 0xfe, 0xfd, b'f']), "{text}");
        }
        assert_eq!(decode_lenient("?"), None);
        assert_eq!(decode_lenient("A"), None);
    }

    #[test]
    fn first_error_returns_the_offset_of_invalid_base64() {
        assert_eq!(first_error("data:image/png;base64,AAAA"), Some(4));
        assert_eq!(first_error("AAA"), Some(3));
        assert_eq!(first_error("A==="), Some(1));
        assert_eq!(first_error("AAA\n"), Some(3));
    }
}
