//! A compiled JSON Schema, and what is wrong with arguments in words that a model can act on.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{PatternOptions, ValidationError, Validator};
use neuron_types::{ToolCall, ToolError};
use serde_json::Value;

use crate::json_path::JsonPath;
use crate::text;

/// So many faults are told.
const MOST_FAULTS: usize = 5;
/// Of a fault, which quotes what is wrong, so many characters are told.
const MOST_CHARACTERS: usize = 300;

/// A compiled JSON Schema.
#[derive(Debug)]
pub(super) struct Schema(Result<Validator, String>);

impl Schema {
    /// Compiles a schema. One that cannot be is found by [`problem`](Self::problem).
    pub(super) fn new(schema: &Value) -> Self {
        // Schemas may come from a stranger's server: nothing is fetched, patterns have limits.
        let patterns =
            PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1024 * 1024);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        Self(options.build(schema).map_err(|error| describe(&error)))
    }

    /// Says why the schema cannot be used, if so.
    pub(super) fn problem(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Says what is wrong with a call's arguments, if anything.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] when the schema cannot be used.
    pub(super) fn check(&self, call: &ToolCall) -> Result<Option<String>, ToolError> {
        let validator = self.0.as_ref().map_err(|problem| {
            let text = format!("the schema for `{}` cannot be used: {problem}", call.name);
            ToolError::ExecutionFailed(text.into())
        })?;
        if validator.is_valid(&call.input) {
            return Ok(None);
        }
        let mut message = format!("arguments of `{}`", call.name);
        let mut separator = ": ";
        let mut faults = validator.iter_errors(&call.input);
        for fault in faults.by_ref().take(MOST_FAULTS) {
            message.push_str(separator);
            message.push_str(&describe(&fault));
            separator = "; ";
        }
        if faults.next().is_some() {
            message.push_str("; and more");
        }
        Ok(Some(message))
    }
}

/// Says where something is wrong, and what was expected.
fn describe(error: &ValidationError<'_>) -> String {
    if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind() {
        let depth = |error: &ValidationError<'_>| error.instance_path().segments().count();
        let deepest = |faults: &Vec<ValidationError<'_>>| faults.iter().map(depth).max();
        // The alternative in which the fault is deepest inside is the one that was meant.
        let meant = context.iter().max_by_key(|faults| deepest(faults));
        let meant = meant.filter(|faults| deepest(faults) > Some(depth(error)));
        let (faults, separator): (Vec<_>, _) = match meant {
            Some(meant) => (meant.iter().map(describe).collect(), "; "),
            None => (context.iter().flatten().map(describe).collect(), " or "),
        };
        if !faults.is_empty() {
            let told = faults.get(..MOST_FAULTS).unwrap_or(&faults);
            return told.join(separator);
        }
    }
    // A name that the model made up may be part of the path.
    let path = json_path(error.instance_path()).to_string();
    let path = text::shorten(&path, MOST_CHARACTERS);
    format!("`{path}`: {}", text::shorten(&error.to_string(), MOST_CHARACTERS))
}

/// Writes a place within JSON as `$.items[0].name`.
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
