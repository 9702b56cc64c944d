//! Encodes base64 with padding, and decodes it leniently.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_matches_the_vectors_of_rfc_4648() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, expected) in vectors {
            assert_eq!(encode(plain.as_bytes()), expected);
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
}
