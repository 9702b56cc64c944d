//! JSON for session storages and journals. Every written value can be read again without loss.
//!
//! The functions support up to [`DEEPEST`] levels of nesting and keep every number exactly. By default, serde_json
//! refuses to read more than 127 levels, which stored messages may exceed, and rounds some numbers. All storages use
//! this module and therefore have the same limits.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Error;

/// Maximum nesting depth of stored JSON. The depth is limited because reading needs stack space for each level.
///
/// The maximum must exceed 127 levels. Tool arguments from providers have up to 127 levels, and the message around them
/// has more.
pub const DEEPEST: usize = 256;

/// Appends a value to `out` as JSON.
///
/// # Errors
///
/// Returns an error if the value has no JSON form, or is nested more than [`DEEPEST`] levels deep.
pub fn write(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Error> {
    let start = out.len();
    serde_json::to_writer(&mut *out, value)?;
    // Check only the new bytes, because `out` may contain other data before them.
    check_depth(out.get(start..).unwrap_or_default())
}

/// Serialises a value to a JSON string.
///
/// # Errors
///
/// The errors of [`write`](fn@write).
pub fn to_string(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value)?;
    check_depth(text.as_bytes())?;
    Ok(text)
}

/// Deserialises a value from JSON. The bytes must contain exactly one value.
///
/// # Errors
///
/// Returns an error if the bytes are not exactly one JSON value of the type `T`, or if the JSON is nested more than
/// [`DEEPEST`] levels deep.
///
/// # Example
///
/// ```
/// use neuron_types::stored_json;
///
/// let mut json = Vec::new();
/// stored_json::write(&mut json, &0.1234567890123456789)?;
/// assert_eq!(stored_json::read::<f64>(&json)?, 0.1234567890123456789);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    check_depth(json)?;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    // Disable the limit of serde_json, which is only 127 levels. The depth was checked above.
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Checks that JSON is nested at most [`DEEPEST`] levels deep.
///
/// [`write`](fn@write) and [`to_string`] make this check themselves. A caller that assembles JSON from several pieces
/// must check the whole JSON.
///
/// # Errors
///
/// Returns an error if the JSON is nested deeper.
pub fn check_depth(json: &[u8]) -> Result<(), Error> {
    match is_too_deep(json) {
        true => Err(Error::custom(format!("it is nested more than {DEEPEST} deep"))),
        false => Ok(()),
    }
}

/// Returns `true` if more than [`DEEPEST`] brackets outside of strings are open at the same time.
fn is_too_deep(json: &[u8]) -> bool {
    let (mut depth, mut index) = (0usize, 0);
    while let Some(byte) = json.get(index) {
        match byte {
            b'[' | b'{' => depth += 1,
            // Malformed JSON may close more brackets than it opens. serde_json reports the error.
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => index = end_of_string(json, index + 1),
            _ => {}
        }
        if depth > DEEPEST {
            return true;
        }
        index += 1;
    }
    false
}

/// Returns the position of the closing quotation mark of the string whose content begins at `start`. Returns the length
/// of `json` if the string is not closed.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut index = start;
    while let Some(found) = json.get(index..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        index += found;
        if json.get(index) == Some(&b'"') {
            return index;
        }
        // Skip the backslash and the escaped character.
        index += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DEEPEST, check_depth, read, to_string, write};

    const TOO_DEEP: &str = "it is nested more than 256 deep";

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1.1e-7), |inner, _| json!([inner]))
    }

    #[track_caller]
    fn check(json: &str, expected: bool) {
        assert_eq!(check_depth(json.as_bytes()).is_err(), expected, "{json:.100}");
    }

    #[test]
    fn written_values_can_be_read() {
        let texts = ["[".repeat(1000), "\\[\"{".repeat(300), "\u{1f980}\\\0".repeat(300)];
        let texts = texts.map(|text| json!({ text.clone(): [text] }));
        for value in [nested(0), nested(127), nested(DEEPEST)].into_iter().chain(texts) {
            let mut json = b"before".to_vec();
            write(&mut json, &value).unwrap();
            assert_eq!(read::<Value>(&json[6..]).unwrap(), value);
            assert_eq!(to_string(&value).unwrap().as_bytes(), &json[6..]);
            // PostgreSQL's text type cannot store NUL.
            assert!(!json.contains(&0));
        }
    }

    #[test]
    fn too_deep_values_are_neither_written_nor_read() {
        let error = write(&mut Vec::new(), &nested(DEEPEST + 1)).unwrap_err();
        assert_eq!(error.to_string(), TOO_DEEP);
        assert_eq!(to_string(&nested(DEEPEST + 1)).unwrap_err().to_string(), TOO_DEEP);
        for json in ["[".repeat(1_000_000), "[".repeat(257) + &"]".repeat(257)] {
            assert_eq!(read::<Value>(json.as_bytes()).unwrap_err().to_string(), TOO_DEEP);
        }
    }

    #[test]
    fn trailing_characters_are_an_error() {
        let error = read::<Value>(b"1 2").unwrap_err().to_string();
        assert_eq!(error, "trailing characters at line 1 column 3");
        read::<Value>(b"").unwrap_err();
    }

    #[test]
    fn depth_ignores_brackets_in_strings() {
        let open = |levels| "[{\"a\":".repeat(levels / 2);
        check(&open(DEEPEST), false);
        check(&open(DEEPEST + 2), true);
        check(&format!("{}]]", open(DEEPEST)), false);
        check(&format!("{}\"[\"]{{", open(DEEPEST)), false);
        check(&format!("{}\"\\\"[\"", open(DEEPEST)), false);
        check(&format!("{}\"\\\\\"[", open(DEEPEST)), true);
        check(&format!("\"{}", open(DEEPEST * 2).replace('"', "")), false);
        check(&"[]".repeat(1000), false);
        check("\"\\", false);
        check("", false);
    }
}
