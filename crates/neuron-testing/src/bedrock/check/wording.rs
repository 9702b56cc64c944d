//! Bedrock's error texts for a request that does not have the structure in `shapes.json`.

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::shape::{self, Null, Problem};

/// An object in a request to Bedrock.
pub(super) type Object<'a> = shape::Object<'a, Wording>;

/// Bedrock's shapes (the structure of its requests) and error texts.
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
        format!("{path}.{index}")
    }

    fn error(self, path: &str, problem: Problem<'_>) -> ApiError {
        match problem {
            Problem::Missing => constraint(path, Some("null"), "Member must not be null"),
            Problem::Unknown => {
                let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
                let place = parent.split('.').filter(|step| !step.is_empty());
                let place: String = place.map(|step| format!("/{step}")).collect();
                invalid(format!(
                    "Malformed input request: #{place}: extraneous key [{key}] is not permitted, \
                     please reformat your input and try again."
                ))
            }
            Problem::Type { expected, found } => mistyped(expected, found),
            Problem::Choice { allowed, found } => {
                let what = format!("Member must satisfy enum value set: [{}]", allowed.join(", "));
                constraint(path, Some(&format!("'{found}'")), &what)
            }
            Problem::Tag { tags, found, .. } => {
                let what = format!("Member must satisfy enum value set: [{}]", tags.join(", "));
                constraint(path, Some(&format!("'{found}'")), &what)
            }
            Problem::Range { least, found, .. } if found < least => {
                let what = format!("Member must have value greater than or equal to {least}");
                constraint(path, Some(&format!("'{found}'")), &what)
            }
            Problem::Range { most, found, .. } => {
                let what = format!("Member must have value less than or equal to {most}");
                constraint(path, Some(&format!("'{found}'")), &what)
            }
            Problem::Pattern => unmatched(path, "[a-zA-Z0-9_-]+"),
            Problem::Empty { .. } => {
                constraint(path, None, "Member must have length greater than or equal to 1")
            }
            Problem::Length { most, .. } => {
                let what = format!("Member must have length less than or equal to {most}");
                constraint(path, None, &what)
            }
        }
    }
}

/// Returns a `ValidationException` with this message.
pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::validation(message)
}

/// Returns an error of the model behind Bedrock, whose text Bedrock passes on.
pub(super) fn of_the_model(message: &str) -> ApiError {
    invalid(format!("The model returned the following errors: {message}"))
}

/// Returns the error for a string that does not match a regular expression.
pub(super) fn unmatched(path: &str, pattern: &str) -> ApiError {
    let what = format!("Member must satisfy regular expression pattern: {pattern}");
    constraint(path, None, &what)
}

/// Returns the error for a value that breaks a constraint of AWS's service model. `value` is the value as Bedrock
/// prints it. `None` does not print the value.
fn constraint(path: &str, value: Option<&str>, what: &str) -> ApiError {
    let value = value.map(|value| format!("{value} ")).unwrap_or_default();
    // Coral, the framework of AWS's services, counts the members of a list from 1.
    let steps = path.split('.').map(|step| match step.parse::<usize>() {
        Ok(index) => format!("{}.member", index + 1),
        Err(_) => step.to_owned(),
    });
    let path = steps.collect::<Vec<_>>().join(".");
    invalid(format!(
        "1 validation error detected: Value {value}at '{path}' failed to satisfy constraint: {what}"
    ))
}

/// Returns the error of AWS's JSON parser for a value of another type than `expected`, which is a kind in
/// `shapes.json`.
fn mistyped(expected: &str, found: &Value) -> ApiError {
    let found = match found {
        Value::Array(_) => return serialization("Start of list found where not expected"),
        Value::Object(_) => {
            return serialization("Start of structure or map found where not expected.");
        }
        Value::String(_) => "STRING_VALUE",
        Value::Number(_) => "NUMBER_VALUE",
        Value::Bool(true) => "TRUE_VALUE",
        Value::Bool(false) => "FALSE_VALUE",
        Value::Null => "NULL_VALUE",
    };
    let kind = match expected.split(' ').next().unwrap_or_default() {
        "text" | "name" | "one" => "a String",
        "boolean" => "a Boolean",
        "count" => "an Integer",
        "number" => "a Float",
        _ => return serialization("Unexpected field type"),
    };
    serialization(&format!("{found} can not be converted to {kind}"))
}

fn serialization(message: &str) -> ApiError {
    ApiError::new(400, "SerializationException", message)
}
