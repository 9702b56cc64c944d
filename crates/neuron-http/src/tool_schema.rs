//! The schema of a tool's arguments in a request.

use std::borrow::Cow;

use neuron_model::ToolDefinition;
use serde::ser::Error;
use serde_json::Value;

/// Returns the schema of a tool's arguments for a request. This is the [strict](ToolDefinition::strict_schema) schema if
/// the tool is strict and the server accepts strict tools (`takes_strict`), and otherwise
/// [`ToolDefinition::arguments_schema`].
///
/// # Errors
///
/// An error that names the tool if its arguments are no object.
pub fn tool_schema<E: Error>(
    tool: &ToolDefinition,
    takes_strict: bool,
) -> Result<Cow<'_, Value>, E> {
    if let Some(strict) = tool.strict_schema().filter(|_| takes_strict) {
        return Ok(Cow::Borrowed(strict));
    }
    tool.arguments_schema().map_err(|error| E::custom(format!("the tool `{}`: {error}", tool.name)))
}
