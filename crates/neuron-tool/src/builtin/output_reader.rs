//! [`OutputReader`], the tool with which a model reads a stored output in pieces.

use std::fmt;
use std::sync::Arc;

use neuron_types::{
    ToolAnnotations, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput,
    WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::output_store::OutputStore;
use crate::text;

/// The tool with which a model reads a stored output in pieces. Created by
/// [`OutputSpiller::reader`](super::OutputSpiller::reader).
#[derive(Clone)]
pub struct OutputReader {
    store: Arc<dyn OutputStore>,
    /// Maximum number of characters of one piece, at least one.
    max_characters: usize,
}

impl OutputReader {
    /// Name by which the model calls the tool.
    pub const NAME: &'static str = "read_output";

    /// Creates a reader of the outputs in `store`.
    pub(super) fn new(store: Arc<dyn OutputStore>, max_characters: usize) -> Self {
        // With pieces of zero characters, the model would never reach the end of an output.
        Self { store, max_characters: max_characters.max(1) }
    }

    /// Runs a call of the tool. Invalid arguments become a [`ToolError::ModelRetry`].
    async fn read(&self, input: &Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(handle) = input.get("handle").and_then(Value::as_str) else {
            return retry("`$.handle`: expected the handle of an output, a string");
        };
        let Some(offset) = count(input, "offset", 0) else {
            return retry("`$.offset`: expected a number of characters, zero or more");
        };
        let Some(characters) = count(input, "characters", self.max_characters) else {
            return retry("`$.characters`: expected a number of characters, zero or more");
        };
        let characters = characters.clamp(1, self.max_characters);
        let Some(piece) = self.store.read(handle, offset, characters, ctx).await? else {
            let handle = text::shorten(handle, 100);
            return retry(&format!(
                "`$.handle`: there is no output `{handle}` any more, or there never was"
            ));
        };
        // The model chooses the offset, so the sum could overflow.
        let end = offset.saturating_add(piece.text.chars().count());
        let total = piece.total;
        // At least one character was requested. An empty piece means that the offset is not before the end.
        if piece.text.is_empty() {
            return retry(&format!(
                "`$.offset`: {offset} is not before the end; the output has {total} characters"
            ));
        }
        let rest = match end < total {
            true => format!("read on with offset {end}"),
            false => "this is the end".into(),
        };
        let text = piece.text;
        Ok(ToolOutput::text(format!("{text}\n[characters {offset} to {end} of {total}; {rest}]")))
    }
}

impl ToolDyn for OutputReader {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: "Reads a piece of a tool's output that was too long to be shown whole. \
                          The handle is in the output's last line."
                .into(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "handle": { "type": "string", "description": "The output's handle" },
                    "offset": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "Where to begin, in characters. Default: 0"
                    },
                    "characters": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": self.max_characters,
                        "description": "How many characters to read. Default: as many as possible"
                    }
                },
                "required": ["handle"],
                "additionalProperties": false
            }),
            output_schema: None,
            annotations: Some(ToolAnnotations {
                read_only_hint: Some(true),
                ..ToolAnnotations::default()
            }),
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.read(&input, ctx).await })
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }
}

impl fmt::Debug for OutputReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputReader")
            .field("max_characters", &self.max_characters)
            .finish_non_exhaustive()
    }
}

/// Returns the number in the argument `name`, or `default` if the argument is missing or null. Returns `None` if the
/// argument is not an integer of zero or more.
fn count(input: &Value, name: &str, default: usize) -> Option<usize> {
    match input.get(name) {
        None | Some(Value::Null) => Some(default),
        Some(value) => value.as_u64().map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
    }
}

/// Returns a [`ToolError::ModelRetry`] whose text tells the model how to correct its arguments.
fn retry(hint: &str) -> Result<ToolOutput, ToolError> {
    Err(ToolError::ModelRetry(format!("arguments of `{}`: {hint}", OutputReader::NAME)))
}
