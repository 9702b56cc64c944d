//! The trait of strategies that keep a conversation inside its budget, and its erased form.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::{
    ContextError, Message, RequestRef, TokenUsage, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// Decides when a conversation is too long, and makes it shorter.
///
/// # Contract
///
/// - The output is a valid history ([`transcript::validate`](crate::transcript::validate)) if the
///   input is one. The loop repairs what is not.
/// - It keeps the user message that started the run, and messages that are
///   [pinned](Message::pinned).
/// - An error leaves the history as it was: the strategy works on a copy.
/// - The loop asks for an estimate at the top of each turn and again after a compaction, by
///   [`estimate_request`](Self::estimate_request). If the strategy
///   [counts tokens](Self::counts_tokens), what the provider reported last corrects it.
///
/// # Example
///
/// ```
/// use neuron_types::{ContextError, ContextStrategy, Message};
///
/// /// Never compacts.
/// struct Unlimited;
///
/// impl ContextStrategy for Unlimited {
///     fn should_compact(&self, _messages: &[Message], _token_count: usize) -> bool {
///         false
///     }
///
///     async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
///         Ok(messages)
///     }
///
///     fn token_estimate(&self, _messages: &[Message]) -> usize {
///         0
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a context strategy",
    note = "implement `ContextStrategy`, or use one of neuron-context such as `SlidingWindowStrategy`"
)]
pub trait ContextStrategy: WasmCompatSend + WasmCompatSync {
    /// Whether the history of about `token_count` tokens should be compacted now.
    fn should_compact(&self, messages: &[Message], token_count: usize) -> bool;

    /// Makes the history shorter.
    ///
    /// # Errors
    ///
    /// [`ContextError`]; the caller still has the history.
    fn compact(
        &self,
        messages: Vec<Message>,
    ) -> impl Future<Output = Result<Vec<Message>, ContextError>> + WasmCompatSend;

    /// Estimates the tokens of a history.
    fn token_estimate(&self, messages: &[Message]) -> usize;

    /// [`compact`](Self::compact) that also reports the tokens that compacting took. Provided: for
    /// strategies that call no model.
    ///
    /// # Errors
    ///
    /// As [`compact`](Self::compact).
    fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> impl Future<Output = Result<(Vec<Message>, TokenUsage), ContextError>> + WasmCompatSend
    {
        async move { Ok((self.compact(messages).await?, TokenUsage::default())) }
    }

    /// Estimates the tokens of all that a call of the model sends. Provided:
    /// [`token_estimate`](Self::token_estimate) of the messages alone. Strategies that know how to
    /// count a system prompt and tool definitions count them too.
    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.token_estimate(request.messages)
    }

    /// Whether the messages of a request of about `token_count` tokens should be compacted now. The
    /// loop asks this one. Provided: [`should_compact`](Self::should_compact) of the messages.
    /// Strategies that must know what of the count is no message look at the request.
    fn should_compact_request(&self, request: RequestRef<'_>, token_count: usize) -> bool {
        self.should_compact(request.messages, token_count)
    }

    /// Whether estimates are in the tokens that providers report, so that a report may correct them:
    /// the size of the conversation is then what the provider reported last, and an estimate of the
    /// messages that came later. Provided: no, the strategy's own estimate is all that counts.
    fn counts_tokens(&self) -> bool {
        false
    }

    /// Makes the messages of a request shorter, and reports the tokens that this took. The loop
    /// calls this one. Provided: [`compact_with_usage`](Self::compact_with_usage) of a copy.
    ///
    /// `token_count` is what the whole request takes to the best of the caller's knowledge. Where it
    /// differs from [`estimate_request`](Self::estimate_request), the strategy's estimates are off by
    /// that factor.
    ///
    /// # Errors
    ///
    /// As [`compact`](Self::compact).
    fn compact_request(
        &self,
        request: RequestRef<'_>,
        _token_count: usize,
    ) -> impl Future<Output = Result<(Vec<Message>, TokenUsage), ContextError>> + WasmCompatSend
    {
        self.compact_with_usage(request.messages.to_vec())
    }
}

/// A strategy behind a pointer, for lists and for choosing at run time. Clones share it.
#[derive(Clone)]
pub struct BoxedStrategy(Arc<dyn ContextStrategyDyn>);

impl BoxedStrategy {
    /// Puts a strategy behind a pointer.
    pub fn new(strategy: impl ContextStrategy + 'static) -> Self {
        Self(Arc::new(strategy))
    }
}

impl fmt::Debug for BoxedStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedStrategy").finish_non_exhaustive()
    }
}

impl ContextStrategy for BoxedStrategy {
    fn should_compact(&self, messages: &[Message], token_count: usize) -> bool {
        self.0.should_compact_dyn(messages, token_count)
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        self.0.compact_dyn(messages).await
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.0.token_estimate_dyn(messages)
    }

    async fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        self.0.compact_with_usage_dyn(messages).await
    }

    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.0.estimate_request_dyn(request)
    }

    fn should_compact_request(&self, request: RequestRef<'_>, token_count: usize) -> bool {
        self.0.should_compact_request_dyn(request, token_count)
    }

    fn counts_tokens(&self) -> bool {
        self.0.counts_tokens_dyn()
    }

    async fn compact_request(
        &self,
        request: RequestRef<'_>,
        token_count: usize,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        self.0.compact_request_dyn(request, token_count).await
    }
}

type Compacted<'a, T> = WasmBoxedFuture<'a, Result<T, ContextError>>;

/// The object-safe twin of [`ContextStrategy`], for a pointer with a lifetime of its own; else see [`BoxedStrategy`].
pub trait ContextStrategyDyn: WasmCompatSend + WasmCompatSync {
    /// [`ContextStrategy::should_compact`].
    fn should_compact_dyn(&self, messages: &[Message], token_count: usize) -> bool;
    /// [`ContextStrategy::compact`].
    fn compact_dyn(&self, messages: Vec<Message>) -> Compacted<'_, Vec<Message>>;
    /// [`ContextStrategy::token_estimate`].
    fn token_estimate_dyn(&self, messages: &[Message]) -> usize;
    /// [`ContextStrategy::compact_with_usage`].
    fn compact_with_usage_dyn(
        &self,
        messages: Vec<Message>,
    ) -> Compacted<'_, (Vec<Message>, TokenUsage)>;
    /// [`ContextStrategy::estimate_request`].
    fn estimate_request_dyn(&self, request: RequestRef<'_>) -> usize;
    /// [`ContextStrategy::should_compact_request`].
    fn should_compact_request_dyn(&self, request: RequestRef<'_>, token_count: usize) -> bool;
    /// [`ContextStrategy::counts_tokens`].
    fn counts_tokens_dyn(&self) -> bool;
    /// [`ContextStrategy::compact_request`].
    fn compact_request_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        token_count: usize,
    ) -> Compacted<'a, (Vec<Message>, TokenUsage)>;
}

impl<C: ContextStrategy> ContextStrategyDyn for C {
    fn should_compact_dyn(&self, messages: &[Message], token_count: usize) -> bool {
        self.should_compact(messages, token_count)
    }

    fn compact_dyn(&self, messages: Vec<Message>) -> Compacted<'_, Vec<Message>> {
        Box::pin(self.compact(messages))
    }

    fn token_estimate_dyn(&self, messages: &[Message]) -> usize {
        self.token_estimate(messages)
    }

    fn compact_with_usage_dyn(
        &self,
        messages: Vec<Message>,
    ) -> Compacted<'_, (Vec<Message>, TokenUsage)> {
        Box::pin(self.compact_with_usage(messages))
    }

    fn estimate_request_dyn(&self, request: RequestRef<'_>) -> usize {
        self.estimate_request(request)
    }

    fn should_compact_request_dyn(&self, request: RequestRef<'_>, token_count: usize) -> bool {
        self.should_compact_request(request, token_count)
    }

    fn counts_tokens_dyn(&self) -> bool {
        self.counts_tokens()
    }

    fn compact_request_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        token_count: usize,
    ) -> Compacted<'a, (Vec<Message>, TokenUsage)> {
        Box::pin(self.compact_request(request, token_count))
    }
}
