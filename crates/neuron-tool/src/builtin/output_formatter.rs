//! [`OutputFormatter`], which truncates long outputs and errors.

use neuron_types::{ContentItem, ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use crate::middleware::{Next, ToolCall, ToolMiddleware};
use crate::text;

/// Truncates outputs and errors to a maximum number of characters, so that one result does not fill the model's context.
///
/// A registry truncates all results of its tools to
/// [`max_output_characters`](crate::ToolRegistry::set_max_output_characters). Add this middleware for a smaller maximum of
/// some tools.
///
/// The maximum applies to all texts of an output together, including text resources and links. A notice at the end
/// states how many characters are shown, and does not count towards the maximum. Images, audio and other binary content
/// do not change. [`structured_content`](ToolOutput::structured_content) does not change either, because it is not sent
/// to the model. A truncated error keeps its variant, but [`ToolError::ExecutionFailed`] loses its source.
///
/// The results of the search for [deferred tools](crate::ToolRegistry::defer_tools) are not truncated, because a model
/// can only call a deferred tool after it has read the whole definition. [`ToolSearch::max_results`](crate::ToolSearch::max_results) limits these results.
///
/// # Example
///
/// ```
/// use neuron_tool::{ToolRegistry, tool_middleware_fn};
/// use neuron_tool::builtin::OutputFormatter;
/// # use neuron_types::{ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture};
/// # struct Count;
/// # impl ToolDyn for Count {
/// #     fn name(&self) -> &str { "count" }
/// #     fn definition(&self) -> ToolDefinition {
/// #         ToolDefinition {
/// #             name: "count".into(), title: None, description: String::new(),
/// #             input_schema: serde_json::json!({}), output_schema: None, annotations: None,
/// #             cache_control: None,
/// #         }
/// #     }
/// #     fn call_dyn<'a>(&'a self, _: serde_json::Value, _: &'a ToolContext)
/// #         -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
/// #         Box::pin(async { Ok(ToolOutput::text("one two three four")) })
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let mut registry = ToolRegistry::new();
/// registry.register_dyn(std::sync::Arc::new(Count));
/// registry.add_middleware(OutputFormatter::new(7));
///
/// let output = registry.execute("count", serde_json::json!({}), &ToolContext::default()).await?;
/// let text = output.content[0].to_string();
/// assert_eq!(text, "one two\n[truncated: the first 7 of 18 characters are shown]");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct OutputFormatter {
    /// Maximum number of characters of all texts of an output together, and of an error.
    max_characters: usize,
}

impl OutputFormatter {
    /// Creates a formatter with a maximum number of characters per output or error.
    #[must_use]
    pub fn new(max_characters: usize) -> Self {
        Self { max_characters }
    }

    /// Truncates the output or the error of a call, if it exceeds the maximum.
    pub(crate) fn limit(
        &self,
        result: Result<ToolOutput, ToolError>,
    ) -> Result<ToolOutput, ToolError> {
        match result {
            Ok(output) => Ok(self.format(output)),
            Err(error) => Err(self.format_error(error)),
        }
    }

    /// Truncates an output that exceeds the maximum. Text items after the cut are removed.
    fn format(&self, mut output: ToolOutput) -> ToolOutput {
        let total = text::characters_of(&output.content);
        if total <= self.max_characters {
            return output;
        }
        let mut left = self.max_characters;
        let mut is_cut = false;
        output.content.retain_mut(|item| {
            if !text::is_text(item) {
                return true;
            }
            if is_cut {
                return false;
            }
            let count = text::characters(item);
            if count <= left {
                left -= count;
                return true;
            }
            is_cut = true;
            let mut text = match &mut *item {
                ContentItem::Text(text) => std::mem::take(text),
                // Truncate the `Display` form of a resource, because the model would receive this form.
                other => other.to_string(),
            };
            text.truncate(text::first(&text, left).len());
            text.push_str(&self.notice(total));
            *item = ContentItem::Text(text);
            true
        });
        output
    }

    /// Truncates the text of an error that exceeds the maximum.
    fn format_error(&self, error: ToolError) -> ToolError {
        let cut = |text: String| self.cut(&text).unwrap_or(text);
        text::of_error(error, cut, |source| self.cut(&source.to_string()))
    }

    /// Returns a truncated text. Returns `None` if the text does not exceed the maximum.
    fn cut(&self, text: &str) -> Option<String> {
        let total = text.chars().count();
        (total > self.max_characters)
            .then(|| text::first(text, self.max_characters).to_owned() + &self.notice(total))
    }

    /// Returns the notice at the end of a truncated text. `total` is the number of characters before.
    fn notice(&self, total: usize) -> String {
        format!("\n[truncated: the first {} of {total} characters are shown]", self.max_characters)
    }
}

impl ToolMiddleware for OutputFormatter {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let is_search = next.is_search();
            let result = next.run(call, ctx).await;
            if is_search { result } else { self.limit(result) }
        })
    }
}
