//! Anthropic's error texts for a request that does not have the structure in `shapes.json`.

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::shape::{self, Null, Problem};

/// An object in a request to Anthropic.
pub(super) type Object<'a> = shape::Object<'a, Wording>;

/// Anthropic's shapes (the structure of its requests) and error texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wording;

impl shape::Wording for Wording {
    type Error = ApiError;

    const NULL: Null = Null::Value;

    fn shapes(self) -> &'static Value {
        static SHAPES: LazyLock<Value> =
            LazyLock::new(|| shape::parse(include_str!("shapes.json")));
        &SHAPES
    }

    fn item(self, path: &str, index: usize) -> String {
        format!("{path}.{index}")
    }

    fn tagged(self, path: &str, tag: &str) -> String {
        // Anthropic adds the tag to a path, as in `messages.0.content.0.text`, except in these fields.
        let is_plain = path == "thinking" || path.starts_with("context_management");
        if is_plain { path.to_owned() } else { format!("{path}.{tag}") }
    }

    fn error(self, path: &str, problem: Problem<'_>) -> ApiError {
        let what = match problem {
            Problem::Missing => "Field required".to_owned(),
            Problem::Unknown => "Extra inputs are not permitted".to_owned(),
            Problem::Type { expected, .. } => {
                let words: Vec<&str> = expected.split(' ').collect();
                let expected = match words.as_slice() {
                    ["one", "of", allowed @ ..] => any_of(allowed),
                    ["list", ..] | ["text", "or", "list", ..] => "a valid list".into(),
                    ["text" | "name", ..] => "a valid string".into(),
                    ["boolean"] => "a valid boolean".into(),
                    ["count", ..] => "a valid integer".into(),
                    ["number", ..] => "a valid number".into(),
                    ["map"] => "a valid dictionary".into(),
                    _ => "an object".into(),
                };
                format!("Input should be {expected}")
            }
            Problem::Choice { allowed, .. } => format!("Input should be {}", any_of(allowed)),
            Problem::Tag { key, tags, found } => format!(
                "Input tag '{found}' found using '{key}' does not match any of the expected tags: \
                 {}",
                quoted(tags).join(", ")
            ),
            Problem::Range { is_integer: true, least, .. } => {
                format!("Input should be greater than or equal to {least}")
            }
            Problem::Range { least, most, .. } => format!("range: {least}..{most}"),
            Problem::Pattern | Problem::Empty { .. } => {
                "String should match pattern '^[a-zA-Z0-9_-]+$'".to_owned()
            }
            Problem::Length { most, .. } => format!("String should have at most {most} characters"),
        };
        ApiError::invalid_request(match path {
            "" => what,
            path => format!("{path}: {what}"),
        })
    }
}

/// Returns the words in quotes, joined as `'a', 'b' or 'c'`.
fn any_of(words: &[&str]) -> String {
    match quoted(words).as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        few => few.concat(),
    }
}

fn quoted(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| format!("'{word}'")).collect()
}

/// Returns a 400 with this message.
pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::invalid_request(message)
}
