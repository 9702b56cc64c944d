//! Base64 with padding: writing it, and finding where it is not.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut bits = 0_u32;
        for index in 0..3 {
            bits = bits << 8 | chunk.get(index).map_or(0, |byte| u32::from(*byte));
        }
        for index in 0..4 {
            let letter = ALPHABET.get((bits >> (18 - 6 * index) & 63) as usize);
            text.push(match letter {
                Some(letter) if index <= chunk.len() => char::from(*letter),
                _ => '=',
            });
        }
    }
    text
}

/// Returns where the text stops being base64, if it does.
pub(crate) fn first_error(text: &str) -> Option<usize> {
    let letters = text.trim_end_matches('=');
    let padding = text.len() - letters.len();
    let wrong = letters.bytes().position(|byte| !ALPHABET.contains(&byte));
    wrong.or_else(|| {
        let whole = text.len().is_multiple_of(4) && padding <= 2;
        (!whole).then_some(letters.len())
    })
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
