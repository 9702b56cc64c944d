//! Integers in the JSON text of arguments that do not fit into 64 bits.

/// Smallest number of digits of an integer that may not fit into 64 bits.
const LONG: usize = 19;

/// Returns `true` if a text is an integer that does not fit into 64 bits.
pub(crate) fn is_long(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    text.len() >= LONG
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<i64>().is_err()
        && text.parse::<u64>().is_err()
}

/// Returns a JSON text with quotes around each integer that does not fit into 64 bits. Returns `None` if it has no such
/// integer.
pub(crate) fn quoted(text: &str) -> Option<String> {
    if !has_many_digits(text.as_bytes()) {
        return None;
    }
    let (mut result, mut copied, mut is_changed) =
        (String::with_capacity(text.len() + 2), 0, false);
    let bytes = text.as_bytes();
    let (mut at, mut is_text) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => is_text = !is_text,
            // The next byte is escaped.
            b'\\' if is_text => at += 1,
            b'-' | b'0'..=b'9' if !is_text => {
                let is_part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                at += bytes.get(at..)?.iter().take_while(|byte| is_part(byte)).count();
                let number = text.get(start..at)?;
                if is_long(number) {
                    result.push_str(text.get(copied..start)?);
                    result.extend(["\"", number, "\""]);
                    (copied, is_changed) = (at, true);
                }
            }
            _ => {}
        }
    }
    result.push_str(text.get(copied..)?);
    is_changed.then_some(result)
}

/// Returns `true` if a text has [`LONG`] digits in a row. Most texts have not.
fn has_many_digits(text: &[u8]) -> bool {
    // Of so many digits in a row, one is at a position that this looks at. Each event of a stream is searched.
    let is_possible = text.iter().skip(LONG - 1).step_by(LONG).any(u8::is_ascii_digit);
    let is_long = |run: &[u8]| run.len() >= LONG;
    is_possible && text.split(|byte| !byte.is_ascii_digit()).any(is_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_beyond_64_bits_are_quoted() {
        for (text, expected) in [
            ("18446744073709551616", Some("\"18446744073709551616\"")),
            ("[-9223372036854775809, 1]", Some("[\"-9223372036854775809\", 1]")),
            (
                r#"{"a":"\"1\\","b":123456789012345678901}"#,
                Some(r#"{"a":"\"1\\","b":"123456789012345678901"}"#),
            ),
            ("18446744073709551615", None),
            ("-9223372036854775808", None),
            ("1.234567890123456789012", None),
            ("123456789012345678901e3", None),
            (r#""123456789012345678901""#, None),
            (r#"{"a":"x\"123456789012345678901"}"#, None),
            (r#"{"a":"ü 123456789012345678901"#, None),
            (r#""\"#, None),
            ("", None),
        ] {
            assert_eq!(quoted(text).as_deref(), expected, "{text}");
        }
        for before in 0..3 * LONG {
            let text = format!("{}18446744073709551616 ", " ".repeat(before));
            let expected = format!("{}\"18446744073709551616\" ", " ".repeat(before));
            assert_eq!(quoted(&text), Some(expected), "{before}");
        }
        // Any text, also one that is cut off.
        let whole = r#"{"a":"\"","b":[-123456789012345678901,18446744073709551616],"c":"ü"}"#;
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            quoted(whole.get(..end).unwrap());
        }
    }
}
