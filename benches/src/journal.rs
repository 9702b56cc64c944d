//! Steps of a run in the embedded journal, and the same bytes at the end of a file as their floor.

pub mod floor;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use neuron_durable_sqlite::{SqliteDurableContext, SqliteRuns};
use neuron_runtime::StepRecord;
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, DurableContext as _, DurableError,
    Message, Provider, ProviderError, StopReason, StreamHandle, TokenUsage,
};

/// How long the answers are, in bytes of text.
pub const LENGTHS: [usize; 3] = [1 << 10, 4 << 10, 32 << 10];

/// A model in this process that always says the same, at once.
#[derive(Debug, Clone)]
pub struct Parrot(CompletionResponse);

impl Parrot {
    /// One whose answers have so many bytes of text.
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

    /// The bytes of an answer's record.
    ///
    /// # Errors
    ///
    /// None for such an answer.
    pub fn record(&self) -> Result<Vec<u8>, DurableError> {
        StepRecord::of_llm(Ok(self.0.clone()), Utc::now()).to_json()
    }
}

impl Provider for Parrot {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Ok(self.0.clone())
    }

    async fn complete_ref(
        &self,
        _: &CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        Ok(self.0.clone())
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("this model does not stream".into()))
    }
}

/// A run whose model is called over and over, and never twice for the same.
#[derive(Debug)]
pub struct Steps {
    context: SqliteDurableContext<Parrot>,
    request: CompletionRequest,
}

impl Steps {
    /// Opens a run in a new database in a folder.
    ///
    /// # Errors
    ///
    /// The journal's.
    pub async fn new(folder: &Path, parrot: Parrot) -> Result<Self, Box<dyn std::error::Error>> {
        let runs = SqliteRuns::open(folder.join("runs.db")).await?;
        let context = runs.run("run").open(Arc::new(parrot), Arc::default()).await?;
        let messages = vec![Message::user("go")];
        Ok(Self { context, request: CompletionRequest { messages, ..Default::default() } })
    }

    /// Calls the model once, which is one record; returns how long that took.
    ///
    /// # Errors
    ///
    /// The journal's.
    pub async fn step(&self) -> Result<Duration, DurableError> {
        let start = Instant::now();
        self.context.execute_llm_call_ref(&self.request, ActivityOptions::default()).await?;
        Ok(start.elapsed())
    }
}
