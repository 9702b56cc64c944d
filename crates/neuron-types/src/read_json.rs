//! Reading what a model wrote, and saying what is wrong with it so that the model can mend it.

use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// Of a mistake, which quotes what is wrong, so many characters are told at each end.
const MOST_CHARACTERS: usize = 200;

/// JSON that does not fit a type: where, and what was expected there. Made by [`read_json`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{}{reason}", place(path))]
pub struct JsonMismatch {
    /// The place as a JSON path: `$.items[0].price`; `$` for the whole.
    pub path: String,
    /// What is wrong there, and what was expected.
    pub reason: String,
}

/// Reads a value from JSON that a model wrote: a tool's arguments, or a typed answer.
///
/// # Errors
///
/// [`JsonMismatch`], in words that the model can act on. A mistake that is long in itself is told in
/// parts.
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

/// [`read_json`] of a value that is not given away.
///
/// # Errors
///
/// As [`read_json`].
pub fn read_json_ref<T: DeserializeOwned>(value: &Value) -> Result<T, JsonMismatch> {
    // Places are only looked for where something is wrong, because that costs an allocation for each field.
    let fault = match T::deserialize(value) {
        Ok(read) => return Ok(read),
        Err(fault) => fault,
    };
    match serde_path_to_error::deserialize::<_, T>(value) {
        Err(error) => Err(JsonMismatch {
            path: json_path(error.path()),
            reason: shorten(error.inner().to_string()),
        }),
        // A type that reads a value only the second time has no place to tell.
        Ok(_) => Err(JsonMismatch { path: "$".to_owned(), reason: shorten(fault.to_string()) }),
    }
}

/// Writes a path as JSON path: `$` is the whole. Names that are not plain are quoted.
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

/// What concerns the whole has no place.
fn place(path: &str) -> String {
    match path {
        "$" => String::new(),
        path => format!("`{path}`: "),
    }
}

/// Leaves out the middle of a long text: what was found stands at its beginning, what was expected
/// at its end.
fn shorten(text: String) -> String {
    let total = text.chars().count();
    if total <= 2 * MOST_CHARACTERS {
        return text;
    }
    let start: String = text.chars().take(MOST_CHARACTERS).collect();
    let end: String = text.chars().skip(total - MOST_CHARACTERS).collect();
    format!("{start}…{end}")
}
