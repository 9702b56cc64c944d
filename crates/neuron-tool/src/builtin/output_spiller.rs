//! [`OutputSpiller`], which stores long outputs outside of the conversation.

use std::fmt;
use std::sync::Arc;

use neuron_types::{ContentItem, ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use super::OutputReader;
use crate::middleware::{Next, ToolCall, ToolMiddleware};
use crate::output_store::OutputStore;
use crate::text;

/// Stores long outputs, and replaces them with their beginning and a handle. With the handle, the model can read the
/// whole output in pieces.
///
/// Also register the [`reader`](Self::reader), the tool `read_output` with which the model reads stored outputs. Add
/// the middleware and the reader to the agent's own registry, and not to a registry that is merged with a prefix. The
/// notice in the output names the tool without a prefix.
///
/// Middleware that truncates outputs must not be added before this middleware, because truncation may remove the
/// handle. For the same reason, `max_characters` must be at least 500 characters smaller than the
/// [maximum of the registry](crate::ToolRegistry::set_max_output_characters).
///
/// All texts of an output are stored as one text, separated by line breaks. They include text resources and links.
/// Images, audio and other binary content stay in the output, and the structured content does not change. If the store
/// fails, the output is truncated, and a notice states this.
///
/// The results of the search for [deferred tools](crate::ToolRegistry::defer_tools) are not stored, because a model can
/// only call a deferred tool after it has read the whole definition. [`ToolSearch::max_results`](crate::ToolSearch::max_results) limits these results.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use neuron_tool::{MemoryOutputStore, ToolRegistry};
/// use neuron_tool::builtin::OutputSpiller;
///
/// let spiller = OutputSpiller::new(MemoryOutputStore::new(), 10_000);
///
/// let mut registry = ToolRegistry::new();
/// registry.register_dyn(Arc::new(spiller.reader()));
/// registry.add_middleware(spiller);
/// ```
#[derive(Clone)]
pub struct OutputSpiller {
    store: Arc<dyn OutputStore>,
    /// Maximum number of characters that the model receives of an output.
    max_characters: usize,
}

impl OutputSpiller {
    /// Creates middleware that stores outputs with more than `max_characters` characters.
    #[must_use]
    pub fn new(store: impl OutputStore + 'static, max_characters: usize) -> Self {
        Self { store: Arc::new(store), max_characters }
    }

    /// Returns the tool with which the model reads stored outputs. A call of the tool returns at most `max_characters`
    /// characters, which is the argument of [`new`](Self::new).
    #[must_use]
    pub fn reader(&self) -> OutputReader {
        OutputReader::new(self.store.clone(), self.max_characters)
    }

    /// Stores an output that exceeds the maximum, and returns its beginning with a notice.
    async fn spill(&self, mut output: ToolOutput, ctx: &ToolContext) -> ToolOutput {
        if text::characters_of(&output.content) <= self.max_characters {
            return output;
        }
        let texts = output.content.iter().filter(|item| text::is_text(item));
        let whole = texts.map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let shown = text::first(&whole, self.max_characters).to_owned();
        let total = whole.chars().count();
        let rest = match self.store.put(whole, ctx).await {
            Ok(handle) => format!(
                "read on with the tool `{}`, handle `{handle}`, offset {}",
                OutputReader::NAME,
                self.max_characters
            ),
            Err(error) => {
                tracing::warn!(%error, "a long output could not be stored; it is cut");
                "the rest could not be stored".into()
            }
        };
        let notice = format!(
            "\n[the first {} of {total} characters are shown; {rest}]",
            self.max_characters
        );
        // The first text item becomes the shown text with the notice. All other text items are removed.
        let mut text = Some(shown + &notice);
        output.content.retain_mut(|item| match text::is_text(item) {
            true => text.take().map(|text| *item = ContentItem::Text(text)).is_some(),
            false => true,
        });
        output
    }
}

impl ToolMiddleware for OutputSpiller {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            // A piece of a stored output, with its notice, may exceed the maximum. Such an output of the reader must
            // not be stored again.
            let stays = next.is_search() || next.definition().name == OutputReader::NAME;
            let output = next.run(call, ctx).await?;
            Ok(if stays { output } else { self.spill(output, ctx).await })
        })
    }
}

impl fmt::Debug for OutputSpiller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputSpiller")
            .field("max_characters", &self.max_characters)
            .finish_non_exhaustive()
    }
}
