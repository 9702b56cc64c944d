//! Tests of model calls as steps.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use neuron_durable::DurableOptions;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ActivityOptions, AnswerMetadata, ContentBlock, DeltaSink, DurableContext, DurableError,
    Message, ProviderError, RetryPolicy, Role, StreamEvent, Unsent,
};

use crate::SqliteRuns;
use crate::test_support::{answering, no_tools, place, request};

#[tokio::test]
async fn stored_response_is_replayed_without_a_call() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let options = ActivityOptions::default;
    {
        let (durable, provider) = answering(&runs, "r", &["one", "two"]).await;
        assert!(!durable.is_replaying());
        let one = durable.execute_llm_call(request("a"), options()).await.unwrap();
        assert_eq!(one.message.text(), "one");
        durable.execute_llm_call(request("b"), options()).await.unwrap();
        assert_eq!(provider.calls(), 2);
    }
    let (durable, provider) = answering(&runs, "r", &["three"]).await;
    assert!(durable.is_replaying());
    let one = durable.execute_llm_call_ref(request("a").view(), options()).await.unwrap();
    assert_eq!(one.message.text(), "one");
    let two = durable.execute_llm_call_ref(request("b").view(), options()).await.unwrap();
    assert_eq!(two.message.text(), "two");
    assert!(!durable.is_replaying());
    assert_eq!(provider.calls(), 0);
    let three = durable.execute_llm_call_ref(request("c").view(), options()).await.unwrap();
    assert_eq!(three.message.text(), "three");
    assert_eq!(provider.calls(), 1);
}

#[tokio::test]
async fn response_metadata_is_stored_and_replayed() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let mut metadata = AnswerMetadata::default();
    metadata.request_id = Some("req_1".into());
    let answer = Message { role: Role::Assistant, content: vec![ContentBlock::Text("a".into())] };
    let answer = answer.with_metadata(&metadata);
    for replies in [vec![Reply::message(answer.content.clone())], vec![]] {
        let provider = Arc::new(ScriptedProvider::new(replies));
        let durable = runs.run("r").open(provider, no_tools()).await.unwrap();
        let options = ActivityOptions::default();
        let response = durable.execute_llm_call(request("a"), options).await.unwrap();
        assert_eq!(response.message.metadata().as_ref(), Some(&metadata));
    }
}

/// Regression test. Before the fix, the error did not say any more that the request used no tokens.
#[tokio::test]
async fn request_that_was_not_sent_used_no_tokens_on_replay_too() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let unsent = ProviderError::Network(Box::new(Unsent("refused".into())));
    for replies in [vec![Reply::error(unsent)], vec![]] {
        let provider = Arc::new(ScriptedProvider::new(replies));
        let durable = runs.run("r").open(provider, no_tools()).await.unwrap();
        let options = ActivityOptions::default();
        let error = durable.execute_llm_call(request("a"), options).await.unwrap_err();
        let DurableError::Provider(error) = error else { panic!("{error}") };
        assert!(error.takes_no_tokens(), "{error:?}");
    }
}

#[tokio::test]
async fn replay_with_another_request_fails_without_a_call() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let options = ActivityOptions::default;
    {
        let (durable, _) = answering(&runs, "r", &["one"]).await;
        durable.execute_llm_call(request("a"), options()).await.unwrap();
    }
    let (durable, provider) = answering(&runs, "r", &["other"]).await;
    let error = durable.execute_llm_call(request("secret"), options()).await.unwrap_err();
    assert!(matches!(error, DurableError::NonDeterminism { .. }), "{error:?}");
    assert!(!error.to_string().contains("secret"));
    assert_eq!(provider.calls(), 0);
    // The journal is unchanged.
    let one = durable.execute_llm_call(request("a"), options()).await.unwrap();
    assert_eq!(one.message.text(), "one");
}

/// A sink that keeps the received events.
#[derive(Default)]
struct Seen(Mutex<Vec<StreamEvent>>);

impl DeltaSink for Seen {
    fn poll_send(&self, _: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        self.0.lock().unwrap().extend(event.take());
        Poll::Ready(())
    }
}

#[tokio::test(start_paused = true)]
async fn deltas_are_sent_once_and_reset_after_a_broken_stream() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let retry_policy = RetryPolicy {
        initial_interval: Duration::from_secs(1),
        backoff_coefficient: 1.0,
        maximum_attempts: 2,
        maximum_interval: Duration::from_secs(1),
        non_retryable_errors: Vec::new(),
    };
    let options = ActivityOptions { retry_policy: Some(retry_policy), ..Default::default() };
    let provider = Arc::new(ScriptedProvider::new([
        Reply::text("lost").end_early_after(1),
        Reply::text("whole answer"),
    ]));
    let seen = Seen::default();
    let first = {
        let durable = runs.run("r").open(provider.clone(), no_tools()).await.unwrap();
        durable.execute_llm_stream(request("a").view(), options.clone(), &seen).await.unwrap()
    };
    let events = seen.0.into_inner().unwrap();
    let resets = events.iter().filter(|event| matches!(event, StreamEvent::Reset { .. })).count();
    let texts = events.iter().filter_map(|event| match event {
        StreamEvent::TextDelta(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(resets, 1);
    assert!(texts.collect::<String>().ends_with("whole answer"));

    let durable = runs.run("r").open(provider.clone(), no_tools()).await.unwrap();
    let seen = Seen::default();
    let again = durable.execute_llm_stream(request("a").view(), options, &seen).await.unwrap();
    assert_eq!(again, first);
    assert!(seen.0.into_inner().unwrap().is_empty(), "replay emits no deltas");
    assert_eq!(provider.calls(), 2);
}

#[tokio::test]
async fn errors_and_too_long_responses_are_replayed_as_errors() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let provider = Arc::new(ScriptedProvider::new([
        Reply::error(ProviderError::RateLimit { retry_after: Some(Duration::from_secs(7)) }),
        Reply::text("x".repeat(5000)),
    ]));
    let mut texts = Vec::new();
    for _ in 0..2 {
        let opened = runs
            .run("r")
            .options(DurableOptions::new().record_limit(4000))
            .open(provider.clone(), no_tools())
            .await;
        let durable = opened.unwrap();
        let call = || durable.execute_llm_call(request("a"), ActivityOptions::default());
        let error = call().await.unwrap_err();
        assert!(
            matches!(&error, DurableError::Provider(ProviderError::RateLimit { retry_after: Some(wait) }) if wait.as_secs() == 7),
            "{error:?}"
        );
        let error = call().await.unwrap_err();
        assert!(matches!(error, DurableError::Provider(ProviderError::Other(_))), "{error:?}");
        texts.push(error.to_string());
    }
    assert!(texts[0].contains("the model's answer takes 5"), "{}", texts[0]);
    assert_eq!(texts[0], texts[1]);
    assert_eq!(provider.calls(), 2, "neither is called again");
    let steps = runs.inspect("r").await.unwrap().steps;
    assert_eq!(steps[0].error.as_deref(), Some("RateLimit"));
    assert!(steps[1].bytes < 400);
}
