//! What follows when the conversation does not fit into the model's context window.

use neuron_types::{
    CompletionResponse, ContextStrategy, DurableContext, LoopError, Provider, ProviderError,
    StopReason, ToolContext,
};

use crate::AgentLoop;
use crate::engine::Step;

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// After a call that did not fit into the window: compacts, once, so that it can be made again.
    /// `None` if that is of no use.
    pub(crate) async fn make_room(&mut self, ctx: &ToolContext) -> Result<Option<Step>, LoopError> {
        if std::mem::replace(&mut self.run.overflowed, true) {
            return Ok(None);
        }
        let compacted = match self.compact_now(ctx).await {
            Err(LoopError::Context(error)) => {
                // Of no span: whoever exports spans exports what is logged within them.
                tracing::warn!(parent: None, %error, "the context window is exceeded, and compacting failed");
                None
            }
            compacted => compacted?,
        };
        Ok(compacted)
    }
}

/// Whether a call did not fit into the context window.
pub(crate) fn is_overflow(answered: &Result<CompletionResponse, LoopError>) -> bool {
    match answered {
        Err(LoopError::Provider(ProviderError::ContextWindowExceeded(_))) => true,
        // What it calls is done first; the next call will not fit.
        Ok(response) => {
            response.stop_reason == StopReason::ContextWindowExceeded
                && response.message.tool_uses().next().is_none()
        }
        Err(_) => false,
    }
}

/// Why the reader has to forget an answer that the end of the window cut off.
pub(crate) fn cut_off_by_the_window() -> LoopError {
    ProviderError::ContextWindowExceeded("the answer was cut off".into()).into()
}
