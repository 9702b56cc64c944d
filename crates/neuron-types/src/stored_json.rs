//! JSON as storages keep it: what is written can be read again, to the last bit.
//!
//! serde_json refuses what is nested more than 127 deep, which is less than providers send, and rounds
//! some numbers. A storage writes and reads by these functions, and so has one rule with all others: up
//! to [`DEEPEST`] levels, and every number as it was.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Error;

/// How deep JSON may be nested. Whoever reads it needs stack for each level; the arguments of a tool
/// may come from providers with 127, and a message puts more around them.
pub const DEEPEST: usize = 256;

/// Writes a value behind what is there.
///
/// # Errors
///
/// When the value cannot be JSON, or is nested more than [`DEEPEST`] deep.
pub fn write(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Error> {
    let start = out.len();
    serde_json::to_writer(&mut *out, value)?;
    check_depth(out.get(start..).unwrap_or_default())
}

/// [Writes](fn@write) a value as a string of its own.
///
/// # Errors
///
/// As [`write`](fn@write).
pub fn to_string(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value)?;
    check_depth(text.as_bytes())?;
    Ok(text)
}

/// Reads a value: all of the bytes, and nothing but one value.
///
/// # Errors
///
/// When the bytes are not that, or are nested more than [`DEEPEST`] deep.
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
    // It was checked, and the usual limit is less.
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Checks that JSON is nested at most [`DEEPEST`] deep, for those who write it in pieces.
///
/// # Errors
///
/// When it is deeper.
pub fn check_depth(json: &[u8]) -> Result<(), Error> {
    match is_too_deep(json) {
        true => Err(Error::custom(format!("it is nested more than {DEEPEST} deep"))),
        false => Ok(()),
    }
}

/// Counts brackets that are not in strings.
fn is_too_deep(json: &[u8]) -> bool {
    let (mut depth, mut index) = (0usize, 0);
    while let Some(byte) = json.get(index) {
        match byte {
            b'[' | b'{' => depth += 1,
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

/// Where the quotation mark is that ends a string. Most of a conversation is strings, so they are
/// skipped quickly.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut index = start;
    while let Some(found) = json.get(index..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        index += found;
        if json.get(index) == Some(&b'"') {
            return index;
        }
        // And what it escapes.
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
    fn what_is_written_can_be_read() {
        let texts = ["[".repeat(1000), "\\[\"{".repeat(300), "\u{1f980}\\\0".repeat(300)];
        let texts = texts.map(|text| json!({ text.clone(): [text] }));
        for value in [nested(0), nested(127), nested(DEEPEST)].into_iter().chain(texts) {
            let mut json = b"before".to_vec();
            write(&mut json, &value).unwrap();
            assert_eq!(read::<Value>(&json[6..]).unwrap(), value);
            assert_eq!(to_string(&value).unwrap().as_bytes(), &json[6..]);
            // PostgreSQL's text has none.
            assert!(!json.contains(&0));
        }
    }

    #[test]
    fn what_is_too_deep_is_neither_written_nor_read() {
        let error = write(&mut Vec::new(), &nested(DEEPEST + 1)).unwrap_err();
        assert_eq!(error.to_string(), TOO_DEEP);
        assert_eq!(to_string(&nested(DEEPEST + 1)).unwrap_err().to_string(), TOO_DEEP);
        for json in ["[".repeat(1_000_000), "[".repeat(257) + &"]".repeat(257)] {
            assert_eq!(read::<Value>(json.as_bytes()).unwrap_err().to_string(), TOO_DEEP);
        }
    }

    #[test]
    fn what_is_more_than_one_value_is_not_read() {
        let error = read::<Value>(b"1 2").unwrap_err().to_string();
        assert_eq!(error, "trailing characters at line 1 column 3");
        read::<Value>(b"").unwrap_err();
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
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
