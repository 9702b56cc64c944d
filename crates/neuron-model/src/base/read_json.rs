//! Deserialisation of JSON from a model, with errors that the model can correct.

use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// Number of characters that [`shorten`] keeps at each end of an error text. The text may be long, because it quotes
/// the invalid value.
const MAX_CHARACTERS: usize = 200;

/// A mismatch between a JSON value and the expected type. Returned by [`read_json`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{}{reason}", location(path))]
pub struct JsonMismatch {
    /// JSON path of the mismatch in the value, for example `$.items[0].price`. `$` means the whole value.
    pub path: String,
    /// Description of the mismatch, with the found value and the expected type.
    pub reason: String,
}

/// Deserialises JSON that a model wrote, such as tool arguments or a typed output.
///
/// # Errors
///
/// The first [`JsonMismatch`]. Its text names the position and the reason, so that the model can correct the value. The
/// middle of a long text is omitted.
///
/// # Example
///
/// ```
/// use neuron_model::read_json;
/// use serde_json::json;
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Item {
///     price: f64,
/// }
///
/// let items: Vec<Item> = read_json(json!([{ "price": 1.5 }]))?;
/// assert_eq!(items[0].price, 1.5);
///
/// let mismatch = read_json::<Vec<Item>>(json!([{ "price": "cheap" }])).unwrap_err();
/// assert_eq!(mismatch.to_string(), "`$[0].price`: invalid type: string \"cheap\", expected f64");
/// # Ok::<(), neuron_model::JsonMismatch>(())
/// ```
pub fn read_json<T: DeserializeOwned>(value: Value) -> Result<T, JsonMismatch> {
    read_json_ref(&value)
}

/// Deserialises a borrowed JSON value that a model wrote. See [`read_json`].
///
/// # Errors
///
/// The errors of [`read_json`].
pub fn read_json_ref<T: DeserializeOwned>(value: &Value) -> Result<T, JsonMismatch> {
    // Track the path only after an error, because it costs an allocation for each field.
    let fault = match T::deserialize(value) {
        Ok(read) => return Ok(read),
        Err(fault) => fault,
    };
    match serde_path_to_error::deserialize::<_, T>(value) {
        Err(error) => Err(JsonMismatch {
            path: json_path(error.path()),
            reason: shorten(error.inner().to_string()),
        }),
        // The second attempt can succeed if `T` has a stateful `Deserialize`. Then the path of the error is unknown.
        Ok(_) => Err(JsonMismatch { path: "$".to_owned(), reason: shorten(fault.to_string()) }),
    }
}

/// Formats a path as a JSON path, such as `$.items[0]["a.b"]`. Names with special characters are quoted in brackets.
fn json_path(path: &Path) -> String {
    let mut place = "$".to_owned();
    for segment in path {
        // Writing to a string cannot fail.
        match segment {
            Segment::Seq { index } => write!(place, "[{index}]").ok(),
            Segment::Map { key: name } | Segment::Enum { variant: name } => match is_plain(name) {
                true => write!(place, ".{name}").ok(),
                false => write!(place, "[{name:?}]").ok(),
            },
            Segment::Unknown => write!(place, ".?").ok(),
        };
    }
    shorten(place)
}

/// Returns `true` if a field name needs no quotes in a JSON path.
fn is_plain(name: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || character == '_';
    !name.is_empty() && name.chars().all(is_plain)
}

/// Formats the path as the start of an error text. Returns an empty text for `$`, the whole value.
fn location(path: &str) -> String {
    match path {
        "$" => String::new(),
        path => format!("`{path}`: "),
    }
}

/// Omits the middle of a long error text. The start contains the invalid value, and the end contains the expected type.
fn shorten(text: String) -> String {
    let total = text.chars().count();
    if total <= 2 * MAX_CHARACTERS {
        return text;
    }
    let start: String = text.chars().take(MAX_CHARACTERS).collect();
    let end: String = text.chars().skip(total - MAX_CHARACTERS).collect();
    format!("{start}…{end}")
}
