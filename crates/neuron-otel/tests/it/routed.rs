//! Tests of the telemetry of a router's calls.

use neuron_otel::{OtelHook, SemanticConventions};
use neuron_router::{Route, Router};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, Message, Provider, ProviderError, ProviderInfo, ToolContext,
};
use opentelemetry::trace::Status;

use crate::support::agents::{Chat, MODES, WAYS, hook, run, scout_of};
use crate::support::memory::{Memory, attribute};

fn busy() -> Reply {
    Reply::error(ProviderError::ServiceUnavailable("529 busy".into()))
}

/// Returns a router over a model of Anthropic and one of OpenAI, with the replies of each.
fn router(large: impl Into<Reply>, small: impl Into<Reply>) -> Router {
    let (large, small) = (ScriptedProvider::new([large]), ScriptedProvider::new([small]));
    Router::builder()
        .route(Route::new("a", large.with_info(ProviderInfo::new("anthropic", "large"))))
        .route(Route::new("b", small.with_info(ProviderInfo::new("openai", "small"))))
        .build()
        .unwrap()
}

fn request() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hi")], ..CompletionRequest::default() }
}

/// Checks the name of the only span of a model call, and its provider and model.
#[track_caller]
fn check_call(memory: &Memory, conventions: SemanticConventions, provider: &str, model: &str) {
    let (name, system) = match conventions {
        SemanticConventions::Book => ("gen_ai.chat".to_owned(), "gen_ai.system"),
        _ => (format!("chat {model}"), "gen_ai.provider.name"),
    };
    let call = memory.one(&name);
    assert_eq!(attribute(&call, system).as_deref(), Some(provider));
    assert_eq!(attribute(&call, "gen_ai.request.model").as_deref(), Some(model));
}

/// Checks that the only span of this name has failed because its vendor was overloaded.
#[track_caller]
fn check_overloaded(memory: &Memory, name: &str) {
    let span = memory.one(name);
    assert_eq!(attribute(&span, "error.type").as_deref(), Some("ServiceUnavailable"), "{name}");
    assert!(matches!(span.status, Status::Error { .. }), "{name}: {:?}", span.status);
}

#[tokio::test]
async fn spans_of_a_fallback_name_the_model_that_answered() {
    for conventions in MODES {
        for way in WAYS {
            let memory = Memory::new();
            let hook = hook(&memory).with_conventions(conventions);
            let mut agent = Chat::new(scout_of(router(busy(), "hi")).hook(hook));
            run(way, &mut agent, &ToolContext::default()).await;
            check_call(&memory, conventions, "openai", "small");
            check_overloaded(&memory, "route a");
            let failed = memory.one("route a");
            assert_eq!(attribute(&failed, "gen_ai.request.model").as_deref(), Some("large"));
            let answered = memory.one("route b");
            assert_eq!(answered.status, Status::Unset);
            assert_eq!(attribute(&answered, "error.type"), None);
            assert_eq!(attribute(&answered, "gen_ai.request.model").as_deref(), Some("small"));
        }
    }
}

#[tokio::test]
async fn metrics_of_a_fallback_name_the_model_that_answered() {
    let memory = Memory::new();
    let provider = hook(&memory).provider(router(busy(), "hi"));
    provider.complete(request()).await.unwrap();
    let durations = memory.measured("gen_ai.client.operation.duration");
    assert_eq!(durations.len(), 1, "{durations:?}");
    let call = durations.keys().next().unwrap();
    for pair in ["gen_ai.provider.name=openai", "gen_ai.request.model=small"] {
        assert!(call.contains(pair), "{call}");
    }
    assert!(!call.contains("anthropic"), "{call}");
}

#[tokio::test]
async fn call_without_fallback_names_the_first_route() {
    for conventions in MODES {
        let memory = Memory::new();
        let hook = hook(&memory).with_conventions(conventions);
        let provider = hook.provider(router("hi", "hi"));
        provider.complete_stream(request()).await.unwrap().into_response().await.unwrap();
        check_call(&memory, conventions, "anthropic", "large");
    }
}

#[tokio::test]
async fn call_that_no_route_answers_names_the_first_route() {
    let memory = Memory::new();
    let provider = OtelHook::new().without_metrics().provider(router(busy(), busy()));
    provider.complete(request()).await.unwrap_err();
    check_call(&memory, SemanticConventions::default(), "anthropic", "large");
    check_overloaded(&memory, "chat large");
    for route in ["route a", "route b"] {
        check_overloaded(&memory, route);
    }
}
