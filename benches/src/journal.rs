//! Steps of a durable run with the SQLite journal, which are compared with appends of the same bytes to a file.

pub mod floor;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use neuron_durable_sqlite::{SqliteDurableContext, SqliteRuns};
use neuron_runtime::StepRecord;
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, DurableContext as _, DurableError,
    Message, Provider, ProviderError, RequestRef, StopReason, StreamHandle, TokenUsage,
};

/// Lengths of the responses, in bytes of text.
pub const LENGTHS: [usize; 3] = [1 << 10, 4 << 10, 32 << 10];

/// A model without a network that always returns the same response immediately.
#[derive(Debug, Clone)]
pub struct Parrot(CompletionResponse);

impl Parrot {
    /// Creates a model whose responses have at least `length` bytes of text.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let text = "All human beings are born free. ".repeat(length.div_ceil(32));
        Self(CompletionResponse {
            id: "answer".into(),
            model: "parrot".into(),
            message: Message::assistant(text),
            usage: TokenUsage { input_tokens: 10, output_tokens: 1000, ..TokenUsage::default() },
            stop_reason: StopReason::EndTurn,
        })
    }

    /// Returns the bytes of the journal record for a response of this model.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be encoded as JSON. This never happens for a response.
    pub fn record(&self) -> Result<Vec<u8>, DurableError> {
        StepRecord::of_llm(Ok(self.0.clone()), Utc::now()).to_json()
    }
}

impl Provider for Parrot {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Ok(self.0.clone())
    }

    async fn complete_ref(&self, _: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        Ok(self.0.clone())
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("this model does not stream".into()))
    }
}

/// A durable run that calls the model again and again. Every call writes a new journal entry.
#[derive(Debug)]
pub struct Steps {
    context: SqliteDurableContext<Parrot>,
    request: CompletionRequest,
}

impl Steps {
    /// Opens a durable run in a new SQLite database in `folder`. The model of the run is `parrot`.
    ///
    /// # Errors
    ///
    /// Returns the error of the journal.
    pub async fn new(folder: &Path, parrot: Parrot) -> Result<Self, Box<dyn std::error::Error>> {
        let runs = SqliteRuns::open(folder.join("runs.db")).await?;
        let context = runs.run("run").open(Arc::new(parrot), Arc::default()).await?;
        let messages = vec![Message::user("go")];
        Ok(Self { context, request: CompletionRequest { messages, ..Default::default() } })
    }

    /// Calls the model once, which writes one journal entry, and returns the duration.
    ///
    /// # Errors
    ///
    /// Returns the error of the journal.
    pub async fn step(&self) -> Result<Duration, DurableError> {
        let start = Instant::now();
        self.context.execute_llm_call_ref(self.request.view(), ActivityOptions::default()).await?;
        Ok(start.elapsed())
    }
}
