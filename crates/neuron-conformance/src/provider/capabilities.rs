//! The capabilities of a provider and its vendor.

use neuron_types::StopReason;

/// The capabilities of a provider and its vendor.
///
/// By default every capability is required. Turn off the capabilities that the wire format does not have. They are not
/// checked.
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
    /// The provider sends a key, and the server can reject it.
    pub api_key: bool,
    /// The name of the field in a request's body that holds the conversation as a list.
    pub conversation_field: &'static str,
    /// Maximum number of frames that may be missing at the end of a stream. These frames, such as `data: [DONE]`,
    /// follow the frame that ends the response.
    ///
    /// A stream that is cut there may return an error or a response with the same message.
    pub optional_frames: usize,
    /// Responses have ids.
    pub response_ids: bool,
    /// Tool calls have ids.
    pub tool_call_ids: bool,
    /// A response may have several tool calls.
    pub parallel_tools: bool,
    /// Arguments are sent as text, so they may be invalid JSON.
    pub invalid_arguments: bool,
    /// [`ToolChoice`](neuron_types::ToolChoice) is sent.
    pub tool_choice: bool,
    /// Responses may have reasoning.
    pub thinking: bool,
    /// Reasoning is sent back with the conversation.
    pub thinking_returns: bool,
    /// Reasoning has a signature or encrypted content, which is sent back.
    pub signatures: bool,
    /// Images are sent as base64.
    pub images: bool,
    /// Images are sent as URLs.
    pub image_urls: bool,
    /// PDFs are sent as base64.
    pub documents: bool,
    /// Documents of plain text are sent.
    pub text_documents: bool,
    /// A JSON Schema for the response is sent.
    pub structured_output: bool,
    /// `temperature` and `top_p` are sent.
    pub sampling: bool,
    /// Stop sequences are sent.
    pub stop_sequences: bool,
    /// Tokens that were read from a cache are counted.
    pub cache_read_tokens: bool,
    /// Tokens that were written to a cache are counted.
    pub cache_creation_tokens: bool,
    /// Tokens of reasoning are counted.
    pub reasoning_tokens: bool,
    /// The stop reasons that the provider distinguishes.
    pub stop_reasons: Vec<StopReason>,
    /// The errors before a response that the provider distinguishes, by
    /// [`ProviderError::kind`](neuron_types::ProviderError::kind).
    pub errors: Vec<&'static str>,
    /// The errors within a stream that the provider distinguishes.
    pub stream_errors: Vec<&'static str>,
    /// The error for a rate limit has the delay before a retry.
    pub retry_after: bool,
    /// The response header with the id for the vendor's support, in lower case.
    pub request_id_header: Option<&'static str>,
}

impl Capabilities {
    /// Removes stop reasons.
    #[must_use]
    pub fn without_stop_reasons(mut self, reasons: &[StopReason]) -> Self {
        self.stop_reasons.retain(|reason| !reasons.contains(reason));
        self
    }

    /// Removes errors, before a response and within a stream.
    #[must_use]
    pub fn without_errors(mut self, kinds: &[&str]) -> Self {
        self.errors.retain(|kind| !kinds.contains(kind));
        self.stream_errors.retain(|kind| !kinds.contains(kind));
        self
    }

    /// Removes errors within a stream only.
    #[must_use]
    pub fn without_stream_errors(mut self, kinds: &[&str]) -> Self {
        self.stream_errors.retain(|kind| !kinds.contains(kind));
        self
    }
}

/// Returns all capabilities, with the conversation in `messages` and without a header for the request id, whose name
/// depends on the vendor.
impl Default for Capabilities {
    fn default() -> Self {
        Self {
            api_key: true,
            conversation_field: "messages",
            optional_frames: 0,
            response_ids: true,
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
