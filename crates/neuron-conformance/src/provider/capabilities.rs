//! The features of a provider and its vendor that the suite checks.

use neuron_types::StopReason;

/// The features of a provider and its vendor that the suite checks.
///
/// By default every feature is required. Turn off the features that the vendor's wire format does not have. The suite
/// then does not check them.
///
/// # Example
///
/// ```
/// use neuron_conformance::provider::Capabilities;
/// use neuron_types::StopReason;
///
/// let local_models = Capabilities {
///     documents: false,
///     tool_choice: false,
///     ..Capabilities::default().without_stop_reasons(&[StopReason::Refusal])
/// };
/// assert!(local_models.images);
/// assert!(local_models.stop_reasons.contains(&StopReason::MaxTokens));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Set if the provider sends a key, which the server can reject.
    pub api_key: bool,
    /// Name of the top-level field of a request body that contains the conversation as a list.
    pub conversation_field: &'static str,
    /// Number of events at the end of a stream that may be missing. These events, for example `data: [DONE]`, follow
    /// the event that completes the response.
    ///
    /// If a stream is cut within these events, the provider may return an error or a response with the same message.
    pub optional_frames: usize,
    /// Set if an event ends each stream. Otherwise the end of the body does, or the limit of idle time.
    pub last_event: bool,
    /// Set if responses have ids.
    pub response_ids: bool,
    /// Set if responses contain the name of the model.
    pub response_models: bool,
    /// Set if tool calls have ids.
    pub tool_call_ids: bool,
    /// Set if a response may have several tool calls.
    pub parallel_tools: bool,
    /// Set if the vendor sends the arguments of a tool call as text, which may be invalid JSON.
    pub invalid_arguments: bool,
    /// Set if the provider sends [`ToolChoice`](neuron_types::ToolChoice).
    pub tool_choice: bool,
    /// Set if responses may have reasoning.
    pub thinking: bool,
    /// Set if the provider sends the reasoning of earlier responses in the next request.
    pub thinking_returns: bool,
    /// Set if reasoning has a signature or encrypted content, which the provider sends in the next request.
    pub signatures: bool,
    /// Set if the provider sends images as base64.
    pub images: bool,
    /// Set if the provider sends images as URLs.
    pub image_urls: bool,
    /// Set if the provider sends PDFs as base64.
    pub documents: bool,
    /// Set if the provider sends plain-text documents.
    pub text_documents: bool,
    /// Set if the provider sends a JSON Schema for the response.
    pub structured_output: bool,
    /// Set if the provider sends `temperature` and `top_p`.
    pub sampling: bool,
    /// Set if the provider sends stop sequences.
    pub stop_sequences: bool,
    /// Set if the vendor reports the number of tokens that were read from a cache.
    pub cache_read_tokens: bool,
    /// Set if the vendor reports the number of tokens that were written to a cache.
    pub cache_creation_tokens: bool,
    /// Set if the vendor reports the number of reasoning tokens.
    pub reasoning_tokens: bool,
    /// The stop reasons that the provider must distinguish.
    pub stop_reasons: Vec<StopReason>,
    /// The kinds of errors that the provider must distinguish if the vendor sends an error instead of a response. Each
    /// item is a value of [`ProviderError::kind`](neuron_types::ProviderError::kind).
    pub errors: Vec<&'static str>,
    /// The kinds of errors that the provider must distinguish within a stream. The values are like those of
    /// [`errors`](Self::errors).
    pub stream_errors: Vec<&'static str>,
    /// Set if the error for a rate limit contains the delay before a retry.
    pub retry_after: bool,
    /// Name, in lower case, of the response header with the request id. Errors must contain this id. `None` if there is
    /// no such header.
    pub request_id_header: Option<&'static str>,
}

impl Capabilities {
    /// Removes `reasons` from [`stop_reasons`](Self::stop_reasons).
    #[must_use]
    pub fn without_stop_reasons(mut self, reasons: &[StopReason]) -> Self {
        self.stop_reasons.retain(|reason| !reasons.contains(reason));
        self
    }

    /// Removes `kinds` from [`errors`](Self::errors) and [`stream_errors`](Self::stream_errors).
    #[must_use]
    pub fn without_errors(mut self, kinds: &[&str]) -> Self {
        self.errors.retain(|kind| !kinds.contains(kind));
        self.stream_errors.retain(|kind| !kinds.contains(kind));
        self
    }

    /// Removes `kinds` from [`stream_errors`](Self::stream_errors).
    #[must_use]
    pub fn without_stream_errors(mut self, kinds: &[&str]) -> Self {
        self.stream_errors.retain(|kind| !kinds.contains(kind));
        self
    }
}

/// Returns capabilities with all features. The conversation is in the request field `messages`. `request_id_header` is
/// `None`, because the name of this header depends on the vendor.
impl Default for Capabilities {
    fn default() -> Self {
        Self {
            api_key: true,
            conversation_field: "messages",
            optional_frames: 0,
            last_event: true,
            response_ids: true,
            response_models: true,
            tool_call_ids: true,
            parallel_tools: true,
            invalid_arguments: true,
            tool_choice: true,
            thinking: true,
            thinking_returns: true,
            signatures: true,
            images: true,
            image_urls: true,
            documents: true,
            text_documents: true,
            structured_output: true,
            sampling: true,
            stop_sequences: true,
            cache_read_tokens: true,
            cache_creation_tokens: true,
            reasoning_tokens: true,
            stop_reasons: vec![
                StopReason::EndTurn,
                StopReason::ToolUse,
                StopReason::MaxTokens,
                StopReason::StopSequence,
                StopReason::ContentFilter,
                StopReason::Compaction,
                StopReason::PauseTurn,
                StopReason::Refusal,
                StopReason::ContextWindowExceeded,
                StopReason::Other("a_new_reason".into()),
            ],
            errors: vec![
                "Network",
                "RateLimit",
                "ModelLoading",
                "Timeout",
                "ServiceUnavailable",
                "Authentication",
                "InvalidRequest",
                "ContextWindowExceeded",
                "ModelNotFound",
                "InsufficientResources",
            ],
            stream_errors: vec![
                "RateLimit",
                "ServiceUnavailable",
                "Authentication",
                "InvalidRequest",
                "ContextWindowExceeded",
                "InsufficientResources",
                "StreamError",
            ],
            retry_after: true,
            request_id_header: None,
        }
    }
}
