//! A run as a stream of events. The tests cover the order of the events, the single last event, backpressure, and
//! providers with unusual streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, CompletionResponse, Message, Provider, ProviderError, StreamEvent,
    StreamHandle, StreamReceiver, TokenUsage, ToolContext,
};

use crate::support::*;

fn short(event: &StreamEvent) -> String {
    match event {
        StreamEvent::TextDelta(text) => format!("text {text}"),
        StreamEvent::ThinkingDelta(text) => format!("thinking {text}"),
        StreamEvent::SignatureDelta(text) => format!("signature {text}"),
        StreamEvent::ToolUseStart { id, .. } => format!("start {id}"),
        StreamEvent::ToolUseInputDelta { id, delta } => format!("input {id} {delta}"),
        StreamEvent::ToolUseEnd { id } => format!("end {id}"),
        StreamEvent::ToolUse { id, input, .. } => format!("call {id} {input}"),
        StreamEvent::Usage(usage) => format!("usage {}", usage.output_tokens),
        StreamEvent::MessageComplete(message) => format!("message {}", message.content.len()),
        StreamEvent::ToolResult { id, output, .. } => format!("result {id} {}", output.content[0]),
        StreamEvent::RunComplete(result) => format!("complete {}", result.response),
        StreamEvent::Error(error) => format!("error {error}"),
        other => panic!("{other:?} has no place in an agent's stream"),
    }
}

#[tokio::test]
async fn first_text_arrives_before_the_response_ends() {
    let produced = Arc::new(AtomicUsize::new(0));
    let provider = Counting(10_000, produced.clone());
    let mut agent = Chat::builder(provider, window()).build();
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let mut read = 0;
    while let Some(event) = events.recv().await {
        if matches!(event, StreamEvent::TextDelta(_)) {
            read += 1;
            let ahead = produced.load(Ordering::SeqCst) - read;
            assert!(ahead <= 1, "nothing is buffered: a slow reader slows the provider");
        }
        if read % 1000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(read, 10_000);
}

/// A provider that streams a number of deltas, and counts how many of them the loop has requested. The stream ends with
/// a message, but without a complete response.
struct Counting(usize, Arc<AtomicUsize>);

impl Provider for Counting {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Err(ProviderError::InvalidRequest("streams only".into()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        let (count, produced) = (self.0, self.1.clone());
        let deltas = futures_util::stream::iter(0..count).map(move |_| {
            produced.fetch_add(1, Ordering::SeqCst);
            StreamEvent::TextDelta("x".into())
        });
        let end = [
            StreamEvent::Usage(TokenUsage { output_tokens: count, ..Default::default() }),
            StreamEvent::MessageComplete(Message::assistant("x".repeat(count))),
        ];
        Ok(StreamReceiver::new(deltas.chain(futures_util::stream::iter(end))).into())
    }
}

#[tokio::test]
async fn channel_stream_that_ends_with_a_message_is_complete() {
    struct OverChannel;
    impl Provider for OverChannel {
        async fn complete(
            &self,
            _: CompletionRequest,
        ) -> Result<CompletionResponse, ProviderError> {
            Err(ProviderError::InvalidRequest("streams only".into()))
        }
        async fn complete_stream(
            &self,
            _: CompletionRequest,
        ) -> Result<StreamHandle, ProviderError> {
            let (sender, receiver) = tokio::sync::mpsc::channel(2);
            tokio::spawn(async move {
                for text in ["Hel", "lo"] {
                    sender.send(StreamEvent::TextDelta(text.into())).await.ok();
                }
                sender.send(StreamEvent::MessageComplete(Message::assistant("Hello"))).await.ok();
            });
            Ok(receiver.into())
        }
    }
    let mut agent = Chat::builder(OverChannel, window()).build();
    let result = run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "Hello");
}

#[tokio::test]
async fn error_is_the_last_event_and_keeps_its_kind() {
    let setup = setup([Reply::text("half an answer").chunk_chars(4).fail_after(
        2,
        ProviderError::RateLimit { retry_after: Some(std::time::Duration::from_secs(7)) },
    )]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let events: Vec<_> = agent.run_stream(Message::user("go"), &ctx).await.collect().await;
    let [first, second, StreamEvent::Error(error)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((short(first), short(second)), ("text half".into(), "text  an ".into()));
    assert!(error.is_retryable());
    assert_eq!(error.retry_after(), Some(std::time::Duration::from_secs(7)));
    assert_eq!(error.kind(), "Provider");
    assert!(matches!(error.as_provider(), Some(ProviderError::RateLimit { .. })));
}

#[tokio::test]
async fn dropped_stream_drops_the_request_and_releases_the_agent() {
    let setup = setup([Reply::text("a long answer").chunk_chars(1), Reply::text("again")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    {
        let mut events = agent.run_stream(Message::user("go"), &ctx).await;
        events.recv().await.unwrap();
        assert_eq!(setup.provider.open_streams(), 1);
    }
    assert_eq!(setup.provider.open_streams(), 0);
    check_valid(agent.messages());
    assert_eq!(agent.run_text("go", &ctx).await.unwrap().response, "again");
}

#[tokio::test]
async fn stream_can_own_its_agent() {
    let provider = ScriptedProvider::new([Reply::text("hi")]);
    let agent = Chat::builder(provider, window()).build();
    let stream = agent.into_stream(Message::user("go"), ToolContext::default());
    let events: Vec<_> = tokio::spawn(stream.collect::<Vec<_>>()).await.unwrap();
    let Some(StreamEvent::RunComplete(result)) = events.last() else { panic!("{events:?}") };
    assert_eq!(result.response, "hi");
}

#[tokio::test]
async fn nothing_happens_before_the_first_poll() {
    let setup = setup([Reply::text("hi")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    drop(agent.run_stream(Message::user("go"), &ctx).await);
    assert_eq!(setup.provider.calls(), 0);
    assert_eq!(agent.messages(), [], "a run adds its message when it is first polled");
}

/// Regression test. A provider may forward events from the stream of another agent. Before the fix, the reader received
/// them, so the end of that agent looked like the end of this run.
#[tokio::test]
async fn provider_events_other_than_deltas_are_not_forwarded() {
    struct Odd;
    impl Provider for Odd {
        async fn complete(
            &self,
            _: CompletionRequest,
        ) -> Result<CompletionResponse, ProviderError> {
            Err(ProviderError::InvalidRequest("streams only".into()))
        }
        async fn complete_stream(
            &self,
            _: CompletionRequest,
        ) -> Result<StreamHandle, ProviderError> {
            let inner = neuron_types::AgentResult {
                response: "inner".into(),
                messages: vec![],
                usage: TokenUsage::default(),
                turns: 0,
                stop_reason: neuron_types::StopReason::EndTurn,
                limit_reached: None,
            };
            let output = neuron_types::ToolOutput::text("inner");
            let events = [
                StreamEvent::ToolResult { id: "x".into(), name: "x".into(), output },
                StreamEvent::RunComplete(Box::new(inner)),
                StreamEvent::Usage(TokenUsage { output_tokens: 3, ..Default::default() }),
                StreamEvent::MessageComplete(Message::assistant("outer")),
            ];
            Ok(StreamReceiver::new(futures_util::stream::iter(events)).into())
        }
    }
    let mut agent = Chat::builder(Odd, window()).build();
    let ctx = ToolContext::default();
    let events: Vec<_> = agent.run_stream(Message::user("go"), &ctx).await.collect().await;
    let events: Vec<_> = events.iter().map(short).collect();
    assert_eq!(events, ["message 1", "usage 3", "complete outer"]);
}

/// Regression test. Before the fix, polling a stream after a panic panicked again.
#[tokio::test]
async fn stream_ends_after_a_panic() {
    struct Panics;
    impl Provider for Panics {
        async fn complete(
            &self,
            _: CompletionRequest,
        ) -> Result<CompletionResponse, ProviderError> {
            panic!("the provider panics")
        }

        async fn complete_stream(
            &self,
            _: CompletionRequest,
        ) -> Result<StreamHandle, ProviderError> {
            panic!("the provider panics")
        }
    }
    let mut agent = Chat::builder(Panics, window()).build();
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let all = async { while events.recv().await.is_some() {} };
    let panicked = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(all)).await;
    assert!(panicked.is_err());
    assert!(events.recv().await.is_none());
    drop(events);
    check_valid(agent.messages());
}

/// Regression test. A run is cancelled at the moment when its response is complete. The response must be kept. Before
/// the fix, `run` kept it, and `run_stream` discarded it.
#[tokio::test]
async fn complete_response_counts_in_every_way_despite_cancel() {
    struct CancelsAtTheEnd(ScriptedProvider, tokio_util::sync::CancellationToken);
    impl Provider for CancelsAtTheEnd {
        async fn complete(
            &self,
            request: CompletionRequest,
        ) -> Result<CompletionResponse, ProviderError> {
            let answer = self.0.complete(request).await;
            self.1.cancel();
            answer
        }
        async fn complete_stream(
            &self,
            request: CompletionRequest,
        ) -> Result<StreamHandle, ProviderError> {
            let (response, token) = (self.0.complete(request).await?, self.1.clone());
            Ok(StreamReceiver::new(futures_util::stream::once(async move {
                token.cancel();
                StreamEvent::ResponseComplete(Box::new(response))
            }))
            .into())
        }
    }
    for way in WAYS {
        let ctx = ToolContext::default();
        let provider = ScriptedProvider::new([Reply::text("whole")]);
        let provider = CancelsAtTheEnd(provider, ctx.cancellation_token.clone());
        let mut agent = Chat::builder(provider, window()).build();
        assert_eq!(run(way, &mut agent, &ctx).await.unwrap().response, "whole", "{way:?}");
    }
}
