//! The differences between OpenAI and servers that are compatible with its API.

/// The differences between OpenAI and a server that is compatible with its API.
///
/// The default has no differences. Each method adds one difference of a known server. A provider for compatible servers
/// must handle all of these differences.
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

/// The form of the call id in all deltas of a tool call except the first. The first delta always has the full id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LaterIds {
    /// Later deltas of a tool call have no `id` field.
    #[default]
    Missing,
    /// Later deltas of a tool call have `"id": null`.
    Null,
    /// Later deltas of a tool call have an empty string as `id`.
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

    /// Sends the usage of a stream in the chunk with the finish reason, even if the request does not ask for usage.
    pub fn usage_on_last_choice(self) -> Self {
        Self { usage_on_last_choice: true, ..self }
    }

    /// Ends a chat stream without `[DONE]`.
    pub fn without_done(self) -> Self {
        Self { no_done: true, ..self }
    }

    /// Sends the HTTP status, as a number, in the `code` of an error.
    pub fn numeric_codes(self) -> Self {
        Self { numeric_codes: true, ..self }
    }

    /// Sends the reasoning of a chat in `reasoning` instead of `reasoning_content`.
    pub fn reasoning_field(self) -> Self {
        Self { reasoning_field: true, ..self }
    }

    /// Reports an error in a stream of the Responses API with one `error` event that has `code` and `message` at its
    /// top level. OpenAI nests these fields under `error` and also sends `response.failed`.
    pub fn flat_stream_errors(self) -> Self {
        Self { flat_stream_errors: true, ..self }
    }

    /// Accepts unknown parameters, and does not check if a model supports a parameter.
    pub fn lenient(self) -> Self {
        Self { lenient: true, ..self }
    }

    /// Sends embeddings in reverse order. Each embedding has its correct `index`.
    pub fn shuffled_embeddings(self) -> Self {
        Self { shuffled_embeddings: true, ..self }
    }

    /// Serves the API under `prefix` instead of `/v1`, for example under `/api/paas/v4`. An empty prefix serves
    /// `/chat/completions` at the root.
    pub fn served_at(self, prefix: &'static str) -> Self {
        Self { prefix: Some(prefix), ..self }
    }

    /// Accepts the key only in the header `header`, without `Bearer`.
    pub fn key_in(self, header: &'static str) -> Self {
        Self { key_header: Some(header), ..self }
    }

    /// Sends the usage at the end of each stream, and rejects requests with `stream_options`.
    pub fn usage_without_option(self) -> Self {
        Self { usage_always: true, ..self }
    }

    /// Rejects a request that has one of `fields` at its top level or in a message.
    pub fn refusing(self, fields: &'static [&'static str]) -> Self {
        Self { refused: fields, ..self }
    }

    /// Rejects a message with tool calls whose `reasoning_content` is missing or empty.
    pub fn reasoning_with_calls(self) -> Self {
        Self { reasoning_with_calls: true, ..self }
    }

    /// Rejects tool call ids that are not exactly nine ASCII letters and digits.
    pub fn short_call_ids(self) -> Self {
        Self { short_call_ids: true, ..self }
    }

    /// Adds the field `custom` with an empty name to each tool call, as if it were also a call of a custom tool.
    pub fn call_stubs(self) -> Self {
        Self { call_stubs: true, ..self }
    }

    /// Adds the field `extra_content` with a thought signature to each tool call, as Gemini does.
    pub fn signed_calls(self) -> Self {
        Self { signed_calls: true, ..self }
    }

    /// Includes the reasoning tokens in `total_tokens`, but not in `completion_tokens`.
    pub fn reasoning_beside(self) -> Self {
        Self { reasoning_beside: true, ..self }
    }

    /// Sends embeddings as arrays of numbers, even if the request asks for base64.
    pub fn floats_only(self) -> Self {
        Self { floats_only: true, ..self }
    }
}
