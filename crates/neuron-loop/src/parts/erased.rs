//! Object-safe twins of the traits of models and strategies. They need no `'static`, so that a run can borrow either.

use neuron_types::{
    CompletionResponse, ContextError, ContextStrategy, Message, Provider, ProviderError,
    ProviderInfo, RequestRef, StreamHandle, TokenUsage, WasmBoxedFuture, WasmCompatSend,
    WasmCompatSync,
};

/// A [`Provider`].
pub(crate) trait ModelDyn: WasmCompatSend + WasmCompatSync {
    fn complete_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>>;
    fn stream_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>>;
    fn info_dyn(&self) -> ProviderInfo<'_>;
    fn can_force_tool_dyn(&self, request: RequestRef<'_>) -> bool;
}

impl<P: Provider> ModelDyn for P {
    fn complete_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>> {
        Box::pin(self.complete_ref(request))
    }

    fn stream_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        Box::pin(self.complete_stream_ref(request))
    }

    fn info_dyn(&self) -> ProviderInfo<'_> {
        self.info()
    }

    fn can_force_tool_dyn(&self, request: RequestRef<'_>) -> bool {
        self.can_force_tool(request)
    }
}

/// A [`ContextStrategy`].
pub(crate) trait StrategyDyn: WasmCompatSend + WasmCompatSync {
    fn estimate_messages(&self, messages: &[Message]) -> usize;
    fn estimate_whole(&self, request: RequestRef<'_>) -> usize;
    fn should_compact_dyn(&self, request: RequestRef<'_>, tokens: usize) -> bool;
    fn counts_tokens_dyn(&self) -> bool;
    fn compact_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        tokens: usize,
    ) -> WasmBoxedFuture<'a, Result<(Vec<Message>, TokenUsage), ContextError>>;
}

impl<C: ContextStrategy> StrategyDyn for C {
    fn estimate_messages(&self, messages: &[Message]) -> usize {
        self.token_estimate(messages)
    }

    fn estimate_whole(&self, request: RequestRef<'_>) -> usize {
        self.estimate_request(request)
    }

    fn should_compact_dyn(&self, request: RequestRef<'_>, tokens: usize) -> bool {
        self.should_compact_request(request, tokens)
    }

    fn counts_tokens_dyn(&self) -> bool {
        self.counts_tokens()
    }

    fn compact_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        tokens: usize,
    ) -> WasmBoxedFuture<'a, Result<(Vec<Message>, TokenUsage), ContextError>> {
        Box::pin(self.compact_request(request, tokens))
    }
}

/// The strategy of an agent without one: the conversation grows until the provider refuses it.
pub(crate) struct NoCompaction;

/// Bytes of text for one token, as a rule of thumb.
const BYTES_PER_TOKEN: usize = 4;

impl ContextStrategy for NoCompaction {
    fn should_compact(&self, _: &[Message], _: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.iter().map(|message| message.text().len() / BYTES_PER_TOKEN).sum()
    }

    fn counts_tokens(&self) -> bool {
        true
    }
}
