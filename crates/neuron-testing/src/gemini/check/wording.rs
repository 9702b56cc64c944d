//! Gemini's error texts for a request that does not have the structure in `shapes.json`.
//!
//! Gemini parses a request into protocol buffers. So its errors have the names of these buffers, in snake case.

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::shape::{self, Null, Problem};

/// An object in a request to Gemini.
pub(super) type Object<'a> = shape::Object<'a, Wording>;

/// Gemini's shapes (the structure of its requests) and error texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wording;

impl shape::Wording for Wording {
    type Error = ApiError;

    const NULL: Null = Null::Missing;

    fn shapes(self) -> &'static Value {
        static SHAPES: LazyLock<Value> =
            LazyLock::new(|| shape::parse(include_str!("shapes.json")));
        &SHAPES
    }

    fn item(self, path: &str, index: usize) -> String {
        format!("{path}[{index}]")
    }

    fn error(self, path: &str, problem: Problem<'_>) -> ApiError {
        let name = path.rsplit('.').next().unwrap_or_default();
        match problem {
            Problem::Missing => invalid_at(path, &format!("{} is not specified", snake_case(name))),
            Problem::Unknown => unknown(path, "Cannot find field."),
            Problem::Type { .. } if path.is_empty() => {
                unknown(path, "Root element must be a message.")
            }
            // A list of a single field is another error in Gemini's parser than a wrong value.
            Problem::Type { expected, found: Value::Array(_) } if !expected.starts_with("list") => {
                unknown(path, "Proto field is not repeating, cannot start list.")
            }
            Problem::Type { expected, found } => {
                let kind = match expected.split(' ').next().unwrap_or_default() {
                    "text" | "list" => "TYPE_STRING",
                    "boolean" => "TYPE_BOOL",
                    "count" | "integer" => "TYPE_INT32",
                    "number" => "TYPE_FLOAT",
                    "one" => "TYPE_ENUM",
                    _ => "TYPE_MESSAGE",
                };
                invalid_value(path, kind, &found.to_string())
            }
            Problem::Choice { found, .. } | Problem::Tag { found, .. } => {
                invalid_value(path, "TYPE_ENUM", &Value::from(found).to_string())
            }
            Problem::Range { is_integer: true, most: f64::MAX, .. } => {
                invalid_at(path, &format!("{} must be positive.", snake_case(name)))
            }
            Problem::Range { least, most, .. } => {
                let name = snake_case(name);
                invalid_at(path, &format!("{name} must be in the range [{least:?}, {most:?}]."))
            }
            Problem::Length { most, found, .. } => {
                let name = snake_case(name);
                invalid_at(path, &format!("at most {most} {name} are allowed, but {found} are set"))
            }
            Problem::Pattern | Problem::Empty { .. } => invalid_at(path, "invalid value"),
        }
    }
}

/// Returns a 400 with this message.
pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::invalid_argument(message)
}

/// Returns Gemini's error for a value that has the right type and breaks another rule.
pub(super) fn invalid_at(path: &str, what: &str) -> ApiError {
    invalid(format!("* GenerateContentRequest.{}: {what}", snake_case(path)))
}

/// Returns the error of the check that runs before [`invalid_at`]'s checks. Gemini words its errors differently.
pub(super) fn invalid_proto(path: &str, what: &str) -> ApiError {
    let path = snake_case(path);
    invalid(format!("The GenerateContentRequest proto is invalid:\n  * {path}: {what}"))
}

/// Returns the error of Gemini's JSON parser for a value that does not have the type `kind`. `found` is the value, or
/// the parser's reason.
pub(super) fn invalid_value(path: &str, kind: &str, found: &str) -> ApiError {
    invalid(format!("Invalid value at '{}' ({kind}), {found}", snake_case(path)))
}

/// Returns the error of Gemini's JSON parser for a field that it cannot read.
fn unknown(path: &str, why: &str) -> ApiError {
    let (place, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (format!(" at '{}'", snake_case(parent)), key),
        None => (String::new(), path),
    };
    invalid(format!("Invalid JSON payload received. Unknown name \"{key}\"{place}: {why}"))
}

/// Converts the field names of a path from camel case to snake case.
pub(super) fn snake_case(path: &str) -> String {
    let mut snake = String::with_capacity(path.len() + 8);
    for c in path.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
