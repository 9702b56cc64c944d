//! Tests of [`OtelProvider`](neuron_otel::OtelProvider) and [`OtelEmbeddings`](neuron_otel::OtelEmbeddings).

use std::pin::pin;
use std::sync::Arc;

use neuron_context::SummarizationStrategy;
use neuron_otel::{OtelHook, SemanticConventions};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, CompletionResponse, EmbeddingError, EmbeddingProvider, EmbeddingRequest,
    EmbeddingResponse, EmbeddingUsage, Message, Provider, ProviderError, ProviderInfo, StreamEvent,
    StreamHandle, TokenUsage, ToolContext,
};
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::trace::SpanData;
use serde_json::json;

use crate::support::agents::{Chat, MODES, WAYS, bare, hook, looks, run, scout_of};
use crate::support::memory::{Memory, attribute};
use crate::support::polls::{LONG, nothing_happens, poll_times};
use crate::support::tools::{Act, registry};

const CHAT: &str = "chat scripted-model";

fn request() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hi")], ..CompletionRequest::default() }
}

#[track_caller]
fn check_failed(span: &SpanData, kind: &str) {
    assert_eq!(attribute(span, "error.type").as_deref(), Some(kind), "{}", span.name);
    assert!(matches!(span.status, Status::Error { .. }));
}

fn chats(memory: &Memory) -> u64 {
    memory.measured("gen_ai.client.operation.duration").values().sum()
}

fn first_chunks(memory: &Memory) -> u64 {
    memory.measured("gen_ai.client.operation.time_to_first_chunk").values().sum()
}

/// Reads a stream to its end, and returns its events.
async fn events(provider: &impl Provider) -> Result<Vec<StreamEvent>, ProviderError> {
    let mut stream = provider.complete_stream(request()).await?.receiver;
    let mut events = Vec::new();
    while let Some(event) = stream.recv().await {
        events.push(event);
    }
    // A stream that has ended returns no further events.
    assert!(stream.recv().await.is_none());
    Ok(events)
}

#[tokio::test]
async fn wrapped_call_has_span_and_metrics() {
    let memory = Memory::new();
    let usage = TokenUsage { input_tokens: 7, output_tokens: 2, ..TokenUsage::default() };
    let script = ScriptedProvider::new([
        Reply::text("one").usage(usage.clone()),
        Reply::text("two").usage(usage),
    ]);
    let provider = hook(&memory).provider(script.clone());
    assert_eq!(provider.complete(request()).await.unwrap().message.text(), "one");
    assert_eq!(provider.complete_ref(request().view()).await.unwrap().message.text(), "two");
    memory.check_closed();
    let spans = memory.named(CHAT);
    assert_eq!(spans.len(), 2);
    for span in &spans {
        assert_eq!(span.span_kind, SpanKind::Client);
        assert_eq!(span.status, Status::Unset);
        assert_eq!(attribute(span, "gen_ai.provider.name").as_deref(), Some("scripted"));
        assert_eq!(attribute(span, "gen_ai.usage.input_tokens").as_deref(), Some("7"));
        assert_eq!(attribute(span, "gen_ai.request.stream"), None);
        assert_eq!(attribute(span, "gen_ai.conversation.id"), None);
    }
    assert_eq!(chats(&memory), 2);
    assert_eq!(first_chunks(&memory), 0);
    assert_eq!(memory.measured("gen_ai.client.token.usage").values().sum::<u64>(), 18);
    assert_eq!(provider.info().name, "scripted");
}

#[tokio::test]
async fn requested_model_is_recorded() {
    let memory = Memory::new();
    let provider = hook(&memory).provider(ScriptedProvider::new(["one"]));
    provider.complete(CompletionRequest { model: "large".into(), ..request() }).await.unwrap();
    let span = memory.one("chat large");
    assert_eq!(attribute(&span, "gen_ai.request.model").as_deref(), Some("large"));
    assert_eq!(attribute(&span, "gen_ai.response.model").as_deref(), Some("large"));
}

#[tokio::test]
async fn streamed_call_ends_with_its_last_event() {
    for by_reference in [false, true] {
        let memory = Memory::new();
        let script = ScriptedProvider::new([Reply::text("a text in pieces").chunk_chars(4)]);
        let provider = hook(&memory).provider(script);
        let request = request();
        let handle = match by_reference {
            true => provider.complete_stream_ref(request.view()).await.unwrap(),
            false => provider.complete_stream(request).await.unwrap(),
        };
        let mut stream = handle.receiver;
        assert!(matches!(stream.recv().await, Some(StreamEvent::TextDelta(_))));
        assert_eq!(memory.named(CHAT).len(), 0, "it goes on");
        let mut last = None;
        while let Some(event) = stream.recv().await {
            last = Some(event);
        }
        assert!(matches!(last, Some(StreamEvent::ResponseComplete(_))));
        memory.check_closed();
        let span = memory.one(CHAT);
        assert_eq!(span.status, Status::Unset);
        assert_eq!(attribute(&span, "gen_ai.request.stream").as_deref(), Some("true"));
        assert!(attribute(&span, "gen_ai.response.time_to_first_chunk").is_some());
        assert!(attribute(&span, "gen_ai.usage.output_tokens").is_some());
        assert_eq!((chats(&memory), first_chunks(&memory)), (1, 1));
        drop(stream);
        assert_eq!(chats(&memory), 1, "it ends once");
    }
}

#[tokio::test]
async fn errors_before_and_within_stream_are_recorded() {
    let limited = || ProviderError::RateLimit { retry_after: None };
    let memory = Memory::new();
    let provider = hook(&memory).provider(ScriptedProvider::new([
        Reply::error(limited()),
        Reply::error(limited()),
        Reply::text("broken").chunk_chars(2).fail_after(2, limited()),
        Reply::text("broken").fail_after(0, limited()),
        Reply::text("broken").chunk_chars(2).end_early_after(1),
        Reply::text("broken").end_early_after(0),
    ]));
    provider.complete(request()).await.unwrap_err();
    events(&provider).await.unwrap_err();
    let broken = events(&provider).await.unwrap();
    assert!(matches!(broken.last(), Some(StreamEvent::Error(_))));
    assert_eq!(events(&provider).await.unwrap().len(), 1);
    assert_eq!(events(&provider).await.unwrap().len(), 1);
    assert_eq!(events(&provider).await.unwrap().len(), 0);
    memory.check_closed();
    let spans = memory.named(CHAT);
    assert_eq!(spans.len(), 6);
    for span in &spans[..4] {
        check_failed(span, "RateLimit");
    }
    for span in &spans[4..] {
        check_failed(span, "StreamError");
    }
    // An error is not a chunk of a response, so a stream that begins with an error has no time to the first chunk.
    let has_chunk: Vec<bool> = spans
        .iter()
        .map(|span| attribute(span, "gen_ai.response.time_to_first_chunk").is_some())
        .collect();
    assert_eq!(has_chunk, [false, false, true, false, true, false]);
    assert_eq!(chats(&memory), 6);
    assert_eq!(first_chunks(&memory), 2);
}

#[tokio::test]
async fn broken_stream_has_finish_reason_error_in_latest_conventions() {
    let memory = Memory::new();
    let hook = hook(&memory).with_conventions(SemanticConventions::Latest);
    let script = [Reply::text("broken").end_early_after(1), Reply::text("whole")];
    let provider = hook.provider(ScriptedProvider::new(script));
    events(&provider).await.unwrap();
    events(&provider).await.unwrap();
    let spans = memory.named(CHAT);
    let reasons = |index: usize| attribute(&spans[index], "gen_ai.response.finish_reasons");
    assert_eq!(reasons(0).as_deref(), Some(r#"["error"]"#));
    assert_eq!(reasons(1).as_deref(), Some(r#"["stop"]"#));
}

#[test]
fn dropped_calls_and_streams_end_at_drop() {
    let memory = Memory::new();
    let script = [
        Reply::hang(),
        Reply::hang(),
        Reply::text("a text").chunk_chars(2).hang_after(1),
        Reply::text("never read"),
    ];
    let provider = hook(&memory).provider(ScriptedProvider::new(script));
    {
        let mut call = Box::pin(provider.complete(request()));
        assert!(poll_times(call.as_mut(), 3).is_none());
        nothing_happens();
    }
    {
        let mut call = Box::pin(provider.complete_stream(request()));
        assert!(poll_times(call.as_mut(), 3).is_none());
        nothing_happens();
    }
    for reads in [5, 0] {
        let handle = poll_times(pin!(provider.complete_stream(request())), 5).unwrap();
        let mut stream = handle.unwrap().receiver;
        poll_times(pin!(async { while stream.recv().await.is_some() {} }), reads);
        nothing_happens();
        drop(stream);
    }
    memory.check_closed();
    let spans = memory.named(CHAT);
    assert_eq!(spans.len(), 4);
    for span in &spans {
        check_failed(span, "Cancelled");
        let lasted = span.end_time.duration_since(span.start_time).unwrap();
        assert!(lasted >= LONG, "{lasted:?}");
    }
    assert_eq!(chats(&memory), 4);
    assert_eq!(first_chunks(&memory), 1);
}

#[tokio::test]
async fn call_that_is_never_polled_has_no_span() {
    let memory = Memory::new();
    let provider = hook(&memory).provider(ScriptedProvider::new(["one"]));
    drop(provider.complete(request()));
    drop(provider.complete_stream(request()));
    memory.check_closed();
    assert_eq!(memory.tree(), "");
    assert_eq!(chats(&memory), 0);
}

#[tokio::test]
async fn wrapped_provider_of_loop_is_recorded_once_by_same_hook() {
    for conventions in MODES {
        for way in WAYS {
            let memory = Memory::new();
            let hook = hook(&memory).with_conventions(conventions);
            let script = ScriptedProvider::new([looks([json!({})]), Reply::text("done")]);
            let mut agent = Chat::new(scout_of(hook.provider(script)).hook(hook.clone()));
            run(way, &mut agent, &ToolContext::default()).await;
            memory.check_closed();
            let spans = memory.spans();
            let chats = spans.iter().filter(|span| span.name.contains("chat")).count();
            assert_eq!(chats, 2, "{way:?}");
        }
    }
}

#[tokio::test]
async fn wrapped_provider_of_loop_is_recorded_by_both_hooks() {
    let memory = Memory::new();
    let script = ScriptedProvider::new(["done"]);
    let provider = hook(&memory).provider(script);
    let mut agent = Chat::new(scout_of(provider).hook(hook(&memory)));
    agent.run("go", &ToolContext::default()).await.unwrap();
    memory.check_closed();
    assert_eq!(memory.tree(), format!("invoke_agent scout\n  {CHAT}\n    {CHAT}\n"));
}

// Regression test. With `SemanticConventions::Book`, the model call of a summary was a child of the turn instead of the
// compaction.
#[tokio::test]
async fn summary_call_is_child_of_compaction() {
    for conventions in MODES {
        for way in WAYS {
            let memory = Memory::new();
            let hook = hook(&memory).with_conventions(conventions);
            let summaries = hook.provider(ScriptedProvider::new(["a summary", "a summary"]));
            let strategy = SummarizationStrategy::new(summaries, 2, 1_000);
            let long = "word ".repeat(2_000);
            let history = vec![
                Message::user(long.clone()),
                Message::assistant(long.clone()),
                Message::user(long),
                Message::assistant("fine"),
            ];
            let mut agent = Chat::new(
                bare(ScriptedProvider::new(["done"])).context(strategy).name("scout").hook(hook),
            );
            agent.conversation = history.into();
            let ctx = ToolContext::default();
            match way {
                crate::support::agents::Way::Stream => run(way, &mut agent, &ctx).await,
                _ => drop(agent.run("go", &ctx).await.unwrap()),
            }
            memory.check_closed();
            let tree = memory.tree();
            let expected = match conventions {
                SemanticConventions::Book => {
                    "invoke_agent scout\n  gen_ai.loop.iteration\n    gen_ai.context.compaction\n      \
                     gen_ai.chat\n    gen_ai.chat\n"
                }
                _ => {
                    "invoke_agent scout\n  neuron.context.compaction\n    chat scripted-model\n  \
                     chat scripted-model\n"
                }
            };
            assert_eq!(tree, expected, "{conventions:?}");
            if conventions == SemanticConventions::Latest {
                let recorded: Vec<_> = memory
                    .named(CHAT)
                    .iter()
                    .map(|chat| attribute(chat, "gen_ai.conversation.compacted"))
                    .collect();
                assert_eq!(recorded, [None, Some("true".to_owned())], "the call that follows it");
            }
        }
    }
}

/// An embedding provider whose behaviour depends on the first text of the request.
struct Embeds;

impl EmbeddingProvider for Embeds {
    async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
        tracing::info_span!("work").in_scope(|| ());
        match request.input[0].as_str() {
            "hang" => std::future::pending().await,
            "fail" => Err(EmbeddingError::Other("SENTINEL".into())),
            "limit" => Err(EmbeddingError::RateLimit { retry_after: None }),
            _ => Ok(EmbeddingResponse {
                model: "small-1".into(),
                embeddings: vec![vec![0.5]],
                usage: EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 },
            }),
        }
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("vectors", "small").at_server("embed.example", Some(8443))
    }
}

fn texts(text: &str) -> EmbeddingRequest {
    EmbeddingRequest { input: vec![text.into()], ..EmbeddingRequest::default() }
}

#[tokio::test]
async fn embedding_calls_have_spans_and_metrics() {
    for conventions in MODES {
        let memory = Memory::new();
        let hook = hook(&memory).with_conventions(conventions);
        let provider = hook.embeddings(Embeds);
        let request = EmbeddingRequest { dimensions: Some(64), ..texts("fine") };
        provider.embed(request).await.unwrap();
        memory.check_closed();
        assert_eq!(memory.tree(), "embeddings small\n  work\n");
        let span = memory.one("embeddings small");
        assert_eq!(span.span_kind, SpanKind::Client);
        assert_eq!(span.status, Status::Unset);
        let recorded = |name| attribute(&span, name);
        let provider_name = match conventions {
            SemanticConventions::Book => "gen_ai.system",
            _ => "gen_ai.provider.name",
        };
        assert_eq!(recorded(provider_name).as_deref(), Some("vectors"));
        assert_eq!(recorded("gen_ai.operation.name").as_deref(), Some("embeddings"));
        assert_eq!(recorded("gen_ai.embeddings.dimension.count").as_deref(), Some("64"));
        assert_eq!(recorded("gen_ai.usage.input_tokens").as_deref(), Some("3"));
        assert_eq!(recorded("gen_ai.response.model").as_deref(), Some("small-1"));
        assert_eq!(recorded("server.address").as_deref(), Some("embed.example"));
        assert_eq!(recorded("server.port").as_deref(), Some("8443"));
        assert_eq!(chats(&memory), 1);
    }
}

#[tokio::test]
async fn failed_or_dropped_embeddings_are_recorded_without_content() {
    let memory = Memory::new();
    let provider = hook(&memory).embeddings(Embeds);
    provider.embed(texts("fail")).await.unwrap_err();
    provider.embed(texts("limit")).await.unwrap_err();
    {
        let mut call = Box::pin(provider.embed(texts("hang")));
        assert!(poll_times(call.as_mut(), 3).is_none());
        nothing_happens();
    }
    drop(provider.embed(texts("never polled")));
    memory.check_closed();
    let spans = memory.named("embeddings small");
    assert_eq!(spans.len(), 3);
    for (span, kind) in spans.iter().zip(["Other", "RateLimit", "Cancelled"]) {
        check_failed(span, kind);
    }
    let lasted = spans[2].end_time.duration_since(spans[2].start_time).unwrap();
    assert!(lasted >= LONG);
    assert!(!format!("{spans:?}{}", memory.all_measured()).contains("SENTINEL"));
    assert_eq!(chats(&memory), 3);
}

#[tokio::test]
async fn wrappers_expose_the_wrapped_provider() {
    let memory = Memory::new();
    let provider = hook(&memory).embeddings(Embeds);
    assert_eq!(provider.embedding_info().name, "vectors");
    assert_eq!(provider.into_inner().embedding_info().default_model, "small");
    let hook: OtelHook = hook(&memory);
    let provider = hook.provider(Arc::new(ScriptedProvider::new(["one"])));
    let again = provider.clone();
    assert_eq!(again.complete(request()).await.unwrap().message.text(), "one");
    assert_eq!(provider.into_inner().calls(), 1);
}

/// A provider that runs an agent to create its response.
struct Delegates(OtelHook);

impl Provider for Delegates {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        let inner = ScriptedProvider::new(["inner"]);
        let mut agent = Chat::new(
            bare(self.0.provider(inner.clone()))
                .name("inner")
                .tools(registry([Act::new("look")]))
                .hook(self.0.clone()),
        );
        agent.run("go", &ToolContext::default()).await.unwrap();
        let outer = ScriptedProvider::new(["outer"]);
        outer.complete(request()).await
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("no streams".into()))
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("delegates", "outer-model")
    }
}

#[tokio::test]
async fn agent_inside_model_is_child_of_its_call() {
    let memory = Memory::new();
    let hook = hook(&memory);
    let mut agent = Chat::new(scout_of(Delegates(hook.clone())).hook(hook));
    agent.run("go", &ToolContext::default()).await.unwrap();
    memory.check_closed();
    assert_eq!(
        memory.tree(),
        format!("invoke_agent scout\n  chat outer-model\n    invoke_agent inner\n      {CHAT}\n")
    );
}
