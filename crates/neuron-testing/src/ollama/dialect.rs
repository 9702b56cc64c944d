//! The differences between Ollama and its older versions or other servers with the same API.

/// The differences between a current Ollama and an older version, or another server with the same API.
///
/// The default has no differences. Each method adds one difference.
///
/// # Example
///
/// ```
/// use neuron_testing::OllamaServer;
/// use neuron_testing::ollama::Dialect;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = OllamaServer::builder()
///     .dialect(Dialect::default().without_call_ids().calls_in_last_line())
///     .start(["hello"])
///     .await?;
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Dialect {
    pub(super) no_call_ids: bool,
    pub(super) calls: CallLines,
    pub(super) no_prompt_count: bool,
}

/// The positions of tool calls in the lines of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CallLines {
    /// All calls are in one line, before the last line.
    #[default]
    Together,
    /// Each call has its own line, before the last line.
    Apart,
    /// All calls are in the last line.
    Last,
}

impl Dialect {
    /// Leaves out the ids and the indexes of tool calls.
    pub fn without_call_ids(self) -> Self {
        Self { no_call_ids: true, ..self }
    }

    /// Streams each tool call in its own line.
    pub fn calls_apart(self) -> Self {
        Self { calls: CallLines::Apart, ..self }
    }

    /// Streams tool calls in the last line, which has `"done": true`.
    pub fn calls_in_last_line(self) -> Self {
        Self { calls: CallLines::Last, ..self }
    }

    /// Leaves out the number of prompt tokens, as Ollama does if the whole prompt was cached.
    pub fn without_prompt_count(self) -> Self {
        Self { no_prompt_count: true, ..self }
    }
}
