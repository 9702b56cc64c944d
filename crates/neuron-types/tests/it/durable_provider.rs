//! Tests of `DurableProvider`, which calls the model through a durable context.

use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, Durability, DurableContext,
    DurableError, DurableProvider, Message, Provider, ProviderError, StopReason, TokenUsage,
    ToolContext, ToolOutput,
};
use serde_json::Value;

/// A durable context for tests. A response consists of the text of the request's first message and the timeout of an
/// attempt in seconds. If the field is set, every model call returns an error from this function instead.
struct Engine(Option<fn() -> DurableError>);

impl DurableContext for Engine {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        if let Some(error) = self.0 {
            return Err(error());
        }
        let (text, seconds) =
            (request.messages[0].text(), options.start_to_close_timeout.as_secs());
        Ok(CompletionResponse {
            id: "1".into(),
            model: "m".into(),
            message: Message::assistant(format!("{text} {seconds}")),
            usage: TokenUsage { input_tokens: 3, ..Default::default() },
            stop_reason: StopReason::StopSequence,
        })
    }

    async fn execute_tool(
        &self,
        _: &str,
        _: Value,
        _: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        Err(DurableError::Cancelled)
    }

    async fn wait_for_signal<T: serde::de::DeserializeOwned>(
        &self,
        _: &str,
        _: Duration,
    ) -> Result<Option<T>, DurableError> {
        Ok(None)
    }

    fn should_continue_as_new(&self) -> bool {
        false
    }

    async fn continue_as_new(&self, _: Value) -> Result<(), DurableError> {
        Ok(())
    }

    async fn sleep(&self, _: Duration) {}

    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }
}

fn request() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hello")], ..Default::default() }
}

#[tokio::test]
async fn all_methods_call_the_context() {
    let options =
        ActivityOptions { start_to_close_timeout: Duration::from_secs(7), ..Default::default() };
    let provider = DurableProvider::new(Durability::new(Engine(None))).with_options(options);
    let (request, whole) = (request(), provider.complete_ref(request().view()).await.unwrap());
    assert_eq!(whole.message, Message::assistant("hello 7"));
    assert_eq!(provider.complete(request.clone()).await.unwrap(), whole);
    let streamed = provider.complete_stream_ref(request.view()).await.unwrap();
    assert_eq!(streamed.into_response().await.unwrap(), whole);
    let streamed = provider.complete_stream(request).await.unwrap();
    assert_eq!(streamed.into_response().await.unwrap(), whole);
}

#[tokio::test]
async fn provider_error_is_unchanged_and_engine_error_is_the_source() {
    let provider = DurableProvider::new(Engine(Some(|| {
        DurableError::Provider(ProviderError::RateLimit { retry_after: None })
    })));
    let error = provider.complete(request()).await.unwrap_err();
    assert!(matches!(error, ProviderError::RateLimit { retry_after: None }), "{error}");

    let provider =
        DurableProvider::new(Engine(Some(|| DurableError::ContinueAsNew("next".into()))));
    let Err(ProviderError::Other(error)) = provider.complete_ref(request().view()).await else {
        panic!("another error");
    };
    assert!(matches!(error.downcast_ref(), Some(DurableError::ContinueAsNew(_))));
    assert!(provider.complete_stream(request()).await.is_err());
}
