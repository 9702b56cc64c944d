//! Routes, errors and calls for the tests.

use std::time::Duration;

use neuron_loop::{Run, RunEvent, RunResult};
use neuron_model::{
    AnswerRoute, CompletionRequest, CompletionResponse, Message, Provider, ProviderError,
    StreamEvent,
};
use neuron_router::{Route, Router, RouterBuilder};
use neuron_testing::{Reply, ScriptedProvider};

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn busy() -> ProviderError {
    ProviderError::ServiceUnavailable("529 busy".into())
}

pub(crate) fn limited(retry_after: u64) -> ProviderError {
    ProviderError::RateLimit { retry_after: Some(seconds(retry_after)) }
}

pub(crate) fn too_long() -> ProviderError {
    ProviderError::ContextWindowExceeded("prompt is too long".into())
}

/// Creates a provider from the replies of its script.
pub(crate) fn script<const N: usize>(replies: [Reply; N]) -> ScriptedProvider {
    ScriptedProvider::new(replies)
}

/// Creates a provider that fails every call.
pub(crate) fn failing(error: fn() -> ProviderError) -> ScriptedProvider {
    ScriptedProvider::new((0..20).map(|_| Reply::error(error())))
}

/// Creates a provider that answers every call with its text.
pub(crate) fn answering(text: &str) -> ScriptedProvider {
    ScriptedProvider::new((0..1_000).map(|_| Reply::text(text)))
}

/// Creates a builder with a route for each provider. The routes are named `a`, `b` and so on.
pub(crate) fn routes<'p>(
    providers: impl IntoIterator<Item = &'p ScriptedProvider>,
) -> RouterBuilder {
    let names = ('a'..='z').map(String::from);
    names.zip(providers).fold(Router::builder(), |builder, (name, provider)| {
        builder.route(Route::new(name, provider.clone()))
    })
}

pub(crate) fn router<'p>(providers: impl IntoIterator<Item = &'p ScriptedProvider>) -> Router {
    routes(providers).build().unwrap()
}

pub(crate) fn request() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hello")], ..Default::default() }
}

/// Calls a provider and returns its response.
pub(crate) async fn ask(provider: &impl Provider) -> Result<CompletionResponse, ProviderError> {
    provider.complete_ref(request().view()).await
}

/// Calls a provider and returns the text of its response.
pub(crate) async fn text(provider: &impl Provider) -> Result<String, ProviderError> {
    Ok(ask(provider).await?.message.text())
}

/// Requests a stream, reads it to its end, and returns the response.
pub(crate) async fn ask_streamed(
    provider: &impl Provider,
) -> Result<CompletionResponse, ProviderError> {
    provider.complete_stream_ref(request().view()).await?.into_response().await
}

/// Requests a stream and returns its events.
pub(crate) async fn events(provider: &impl Provider) -> Result<Vec<StreamEvent>, ProviderError> {
    let mut stream = provider.complete_stream_ref(request().view()).await?.receiver;
    let mut events = Vec::new();
    while let Some(event) = stream.recv().await {
        events.push(event);
    }
    Ok(events)
}

pub(crate) fn route_of(response: &CompletionResponse) -> AnswerRoute {
    response.message.metadata().and_then(|metadata| metadata.route).expect("no route")
}

/// Returns the number of calls of each provider.
pub(crate) fn calls<'p>(providers: impl IntoIterator<Item = &'p ScriptedProvider>) -> Vec<usize> {
    providers.into_iter().map(ScriptedProvider::calls).collect()
}

/// Streams a run and returns its result. Panics if the run fails, or if it does not end exactly once.
pub(crate) async fn streamed(run: Run<'_>) -> RunResult {
    let (mut events, mut ended) = (run.stream(), None);
    while let Some(event) = events.next().await {
        assert!(ended.is_none(), "an event after the end");
        if let RunEvent::Ended(result) = event.unwrap() {
            ended = Some(result);
        }
    }
    ended.expect("no end")
}
