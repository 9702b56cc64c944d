//! OpenAI's error texts for a request that does not have the structure in `shapes.json`.

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::shape::{self, Null, Problem};

/// An object in a request to OpenAI.
pub(super) type Object<'a> = shape::Object<'a, Wording>;

/// OpenAI's shapes (the structure of its requests) and error texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wording {
    /// `true` for servers that ignore unknown parameters.
    pub(super) is_lenient: bool,
}

impl shape::Wording for Wording {
    type Error = ApiError;

    const NULL: Null = Null::Missing;

    fn shapes(self) -> &'static Value {
        static SHAPES: LazyLock<Value> =
            LazyLock::new(|| shape::parse(include_str!("shapes.json")));
        &SHAPES
    }

    fn is_lenient(self) -> bool {
        self.is_lenient
    }

    fn item(self, path: &str, index: usize) -> String {
        format!("{path}[{index}]")
    }

    fn error(self, path: &str, problem: Problem<'_>) -> ApiError {
        let (what, code) = match problem {
            Problem::Missing => {
                let text = format!("Missing required parameter: '{path}'.");
                return refused(path, text).code("missing_required_parameter");
            }
            Problem::Unknown => {
                let text = format!("Unknown parameter: '{path}'.");
                return refused(path, text).code("unknown_parameter");
            }
            Problem::Type { expected, found } => {
                return invalid_type(path, described(path, expected), found);
            }
            Problem::Choice { allowed, found } => return invalid_value(path, found, allowed),
            Problem::Tag { key, tags, found } => {
                return invalid_value(&format!("{path}.{key}"), found, tags);
            }
            Problem::Range { is_integer, least, most, found } => {
                let kind = if is_integer { "integer" } else { "decimal" };
                let (side, code, sign, bound) = match found < least {
                    true => ("below minimum", "below_min", ">=", least),
                    false => ("above maximum", "above_max", "<=", most),
                };
                let expected = format!("Expected a value {sign} {bound}, but got {found} instead.");
                (format!("{kind} {side} value. {expected}"), format!("{kind}_{code}_value"))
            }
            Problem::Pattern => {
                let what = "string does not match pattern. Expected a string that matches the \
                            pattern '^[a-zA-Z0-9_-]+$'.";
                (what.to_owned(), "invalid_value".to_owned())
            }
            Problem::Empty { is_list } => {
                let (a, kind) = container(is_list);
                let expected = format!("Expected {a} {kind} with minimum length 1");
                let what = format!("empty {kind}. {expected}, but got an empty {kind} instead.");
                (what, format!("empty_{kind}"))
            }
            Problem::Length { is_list, most, found } => {
                let (a, kind) = container(is_list);
                let expected = format!("Expected {a} {kind} with maximum length {most}");
                let found = format!("but got {a} {kind} with length {found} instead.");
                let code = format!("{kind}_above_max_length");
                (format!("{kind} too long. {expected}, {found}"), code)
            }
        };
        invalid(path, &what, &code)
    }
}

/// Returns a 400 for an invalid value at `path`. `what` is the error text that follows the path, and `code` is the
/// error code.
pub(super) fn invalid(path: &str, what: &str, code: &str) -> ApiError {
    refused(path, format!("Invalid '{path}': {what}")).code(code)
}

/// Returns a 400 for a string at `path` that is not one of the allowed strings.
pub(super) fn invalid_value(path: &str, value: &str, allowed: &[&str]) -> ApiError {
    let quoted: Vec<String> = allowed.iter().map(|value| format!("'{value}'")).collect();
    let supported = match quoted.as_slice() {
        [one, other] => format!("{one} and {other}"),
        [rest @ .., last] if !rest.is_empty() => format!("{}, and {last}", rest.join(", ")),
        few => few.concat(),
    };
    let text = format!("Invalid value: '{value}'. Supported values are: {supported}.");
    refused(path, text).code("invalid_value")
}

/// Returns a 400 for a value of a wrong type at `path`. `expected` describes the expected type.
pub(super) fn invalid_type(path: &str, expected: &str, found: &Value) -> ApiError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let (subject, param) = match path {
        "" => ("the request body".to_owned(), None),
        path => (format!("'{path}'"), Some(path.to_owned())),
    };
    let text = format!("Invalid type for {subject}: expected {expected}, but got {found} instead.");
    ApiError { param, ..ApiError::invalid_request(text).code("invalid_type") }
}

/// Returns OpenAI's words for an expected type, such as `an array`. `kind` is the type in the notation of
/// `shapes.json`. For some fields, the words also depend on `path`.
fn described(path: &str, kind: &str) -> &'static str {
    match kind {
        "text or list of object" if path == "input" => "one of a string or array of input items",
        "text or list of object" => "one of an array of objects or string",
        "text or nonempty list of object" => "one of a string or array of objects",
        _ if kind.starts_with("text or list") => "a string or array of strings",
        _ if kind.contains("list") => "an array",
        _ if kind.starts_with("integer") => "an integer",
        _ if kind.starts_with("number") => "a decimal",
        _ if kind.starts_with("boolean") => "a boolean",
        _ if ["text", "name", "one "].iter().any(|start| kind.starts_with(start)) => "a string",
        _ => "an object",
    }
}

/// Returns OpenAI's article and noun for a list or a string.
fn container(is_list: bool) -> (&'static str, &'static str) {
    if is_list { ("an", "array") } else { ("a", "string") }
}

/// Returns a 400 without a code. `path` is the parameter that caused the error.
pub(super) fn refused(path: &str, text: impl Into<String>) -> ApiError {
    ApiError::invalid_request(text).param(path)
}
