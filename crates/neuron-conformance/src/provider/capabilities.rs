//! The capabilities of a provider and its vendor.

use neuron_types::StopReason;

/// The capabilities of a provider and its vendor.
///
/// The default demands everything. Turn off the capabilities that the wire format does not have: they are not checked.
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
    /// The provider sends a key, and the server can refuse it.
    pub api_key: bool,
    /// The field of a request's body that holds the conversation, as a list.
    pub conversation_field: &'static str,
    /// How many frames at the end of a stream an answer may lack: those after the one that ends the
    /// answer, `data: [DONE]` for one.
    ///
    /// A stream that is cut there may be an answer with the same message, or an error.
    pub optional_frames: usize,
    /// Answers have ids.
    pub response_ids: bool,
    /// Tool calls have ids.
    pub tool_call_ids: bool,
    /// An answer may have several tool calls.
    pub parallel_tools: bool,
    /// Arguments are sent as text, so that they may be no JSON.
    pub invalid_arguments: bool,
    /// [`ToolChoice`](neuron_types::ToolChoice) is sent.
    pub tool_choice: bool,
    /// Answers may have reasoning.
    pub thinking: bool,
    /// Reasoning goes back with the conversation.
    pub thinking_returns: bool,
    /// Reasoning has a signature, or something encrypted in its place, that goes back.
    pub signatures: bool,
    /// Images are sent as base64.
    pub images: bool,
    /// Images are sent as URLs.
    pub image_urls: bool,
    /// PDFs are sent as base64.
    pub documents: bool,
    /// Documents of plain text are sent.
    pub text_documents: bool,
    /// A JSON Schema for the answer is sent.
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
    /// The reasons to stop that are told apart.
    pub stop_reasons: Vec<StopReason>,
    /// The errors before an answer that are told apart, by
    /// [`ProviderError::kind`](neuron_types::ProviderError::kind).
    pub errors: Vec<&'static str>,
    /// The errors within a stream that are told apart.
    pub stream_errors: Vec<&'static str>,
    /// A rate limit says how long to wait.
    pub retry_after: bool,
    /// The response header with the id that a vendor's support asks for, in lower case.
    pub request_id_header: Option<&'static str>,
}

impl Capabilities {
    /// Takes reasons to stop away.
    #[must_use]
    pub fn without_stop_reasons(mut self, reasons: &[StopReason]) -> Self {
        self.stop_reasons.retain(|reason| !reasons.contains(reason));
        self
    }

    /// Takes errors away, before an answer and within a stream.
    #[must_use]
    pub fn without_errors(mut self, kinds: &[&str]) -> Self {
        self.errors.retain(|kind| !kinds.contains(kind));
        self.stream_errors.retain(|kind| !kinds.contains(kind));
        self
    }

    /// Takes errors away within a stream only.
    #[must_use]
    pub fn without_stream_errors(mut self, kinds: &[&str]) -> Self {
        self.stream_errors.retain(|kind| !kinds.contains(kind));
        self
    }
}

/// Everything, with the conversation in `messages`, and no header with a request's id: its name is
/// the vendor's.
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
