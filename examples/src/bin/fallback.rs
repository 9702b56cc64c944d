//! Falls back from Anthropic to OpenAI while Anthropic is overloaded, with a provider that wraps both.

use neuron::anthropic::Anthropic;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::types::{ProviderInfo, RequestRef, StreamHandle};

// ANCHOR: provider
/// Calls `second` if `first` cannot answer.
struct Fallback<A, B> {
    first: A,
    second: B,
}

impl<A: Provider, B: Provider> Fallback<A, B> {
    /// Returns the request for `second`. A model name and extra fields are valid for one vendor only.
    fn after<'a>(&self, error: &ProviderError, request: RequestRef<'a>) -> RequestRef<'a> {
        println!("[{} failed: {error}]", self.first.info().name);
        println!("[{} answers]", self.second.info().name);
        RequestRef { model: "", extra: None, ..request }
    }
}

/// Returns `true` if another vendor may answer the same request.
fn may_fall_back(error: &ProviderError) -> bool {
    error.is_retryable() || matches!(error, ProviderError::InsufficientResources(_))
}

impl<A: Provider, B: Provider> Provider for Fallback<A, B> {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        match self.first.complete_ref(request).await {
            Err(error) if may_fall_back(&error) => {
                self.second.complete_ref(self.after(&error, request)).await
            }
            answered => answered,
        }
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        match self.first.complete_stream_ref(request).await {
            Err(error) if may_fall_back(&error) => {
                self.second.complete_stream_ref(self.after(&error, request)).await
            }
            started => started,
        }
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.first.info()
    }
}
// ANCHOR_END: provider

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = Fallback { first: Anthropic::from_env()?, second: OpenAi::from_env()? };
    let agent = Agent::builder(provider).build();

    let mut conversation = Conversation::new();
    for question in ["What is a lease?", "And a fencing token?"] {
        println!("you: {question}");
        let result = agent.run(&mut conversation, question).await?;
        println!("agent: {}", result.response);
    }
    Ok(())
}
// ANCHOR_END: main
