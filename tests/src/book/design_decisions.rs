//! Checks that neuron's types have the documented fields and variants. They are listed in the book's chapter on design
//! decisions and in the design document.
//!
//! The tests destructure structs without `..` and match enums without `_`. They stop compiling if a field or a variant
//! is added.

use std::future::Future;

use neuron_types::*;
use serde_json::json;

/// Contains the code of the section "Provider-per-crate" of neuron's book. It uses generics instead of `dyn`.
async fn run<P: Provider>(provider: &P) -> Result<CompletionResponse, ProviderError> {
    provider.complete(CompletionRequest::default()).await
}

#[tokio::test]
async fn provider_is_generic_or_chosen_at_run_time() {
    use neuron_testing::{Reply, ScriptedProvider};

    let provider = ScriptedProvider::new(["1", "2"].map(Reply::text));
    assert_eq!(run(&provider).await.unwrap().message.text(), "1");
    let chosen = BoxedProvider::new(provider);
    assert_eq!(run(&chosen).await.unwrap().message.text(), "2");
}

#[test]
fn structs_have_exactly_the_printed_fields() {
    let Message { role: _, content } = Message::user("hi");
    let _: Vec<ContentBlock> = content;
    let CompletionRequest {
        model: _,
        messages: _,
        system: None,
        tools: _,
        max_tokens: None,
        temperature: None,
        top_p: None,
        stop_sequences: _,
        tool_choice: None,
        response_format: None,
        thinking: None,
        reasoning_effort: None,
        extra: None,
        context_management: None,
    } = CompletionRequest::default()
    else {
        panic!("every option is empty by default")
    };
    let ToolOutput { content: _, structured_content: _, is_error: false } = ToolOutput::text("ok")
    else {
        panic!("a text is no error")
    };
    let ToolAnnotations {
        read_only_hint: _,
        destructive_hint: _,
        idempotent_hint: _,
        open_world_hint: _,
    } = ToolAnnotations::default();
    let SystemBlock { text: _, cache_control } = SystemBlock::default();
    let CacheControl { ttl: _ } = cache_control.unwrap_or_default();
    let UsageLimits {
        input_tokens_limit: None,
        output_tokens_limit: None,
        total_tokens_limit: None,
        request_limit: None,
        tool_calls_limit: None,
    } = UsageLimits::default()
    else {
        panic!("no limit by default")
    };
    let ContextManagement { edits: _ } = ContextManagement::default();
    let definition = |definition: ToolDefinition| {
        let ToolDefinition {
            name: _,
            title: _,
            description: _,
            input_schema: _,
            output_schema: _,
            annotations: _,
            cache_control: _,
        } = definition;
    };
    let _ = definition;
    let options = |options: ActivityOptions| {
        let ActivityOptions { start_to_close_timeout: _, heartbeat_timeout: _, retry_policy } =
            options;
        let RetryPolicy {
            initial_interval: _,
            backoff_coefficient: _,
            maximum_attempts: _,
            maximum_interval: _,
            non_retryable_errors: _,
        } = retry_policy?;
        Some(())
    };
    assert!(options(ActivityOptions::default()).is_none());
}

#[test]
fn enums_that_users_match_are_exhaustive() {
    let role = |role| match role {
        Role::User => 0,
        Role::Assistant => 1,
        Role::System => 2,
    };
    assert_eq!([Role::User, Role::Assistant, Role::System].map(role), [0, 1, 2]);
    let choice = |choice| match choice {
        ToolChoice::Auto => String::new(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Specific { name } => name,
    };
    assert_eq!(choice(ToolChoice::Specific { name: "t".into() }), "t");
    assert_eq!(choice(ToolChoice::Required), "required");
    let prompt = |prompt| match prompt {
        SystemPrompt::Text(text) => text,
        SystemPrompt::Blocks(blocks) => blocks.into_iter().map(|block| block.text).collect(),
    };
    let blocks = vec![SystemBlock {
        text: "b".into(),
        cache_control: Some(CacheControl { ttl: Some(CacheTtl::OneHour) }),
    }];
    assert_eq!(prompt(SystemPrompt::Blocks(blocks)), "b");
    assert_eq!(prompt(SystemPrompt::default()), "");
}

#[test]
fn every_printed_variant_can_be_built() {
    let url = String::new;
    let _ = [
        ContentBlock::Text("t".into()),
        ContentBlock::Thinking { thinking: "t".into(), signature: "s".into() },
        ContentBlock::RedactedThinking { data: "d".into() },
        ContentBlock::ToolUse { id: "i".into(), name: "n".into(), input: json!({}) },
        ContentBlock::ToolResult {
            tool_use_id: "i".into(),
            content: vec![ContentItem::Text("t".into())],
            is_error: false,
        },
        ContentBlock::Image { source: ImageSource::Url { url: url() } },
        ContentBlock::Document { source: DocumentSource::Url { url: url() } },
        ContentBlock::Compaction { content: "c".into() },
    ];
    let _ = [
        ContentItem::Image {
            source: ImageSource::Base64 { media_type: "image/png".into(), data: "d".into() },
        },
        ContentItem::Text("t".into()),
    ];
    let _ = [
        DocumentSource::Base64Pdf { data: "d".into() },
        DocumentSource::PlainText { data: "d".into() },
    ];
    let _ = [CacheTtl::FiveMinutes, CacheTtl::OneHour];
    let _ = [ToolChoice::Auto, ToolChoice::None];
    let _ = [
        ResponseFormat::Text,
        ResponseFormat::JsonObject,
        ResponseFormat::JsonSchema { name: "n".into(), schema: json!({}), strict: true },
    ];
    let _ = [
        ThinkingConfig::Enabled { budget_tokens: 1024 },
        ThinkingConfig::Disabled,
        ThinkingConfig::Adaptive,
    ];
    let _ = [
        ReasoningEffort::None,
        ReasoningEffort::Low,
        ReasoningEffort::Medium,
        ReasoningEffort::High,
    ];
    let _ = [
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::ContentFilter,
        StopReason::Compaction,
    ];
    let _ = [ContextEdit::Compact { strategy: "compact_20260112".into() }];
    let _ = [
        StreamEvent::TextDelta("t".into()),
        StreamEvent::ThinkingDelta("t".into()),
        StreamEvent::SignatureDelta("s".into()),
        StreamEvent::ToolUseStart { id: "i".into(), name: "n".into() },
        StreamEvent::ToolUseInputDelta { id: "i".into(), delta: "{".into() },
        StreamEvent::ToolUseEnd { id: "i".into() },
        StreamEvent::MessageComplete(Message::assistant("t")),
        StreamEvent::Usage(TokenUsage::default()),
        StreamEvent::Error(StreamError::non_retryable("broken")),
    ];
    let usage =
        TokenUsage { iterations: Some(vec![UsageIteration::default()]), ..Default::default() };
    assert_eq!(usage.total_tokens(), 0);
}

/// Checks that `WasmCompatSend` and `WasmCompatSync`, which the design document names, mean `Send` and `Sync` on native
/// targets.
#[test]
fn wasm_compat_traits_mean_send_and_sync() {
    fn is_compatible<T: WasmCompatSend + WasmCompatSync + ?Sized>() {}
    is_compatible::<dyn ToolDyn>();
    is_compatible::<dyn ProgressReporter>();
    is_compatible::<BoxedProvider>();
    fn is_future<'a>(future: WasmBoxedFuture<'a, u8>) -> impl Future<Output = u8> + Send + use<'a> {
        future
    }
    drop(is_future(Box::pin(async { 1 })));
}
