//! Deserialisation of JSON from a model, with errors that the model can correct.

use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// Maximum number of characters of an error's text at each end. The text quotes the invalid value.
const MAX_CHARACTERS: usize = 200;

/// A mismatch between JSON and a type, with its place and reason. Returned by [`read_json`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{}{reason}", location(path))]
pub struct JsonMismatch {
    /// JSON path of the place, for example `$.items[0].price`. `$` means the whole value.
    pub path: String,
    /// The reason, with the expected type.
    pub reason: String,
}

/// Deserialises JSON that a model wrote, such as tool arguments or a typed output.
///
/// # Errors
///
/// [`JsonMismatch`], in words that the model can act on. The middle of a long text is omitted.
///
/// # Example
///
/// ```
/// use neuron_types::read_json;
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
/// # Ok::<(), neuron_types::JsonMismatch>(())
/// ```
pub fn read_json<T: DeserializeOwned>(value: Value) -> Result<T, JsonMismatch> {
    read_json_ref(&value)
}

/// Like [`read_json`], with a borrowed value.
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
        // The second attempt succeeded, which a stateful `Deserialize` can do. Then the path is unknown.
        Ok(_) => Err(JsonMismatch { path: "$".to_owned(), reason: shorten(fault.to_string()) }),
    }
}

/// Formats a path as a JSON path. Names with special characters are quoted.
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

fn is_plain(name: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || character == '_';
    !name.is_empty() && name.chars().all(is_plain)
}

/// Formats the place of an error. The whole value has no place.
fn location(path: &str) -> String {
    match path {
        "$" => String::new(),
        path => format!("`{path}`: "),
    }
}

/// Omits the middle of a long text. The start has the invalid value, the end has the expected type.
fn shorten(text: String) -> String {
    let total = text.chars().count();
    if total <= 2 * MAX_CHARACTERS {
        return text;
    }
    let start: String = text.chars().take(MAX_CHARACTERS).collect();
    let end: String = text.chars().skip(total - MAX_CHARACTERS).collect();
    format!("{start}…{end}")
}
