//! The trait of strategies that limit the length of a conversation, and its boxed form.

mod no_compaction;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::{
    ContextError, Message, RequestRef, TokenUsage, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

pub use no_compaction::NoCompaction;

/// A strategy that decides when a conversation is too long, and shortens the conversation.
///
/// # Contract
///
/// - If the input is a valid history, the output must be valid too. See
///   [`transcript::validate`](crate::transcript::validate). The loop repairs an invalid output.
/// - The output must contain the user message that started the run and all [pinned](Message::pinned) messages.
/// - After an error the history is unchanged, because the strategy works on a copy.
/// - The loop calls [`estimate_request`](Self::estimate_request) at the start of each turn and after a compaction. If
///   [`counts_tokens`](Self::counts_tokens) returns `true`, the loop corrects the estimate with the usage that the
///   provider reported last.
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
    /// Returns `true` if the history should be compacted now. The history has about `token_count` tokens.
    fn should_compact(&self, messages: &[Message], token_count: usize) -> bool;

    /// Shortens the history.
    ///
    /// # Errors
    ///
    /// The [`ContextError`] of the failed compaction. The caller continues with its own copy of the history.
    fn compact(
        &self,
        messages: Vec<Message>,
    ) -> impl Future<Output = Result<Vec<Message>, ContextError>> + WasmCompatSend;

    /// Estimates the number of tokens of a history.
    fn token_estimate(&self, messages: &[Message]) -> usize;

    /// Shortens the history and returns the tokens that the compaction used.
    ///
    /// The default calls [`compact`](Self::compact) and returns zero tokens. A strategy that calls a model must
    /// override this method.
    ///
    /// # Errors
    ///
    /// The errors of [`compact`](Self::compact).
    fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> impl Future<Output = Result<(Vec<Message>, TokenUsage), ContextError>> + WasmCompatSend
    {
        async move { Ok((self.compact(messages).await?, TokenUsage::default())) }
    }

    /// Estimates the number of tokens of a whole request.
    ///
    /// The default returns the [`token_estimate`](Self::token_estimate) of the messages. Override this method to also
    /// count the system prompt and the tool definitions.
    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.token_estimate(request.messages)
    }

    /// Returns `true` if the messages of a request should be compacted now. `token_count` is the loop's estimate of the
    /// whole request.
    ///
    /// The loop calls this method. The default calls [`should_compact`](Self::should_compact). Override this method if
    /// the decision depends on the system prompt or the tool definitions.
    fn should_compact_request(&self, request: RequestRef<'_>, token_count: usize) -> bool {
        self.should_compact(request.messages, token_count)
    }

    /// Returns `true` if the strategy's estimates approximate the provider's token counts. The default is `false`.
    ///
    /// If `true`, the loop takes the last usage that the provider reported and adds the estimate of all later messages.
    /// If `false`, the loop uses only the strategy's own estimate of the whole request.
    fn counts_tokens(&self) -> bool {
        false
    }

    /// Shortens the messages of a request and returns the tokens that the compaction used.
    ///
    /// The loop calls this method. The default calls [`compact_with_usage`](Self::compact_with_usage) with a copy of
    /// the messages.
    ///
    /// `token_count` is the loop's estimate of the whole request, corrected with the usage that the provider reported.
    /// Divide it by [`estimate_request`](Self::estimate_request) to get the correction factor for the strategy's own
    /// estimates.
    ///
    /// # Errors
    ///
    /// The errors of [`compact`](Self::compact).
    fn compact_request(
        &self,
        request: RequestRef<'_>,
        _token_count: usize,
    ) -> impl Future<Output = Result<(Vec<Message>, TokenUsage), ContextError>> + WasmCompatSend
    {
        self.compact_with_usage(request.messages.to_vec())
    }
}

/// A boxed context strategy of any type, for a choice at run time. Clones of the box share the strategy.
#[derive(Clone)]
pub struct BoxedStrategy(Arc<dyn ContextStrategyDyn>);

impl BoxedStrategy {
    /// Creates a box for a strategy of any type.
    pub fn new(strategy: impl ContextStrategy + 'static) -> Self {
        Self(Arc::new(strategy))
    }
}

impl fmt::Debug for BoxedStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedStrategy").finish_non_exhaustive()
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
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

/// The boxed future of a compaction.
type Compacted<'a, T> = WasmBoxedFuture<'a, Result<T, ContextError>>;

/// Object-safe form of [`ContextStrategy`], for example for a borrowed `&dyn ContextStrategyDyn`. For an owned strategy
/// use [`BoxedStrategy`].
pub trait ContextStrategyDyn: WasmCompatSend + WasmCompatSync {
    /// Calls [`ContextStrategy::should_compact`].
    fn should_compact_dyn(&self, messages: &[Message], token_count: usize) -> bool;
    /// Calls [`ContextStrategy::compact`].
    fn compact_dyn(&self, messages: Vec<Message>) -> Compacted<'_, Vec<Message>>;
    /// Calls [`ContextStrategy::token_estimate`].
    fn token_estimate_dyn(&self, messages: &[Message]) -> usize;
    /// Calls [`ContextStrategy::compact_with_usage`].
    fn compact_with_usage_dyn(
        &self,
        messages: Vec<Message>,
    ) -> Compacted<'_, (Vec<Message>, TokenUsage)>;
    /// Calls [`ContextStrategy::estimate_request`].
    fn estimate_request_dyn(&self, request: RequestRef<'_>) -> usize;
    /// Calls [`ContextStrategy::should_compact_request`].
    fn should_compact_request_dyn(&self, request: RequestRef<'_>, token_count: usize) -> bool;
    /// Calls [`ContextStrategy::counts_tokens`].
    fn counts_tokens_dyn(&self) -> bool;
    /// Calls [`ContextStrategy::compact_request`].
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
