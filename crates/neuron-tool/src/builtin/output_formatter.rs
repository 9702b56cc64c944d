//! [`OutputFormatter`], which truncates long outputs.

use neuron_types::{ContentItem, ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use crate::middleware::{Next, ToolCall, ToolMiddleware};
use crate::text;

/// Truncates outputs to a maximum number of characters, so that one result does not fill the model's context.
///
/// The maximum applies to all texts of an output together, including text resources and links. A notice at the end
/// states how many characters are shown, and does not count towards the maximum. Images, audio and other binary content
/// do not change. [`structured_content`](ToolOutput::structured_content) does not change either, because it is not sent
/// to the model.
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
    /// Maximum number of characters of all texts of an output together.
    max_characters: usize,
}

impl OutputFormatter {
    /// Creates a formatter with a maximum number of characters per output.
    #[must_use]
    pub fn new(max_characters: usize) -> Self {
        Self { max_characters }
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
            text.push_str(&format!(
                "\n[truncated: the first {} of {total} characters are shown]",
                self.max_characters
            ));
            *item = ContentItem::Text(text);
            true
        });
        output
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
            let output = next.run(call, ctx).await?;
            Ok(if is_search { output } else { self.format(output) })
        })
    }
}
