//! Differences of compatible servers.

/// Differences of a server that is compatible with OpenAI.
///
/// The default is the vendor itself. Each method adds one difference of a known server. A provider for such servers
/// must handle all of them.
///
/// # Example
///
/// ```
/// use neuron_testing::OpenAiServer;
/// use neuron_testing::openai::Dialect;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = OpenAiServer::builder()
///     .dialect(Dialect::default().without_call_index().whole_arguments().without_done())
///     .start(["hello"])
///     .await?;
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Dialect {
    pub(super) no_call_index: bool,
    pub(super) later_ids: LaterIds,
    pub(super) whole_arguments: bool,
    pub(super) stop_with_calls: bool,
    pub(super) usage_on_last_choice: bool,
    pub(super) no_done: bool,
    pub(super) numeric_codes: bool,
    pub(super) reasoning_field: bool,
    pub(super) flat_stream_errors: bool,
    pub(super) lenient: bool,
    pub(super) shuffled_embeddings: bool,
    pub(super) floats_only: bool,
    pub(super) prefix: Option<&'static str>,
    pub(super) key_header: Option<&'static str>,
    pub(super) usage_always: bool,
    pub(super) refused: &'static [&'static str],
    pub(super) reasoning_with_calls: bool,
    pub(super) short_call_ids: bool,
    pub(super) call_stubs: bool,
    pub(super) signed_calls: bool,
    pub(super) reasoning_beside: bool,
}

/// The id in the deltas of a tool call after its first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LaterIds {
    #[default]
    Missing,
    Null,
    Empty,
}

impl Dialect {
    /// Leaves out the index of tool calls in a chat stream.
    pub fn without_call_index(self) -> Self {
        Self { no_call_index: true, ..self }
    }

    /// Sends `null` as the id in all deltas of a tool call after the first.
    pub fn later_ids_null(self) -> Self {
        Self { later_ids: LaterIds::Null, ..self }
    }

    /// Sends an empty id in all deltas of a tool call after the first.
    pub fn later_ids_empty(self) -> Self {
        Self { later_ids: LaterIds::Empty, ..self }
    }

    /// Sends each tool call of a chat stream in one delta.
    pub fn whole_arguments(self) -> Self {
        Self { whole_arguments: true, ..self }
    }

    /// Sends `stop` as the finish reason of a chat response that calls tools.
    pub fn stop_with_calls(self) -> Self {
        Self { stop_with_calls: true, ..self }
    }

    /// Sends the usage without a request for it, in the chunk that has the finish reason.
    pub fn usage_on_last_choice(self) -> Self {
        Self { usage_on_last_choice: true, ..self }
    }

    /// Ends a chat stream without `[DONE]`.
    pub fn without_done(self) -> Self {
        Self { no_done: true, ..self }
    }

    /// Sends the HTTP status as the code of errors.
    pub fn numeric_codes(self) -> Self {
        Self { numeric_codes: true, ..self }
    }

    /// Sends the reasoning of a chat in `reasoning` instead of `reasoning_content`.
    pub fn reasoning_field(self) -> Self {
        Self { reasoning_field: true, ..self }
    }

    /// Ends a broken stream of the Responses API with an `error` event that has its code and message at the top level.
    /// No other event follows.
    pub fn flat_stream_errors(self) -> Self {
        Self { flat_stream_errors: true, ..self }
    }

    /// Accepts unknown parameters, and any parameter with any model.
    pub fn lenient(self) -> Self {
        Self { lenient: true, ..self }
    }

    /// Sends embeddings in reverse order, with correct indexes.
    pub fn shuffled_embeddings(self) -> Self {
        Self { shuffled_embeddings: true, ..self }
    }

    /// Serves the API under another path than `/v1`, for example `/api/paas/v4`. The empty path serves it at the top.
    pub fn served_at(self, prefix: &'static str) -> Self {
        Self { prefix: Some(prefix), ..self }
    }

    /// Accepts the key only in a header of this name, by itself.
    pub fn key_in(self, header: &'static str) -> Self {
        Self { key_header: Some(header), ..self }
    }

    /// Sends the usage at the end of each stream, and refuses the option that asks for it.
    pub fn usage_without_option(self) -> Self {
        Self { usage_always: true, ..self }
    }

    /// Refuses a request with one of these fields, at the top or in a message.
    pub fn refusing(self, fields: &'static [&'static str]) -> Self {
        Self { refused: fields, ..self }
    }

    /// Refuses a message with tool calls that has no `reasoning_content`, or an empty one.
    pub fn reasoning_with_calls(self) -> Self {
        Self { reasoning_with_calls: true, ..self }
    }

    /// Refuses ids of calls that are not nine letters and digits.
    pub fn short_call_ids(self) -> Self {
        Self { short_call_ids: true, ..self }
    }

    /// Sends a stub of a call of another kind in each call.
    pub fn call_stubs(self) -> Self {
        Self { call_stubs: true, ..self }
    }

    /// Sends `extra_content` with a signature in each call.
    pub fn signed_calls(self) -> Self {
        Self { signed_calls: true, ..self }
    }

    /// Counts reasoning in the total of the tokens, and not in those of the answer.
    pub fn reasoning_beside(self) -> Self {
        Self { reasoning_beside: true, ..self }
    }

    /// Sends embeddings as numbers even if base64 is requested.
    pub fn floats_only(self) -> Self {
        Self { floats_only: true, ..self }
    }
}
