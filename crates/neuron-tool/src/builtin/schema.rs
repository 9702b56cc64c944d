//! Compiled JSON Schemas with errors that a model can correct.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{PatternOptions, ValidationError, Validator};
use neuron_types::{ToolCall, ToolError};
use serde_json::Value;

use crate::json_path::JsonPath;
use crate::text;

/// Maximum number of errors in one error text.
const MAX_ERRORS: usize = 5;
/// Maximum number of characters of one error, which may quote a long invalid value.
const MAX_CHARACTERS: usize = 300;

/// A compiled JSON Schema, or the reason why the schema is invalid.
#[derive(Debug)]
pub(super) struct Schema(Result<Validator, String>);

impl Schema {
    /// Compiles a schema. If the schema is invalid, [`problem`](Self::problem) returns the reason.
    pub(super) fn new(schema: &Value) -> Self {
        // Schemas may come from an untrusted server. Fetch no references, and limit the running time and the size of
        // patterns.
        let patterns =
            PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1024 * 1024);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        Self(options.build(schema).map_err(|error| describe(&error)))
    }

    /// Returns the reason why the schema is invalid. Returns `None` for a valid schema.
    pub(super) fn problem(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Validates the arguments of a call. Returns the errors as a text for the model, or `None` if the arguments are
    /// valid.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] if the schema is invalid.
    pub(super) fn check(&self, call: &ToolCall) -> Result<Option<String>, ToolError> {
        let validator = self.0.as_ref().map_err(|problem| {
            let text = format!("the schema for `{}` cannot be used: {problem}", call.name);
            ToolError::ExecutionFailed(text.into())
        })?;
        let faults = faults(validator, &call.input);
        Ok(faults.map(|faults| format!("arguments of `{}`: {faults}", call.name)))
    }

    /// Validates a value. Returns the errors as a text for the model. Returns `None` if the value is valid, or if the
    /// schema is invalid.
    pub(super) fn faults(&self, value: &Value) -> Option<String> {
        faults(self.0.as_ref().ok()?, value)
    }
}

/// Returns the first errors of a value as a text for the model. Returns `None` if the value is valid.
fn faults(validator: &Validator, value: &Value) -> Option<String> {
    if validator.is_valid(value) {
        return None;
    }
    let mut faults = validator.iter_errors(value);
    let shown: Vec<String> =
        faults.by_ref().take(MAX_ERRORS).map(|fault| describe(&fault)).collect();
    let more = if faults.next().is_some() { "; and more" } else { "" };
    Some(shown.join("; ") + more)
}

/// Formats an error for the model, with the JSON path of the invalid value and the expectation.
fn describe(error: &ValidationError<'_>) -> String {
    if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind() {
        let depth = |error: &ValidationError<'_>| error.instance_path().segments().count();
        let deepest = |faults: &Vec<ValidationError<'_>>| faults.iter().map(depth).max();
        // No alternative matches. Report the alternative with the deepest error, because the model probably meant it.
        let meant = context.iter().max_by_key(|faults| deepest(faults));
        let meant = meant.filter(|faults| deepest(faults) > Some(depth(error)));
        let (faults, separator): (Vec<_>, _) = match meant {
            Some(meant) => (meant.iter().map(describe).collect(), "; "),
            None => (context.iter().flatten().map(describe).collect(), " or "),
        };
        if !faults.is_empty() {
            let shown = faults.get(..MAX_ERRORS).unwrap_or(&faults);
            return shown.join(separator);
        }
    }
    // The path may be long, because it contains field names that the model invented.
    let path = json_path(error.instance_path()).to_string();
    let path = text::shorten(&path, MAX_CHARACTERS);
    format!("`{path}`: {}", text::shorten(&error.to_string(), MAX_CHARACTERS))
}

/// Converts the location of an error to a JSON path such as `$.items[0].name`.
fn json_path(location: &Location) -> JsonPath {
    let mut path = JsonPath::default();
    for segment in location.segments() {
        match segment {
            LocationSegment::Index(index) => path.push_index(index),
            LocationSegment::Property(name) => path.push_field(&name),
        }
    }
    path
}
