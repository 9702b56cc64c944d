//! Implements a provider for a model that runs inside the program, with complete and streamed responses.

use futures_util::stream;
use neuron::prelude::*;
use neuron::types::{ProviderInfo, RequestRef, StreamHandle, StreamReceiver};

/// A model that runs inside the program. It repeats the last question, word by word.
struct Parrot;

impl Parrot {
    /// Generates the tokens of the response to a request.
    fn generate(&self, request: RequestRef<'_>) -> Result<Vec<String>, ProviderError> {
        if !request.tools.is_empty() {
            // An error is better than a response that ignores a part of the request.
            return Err(ProviderError::InvalidRequest("a parrot cannot call tools".into()));
        }
        let question = request.messages.last().map(Message::text).unwrap_or_default();
        let words = question.split_inclusive(' ');
        Ok(words.take(request.max_tokens.unwrap_or(100)).map(str::to_owned).collect())
    }

    fn response(request: RequestRef<'_>, words: &[String]) -> CompletionResponse {
        CompletionResponse {
            id: "parrot-1".into(),
            model: "parrot".into(),
            message: Message::assistant(words.concat()),
            usage: TokenUsage {
                input_tokens: request.messages.len(),
                output_tokens: words.len(),
                ..TokenUsage::default()
            },
            stop_reason: StopReason::EndTurn,
        }
    }
}

impl Provider for Parrot {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        let words = self.generate(request)?;
        Ok(Self::response(request, &words))
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        let words = self.generate(request)?;
        let response = Self::response(request, &words);
        // A stream has deltas, and then these three events.
        let end = [
            StreamEvent::Usage(response.usage.clone()),
            StreamEvent::MessageComplete(response.message.clone()),
            StreamEvent::ResponseComplete(Box::new(response)),
        ];
        let events = words.into_iter().map(StreamEvent::TextDelta).chain(end);
        Ok(StreamReceiver::new(stream::iter(events)).into())
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("parrot", "parrot")
    }
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let agent = Agent::builder(Parrot).build();
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "Hello, who is there?").await?;
    println!("complete: {}, {} tokens", result.response, result.usage.output_tokens);

    let mut stream = agent.run(&mut conversation, "Polly wants a cracker.").stream();
    while let Some(event) = stream.next().await {
        if let RunEvent::Event(StreamEvent::TextDelta(text)) = event? {
            println!("delta: {text:?}");
        }
    }
    Ok(())
}
