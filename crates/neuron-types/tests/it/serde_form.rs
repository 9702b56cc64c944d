//! Tests of the stored form of every type in sessions, journals and payloads, as literal JSON.
//!
//! Do not change an expected form, because documents that released versions have stored could no longer be read.
//! Increment the version number of the document format instead.

use std::fmt::Debug;
use std::time::Duration;

use chrono::{TimeZone, Utc};
use neuron_types::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Checks that the value serialises to `stored`, and that `stored` deserialises to the value. If `stored` is an object,
/// an additional unknown field or another position of the field `type` must make no difference.
#[track_caller]
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T, stored: &str) {
    assert_eq!(serde_json::to_string(&value).unwrap(), stored);
    reads(stored, &value);
    let json: Value = serde_json::from_str(stored).unwrap();
    if json.is_object() {
        let mut newer = json.clone();
        newer["added_later"] = json!({ "by": ["a", "newer", "version"] });
        reads(&newer.to_string(), &value);
        // Other programs may write the fields in another order.
        if let Some(fields) = newer.as_object_mut()
            && let Some(tag) = fields.shift_remove("type")
        {
            fields.insert("type".into(), tag);
            reads(&newer.to_string(), &value);
        }
    }
    let from_value: T = serde_json::from_value(json).unwrap();
    assert_eq!(from_value, value);
}

/// Checks that `stored` deserialises to the value.
#[track_caller]
fn reads<T: DeserializeOwned + PartialEq + Debug>(stored: &str, value: &T) {
    let read: Result<T, _> = serde_json::from_str(stored);
    assert_eq!(&read.expect(stored), value, "{stored}");
}

/// Checks that deserialising `stored` to a `T` fails with an error text that starts with `error`.
#[track_caller]
fn rejects<T: DeserializeOwned + Debug>(stored: &str, error: &str) {
    let read: Result<T, _> = serde_json::from_str(stored);
    let text = read.expect_err(stored).to_string();
    assert!(text.starts_with(error), "{text}");
}

#[test]
fn stored_roles_keep_their_form() {
    check(Role::User, r#""user""#);
    check(Role::Assistant, r#""assistant""#);
    check(Role::System, r#""system""#);
    rejects::<Role>(r#""developer""#, "unknown variant `developer`");
}

#[test]
fn stored_messages_keep_their_form() {
    check(
        Message::user("What is Rust?"),
        r#"{"role":"user","content":[{"type":"text","text":"What is Rust?"}]}"#,
    );
    check(
        Message { role: Role::Assistant, content: vec![] },
        r#"{"role":"assistant","content":[]}"#,
    );
}

#[test]
fn stored_content_blocks_keep_their_form() {
    check(
        ContentBlock::Text("a \"quoted\"\nline".into()),
        r#"{"type":"text","text":"a \"quoted\"\nline"}"#,
    );
    check(
        ContentBlock::Thinking { thinking: "Hm.".into(), signature: "c2ln".into() },
        r#"{"type":"thinking","thinking":"Hm.","signature":"c2ln"}"#,
    );
    check(
        ContentBlock::RedactedThinking { data: "b3Bh".into() },
        r#"{"type":"redacted_thinking","data":"b3Bh"}"#,
    );
    check(
        ContentBlock::ToolUse {
            id: "call_1".into(),
            name: "get_weather".into(),
            // The order of the arguments must be kept, so this order is not alphabetical.
            input: json!({ "unit": "C", "city": "Tokyo" }),
        },
        r#"{"type":"tool_use","id":"call_1","name":"get_weather","input":{"unit":"C","city":"Tokyo"}}"#,
    );
    check(
        ContentBlock::ToolResult {
            tool_use_id: "call_1".into(),
            content: vec![ContentItem::Text("22".into())],
            is_error: true,
        },
        r#"{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"22"}],"is_error":true}"#,
    );
    check(
        ContentBlock::Image { source: ImageSource::Url { url: "https://a/b.png".into() } },
        r#"{"type":"image","source":{"type":"url","url":"https://a/b.png"}}"#,
    );
    check(
        ContentBlock::Document { source: DocumentSource::PlainText { data: "text".into() } },
        r#"{"type":"document","source":{"type":"plain_text","data":"text"}}"#,
    );
    check(
        ContentBlock::Compaction { content: "so far".into() },
        r#"{"type":"compaction","content":"so far"}"#,
    );
    let raw = |portable| ContentBlock::Raw {
        provider: "anthropic".into(),
        json: json!({ "type": "web_search_tool_result", "content": [] }),
        portable,
    };
    check(
        raw(None),
        r#"{"type":"raw","provider":"anthropic","json":{"type":"web_search_tool_result","content":[]}}"#,
    );
    check(
        raw(Some(Box::new(ContentBlock::Text("t".into())))),
        r#"{"type":"raw","provider":"anthropic","json":{"type":"web_search_tool_result","content":[]},"portable":{"type":"text","text":"t"}}"#,
    );
    reads(
        r#"{"type":"tool_result","tool_use_id":"c","content":[]}"#,
        &ContentBlock::ToolResult { tool_use_id: "c".into(), content: vec![], is_error: false },
    );
    rejects::<ContentBlock>(r#"{"type":"hologram"}"#, "unknown variant `hologram`");
    rejects::<ContentBlock>(r#"{"type":"text"}"#, "missing field `text`");
}

#[test]
fn stored_content_items_and_sources_keep_their_form() {
    check(ContentItem::Text("t".into()), r#"{"type":"text","text":"t"}"#);
    check(
        ContentItem::Image {
            source: ImageSource::Base64 { media_type: "image/png".into(), data: "aWNvbg==".into() },
        },
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aWNvbg=="}}"#,
    );
    check(
        ContentItem::Audio { media_type: "audio/wav".into(), data: "UklGRg==".into() },
        r#"{"type":"audio","media_type":"audio/wav","data":"UklGRg=="}"#,
    );
    check(
        ContentItem::Resource {
            resource: EmbeddedResource::text("file:///a", "t").with_mime_type("text/plain"),
        },
        r#"{"type":"resource","resource":{"uri":"file:///a","mime_type":"text/plain","text":"t"}}"#,
    );
    check(
        ContentItem::Resource { resource: EmbeddedResource::blob("file:///a", "aGk=") },
        r#"{"type":"resource","resource":{"uri":"file:///a","blob":"aGk="}}"#,
    );
    check(
        ContentItem::ResourceLink { resource: ResourceLink::new("file:///a", "a") },
        r#"{"type":"resource_link","resource":{"uri":"file:///a","name":"a"}}"#,
    );
    check(
        ResourceLink {
            title: Some("A".into()),
            description: Some("the first".into()),
            mime_type: Some("text/plain".into()),
            size: Some(u64::MAX),
            ..ResourceLink::new("file:///a", "a")
        },
        r#"{"uri":"file:///a","name":"a","title":"A","description":"the first","mime_type":"text/plain","size":18446744073709551615}"#,
    );
    rejects::<ContentItem>(r#"{"type":"smell"}"#, "unknown variant `smell`");
    check(ImageSource::Url { url: "https://a".into() }, r#"{"type":"url","url":"https://a"}"#);
    check(
        DocumentSource::Base64Pdf { data: "JVBERg==".into() },
        r#"{"type":"base64_pdf","data":"JVBERg=="}"#,
    );
    check(DocumentSource::Url { url: "https://a".into() }, r#"{"type":"url","url":"https://a"}"#);
}

#[test]
fn stored_stop_reasons_keep_their_form() {
    for (reason, stored) in [
        (StopReason::EndTurn, "end_turn"),
        (StopReason::ToolUse, "tool_use"),
        (StopReason::MaxTokens, "max_tokens"),
        (StopReason::StopSequence, "stop_sequence"),
        (StopReason::ContentFilter, "content_filter"),
        (StopReason::Compaction, "compaction"),
        (StopReason::PauseTurn, "pause_turn"),
        (StopReason::Refusal, "refusal"),
        (StopReason::ContextWindowExceeded, "context_window_exceeded"),
        (StopReason::Other("Cosmic ray".into()), "Cosmic ray"),
    ] {
        check(reason, &format!("{stored:?}"));
    }
}

#[test]
fn stored_request_options_keep_their_form() {
    check(SystemPrompt::Text("Be brief.".into()), r#"{"type":"text","text":"Be brief."}"#);
    let block = |cache_control| SystemBlock { text: "b".into(), cache_control };
    let hour = CacheControl { ttl: Some(CacheTtl::OneHour) };
    check(
        SystemPrompt::Blocks(vec![
            block(None),
            block(Some(CacheControl::default())),
            block(Some(hour)),
        ]),
        r#"{"type":"blocks","blocks":[{"text":"b"},{"text":"b","cache_control":{}},{"text":"b","cache_control":{"ttl":"one_hour"}}]}"#,
    );
    check(CacheTtl::FiveMinutes, r#""five_minutes""#);
    check(CacheTtl::OneHour, r#""one_hour""#);

    check(ToolChoice::Auto, r#"{"type":"auto"}"#);
    check(ToolChoice::None, r#"{"type":"none"}"#);
    check(ToolChoice::Required, r#"{"type":"required"}"#);
    check(ToolChoice::Specific { name: "t".into() }, r#"{"type":"specific","name":"t"}"#);

    check(ResponseFormat::Text, r#"{"type":"text"}"#);
    check(ResponseFormat::JsonObject, r#"{"type":"json_object"}"#);
    check(
        ResponseFormat::JsonSchema {
            name: "n".into(),
            schema: json!({ "type": "object" }),
            strict: true,
        },
        r#"{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}"#,
    );

    check(
        ThinkingConfig::Enabled { budget_tokens: 1024 },
        r#"{"type":"enabled","budget_tokens":1024}"#,
    );
    check(ThinkingConfig::Disabled, r#"{"type":"disabled"}"#);
    check(ThinkingConfig::Adaptive, r#"{"type":"adaptive"}"#);

    check(ReasoningEffort::None, r#""none""#);
    check(ReasoningEffort::Low, r#""low""#);
    check(ReasoningEffort::Medium, r#""medium""#);
    check(ReasoningEffort::High, r#""high""#);

    check(
        ContextManagement {
            edits: vec![ContextEdit::Compact { strategy: "compact_20260112".into() }],
        },
        r#"{"edits":[{"type":"compact","strategy":"compact_20260112"}]}"#,
    );
}

#[test]
fn stored_usage_keeps_its_form() {
    check(TokenUsage::default(), r#"{"input_tokens":0,"output_tokens":0}"#);
    reads("{}", &TokenUsage::default());
    check(
        TokenUsage {
            input_tokens: 1,
            output_tokens: 2,
            cache_read_tokens: Some(3),
            cache_creation_tokens: Some(4),
            reasoning_tokens: Some(5),
            iterations: Some(vec![UsageIteration {
                kind: "compaction".into(),
                model: Some("m".into()),
                input_tokens: 6,
                output_tokens: 7,
                cache_read_tokens: Some(8),
                cache_creation_tokens: Some(9),
            }]),
            cost: None,
        },
        r#"{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_creation_tokens":4,"reasoning_tokens":5,"iterations":[{"kind":"compaction","model":"m","input_tokens":6,"output_tokens":7,"cache_read_tokens":8,"cache_creation_tokens":9}]}"#,
    );
    let cost = Some(Cost { amount: "0.0375".parse().unwrap(), is_complete: false });
    check(
        TokenUsage { cost, ..usage_of_three() },
        r#"{"input_tokens":1,"output_tokens":2,"cost":{"amount":"0.0375","is_complete":false}}"#,
    );
    check(UsageIteration::default(), r#"{"kind":"","input_tokens":0,"output_tokens":0}"#);
    check(
        UsageLimits::default().with_request_limit(25),
        r#"{"input_tokens_limit":null,"output_tokens_limit":null,"total_tokens_limit":null,"request_limit":25,"tool_calls_limit":null}"#,
    );
    reads("{}", &UsageLimits::default());
}

#[test]
fn stored_tool_types_keep_their_form() {
    let definition = ToolDefinition {
        name: "search".into(),
        title: None,
        description: "Searches".into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
        cache_control: None,
    };
    check(
        definition.clone(),
        r#"{"name":"search","description":"Searches","input_schema":{"type":"object"}}"#,
    );
    check(
        ToolDefinition {
            title: Some("Search".into()),
            output_schema: Some(json!(true)),
            annotations: Some(ToolAnnotations {
                read_only_hint: Some(true),
                destructive_hint: Some(false),
                ..Default::default()
            }),
            cache_control: Some(CacheControl::default()),
            ..definition
        },
        r#"{"name":"search","title":"Search","description":"Searches","input_schema":{"type":"object"},"output_schema":true,"annotations":{"read_only_hint":true,"destructive_hint":false},"cache_control":{}}"#,
    );
    check(
        ToolAnnotations {
            idempotent_hint: Some(true),
            open_world_hint: Some(true),
            ..Default::default()
        },
        r#"{"idempotent_hint":true,"open_world_hint":true}"#,
    );
    check(ToolOutput::text("ok"), r#"{"content":[{"type":"text","text":"ok"}],"is_error":false}"#);
    check(
        ToolOutput { structured_content: Some(json!([1])), ..ToolOutput::error("no") },
        r#"{"content":[{"type":"text","text":"no"}],"structured_content":[1],"is_error":true}"#,
    );
    reads(r#"{"content":[]}"#, &ToolOutput::default());
    check(
        ToolCall { id: "c1".into(), name: "search".into(), input: json!(null) },
        r#"{"id":"c1","name":"search","input":null}"#,
    );
    check(ToolEffect::Pure, r#""pure""#);
    check(ToolEffect::Idempotent, r#""idempotent""#);
    check(ToolEffect::AtMostOnce, r#""at_most_once""#);
}

#[test]
fn arguments_with_invalid_json_keep_their_stored_form() {
    let input = ToolCall::invalid_json_input("{\"city\": \"To");
    assert_eq!(input.to_string(), r#"{"invalid_json":"{\"city\": \"To"}"#);
    assert_eq!(ToolCall::invalid_json(&input), Some("{\"city\": \"To"));
    for other in [
        json!({}),
        json!("invalid_json"),
        json!({ "invalid_json": 1 }),
        json!({ "invalid_json": "x", "more": 1 }),
    ] {
        assert_eq!(ToolCall::invalid_json(&other), None, "{other}");
    }
}

#[test]
fn stored_requests_keep_their_form() {
    check(CompletionRequest::default(), r#"{"model":"","messages":[]}"#);
    reads(r#"{"messages":[]}"#, &CompletionRequest::default());
    check(
        CompletionRequest {
            model: "m".into(),
            messages: vec![Message::user("hi")],
            system: Some("s".into()),
            tools: vec![],
            max_tokens: Some(256),
            temperature: Some(0.7),
            top_p: Some(0.9),
            stop_sequences: vec!["END".into()],
            tool_choice: Some(ToolChoice::Auto),
            response_format: Some(ResponseFormat::Text),
            thinking: Some(ThinkingConfig::Adaptive),
            reasoning_effort: Some(ReasoningEffort::Low),
            extra: Some(json!({ "user": "u" })),
            context_management: Some(ContextManagement::default()),
        },
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"system":{"type":"text","text":"s"},"max_tokens":256,"temperature":0.7,"top_p":0.9,"stop_sequences":["END"],"tool_choice":{"type":"auto"},"response_format":{"type":"text"},"thinking":{"type":"adaptive"},"reasoning_effort":"low","extra":{"user":"u"},"context_management":{"edits":[]}}"#,
    );
}

fn usage_of_three() -> TokenUsage {
    TokenUsage { input_tokens: 1, output_tokens: 2, ..Default::default() }
}

#[test]
fn stored_responses_and_results_keep_their_form() {
    check(
        CompletionResponse {
            id: "msg_1".into(),
            model: "m".into(),
            message: Message::assistant("4"),
            usage: usage_of_three(),
            stop_reason: StopReason::EndTurn,
        },
        r#"{"id":"msg_1","model":"m","message":{"role":"assistant","content":[{"type":"text","text":"4"}]},"usage":{"input_tokens":1,"output_tokens":2},"stop_reason":"end_turn"}"#,
    );
    check(
        AgentResult {
            response: "4".into(),
            messages: vec![Message::user("2 + 2?"), Message::assistant("4")],
            usage: usage_of_three(),
            turns: 1,
            stop_reason: StopReason::EndTurn,
            limit_reached: None,
        },
        r#"{"response":"4","messages":[{"role":"user","content":[{"type":"text","text":"2 + 2?"}]},{"role":"assistant","content":[{"type":"text","text":"4"}]}],"usage":{"input_tokens":1,"output_tokens":2},"turns":1,"stop_reason":"end_turn"}"#,
    );
}

#[test]
fn stored_sessions_keep_their_form() {
    let at = |second| Utc.with_ymd_and_hms(2026, 1, 2, 3, 4, second).unwrap();
    let mut session = Session::new("chat-42", "/srv/project".into());
    (session.created_at, session.updated_at) = (at(5), at(6));
    session.messages.push(Message::user("hi"));
    session.state.token_usage = usage_of_three();
    session.state.event_count = 7;
    session.state.custom.insert("theme".into(), json!("dark"));
    let summary = session.summary();
    check(
        session.clone(),
        r#"{"id":"chat-42","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"state":{"cwd":"/srv/project","token_usage":{"input_tokens":1,"output_tokens":2},"event_count":7,"custom":{"theme":"dark"}},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:06Z"}"#,
    );
    reads(
        r#"{"id":"chat-42","messages":[],"state":{},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:06Z"}"#,
        &Session { messages: vec![], state: SessionState::default(), ..session },
    );
    check(
        summary,
        r#"{"id":"chat-42","message_count":1,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:06Z"}"#,
    );
}

#[test]
fn stored_activity_options_keep_their_form() {
    check(
        ActivityOptions::default(),
        r#"{"start_to_close_timeout":{"secs":600,"nanos":0},"heartbeat_timeout":null,"retry_policy":null}"#,
    );
    reads(r#"{"start_to_close_timeout":{"secs":600,"nanos":0}}"#, &ActivityOptions::default());
    check(
        ActivityOptions {
            start_to_close_timeout: Duration::from_secs(30),
            heartbeat_timeout: Some(Duration::from_millis(1500)),
            retry_policy: Some(RetryPolicy {
                initial_interval: Duration::from_secs(1),
                backoff_coefficient: 2.0,
                maximum_attempts: 3,
                maximum_interval: Duration::from_secs(30),
                non_retryable_errors: vec!["Authentication".into()],
            }),
        },
        r#"{"start_to_close_timeout":{"secs":30,"nanos":0},"heartbeat_timeout":{"secs":1,"nanos":500000000},"retry_policy":{"initial_interval":{"secs":1,"nanos":0},"backoff_coefficient":2.0,"maximum_attempts":3,"maximum_interval":{"secs":30,"nanos":0},"non_retryable_errors":["Authentication"]}}"#,
    );
}

#[test]
fn stored_error_records_keep_their_form() {
    check(
        ErrorRecord::from(&ToolError::ModelRetry("again".into())),
        r#"{"kind":"ModelRetry","detail":"again"}"#,
    );
    check(
        ErrorRecord::from(&ProviderError::Timeout(Duration::from_secs(2))),
        r#"{"kind":"Timeout","detail":"","millis":2000}"#,
    );
    reads(r#"{"kind":"Cancelled"}"#, &ErrorRecord::from(&ToolError::Cancelled));
}

#[test]
fn stored_embeddings_keep_their_form() {
    let request = EmbeddingRequest {
        model: "m".into(),
        input: vec!["a".into()],
        dimensions: Some(256),
        extra: [("user".to_owned(), json!("u"))].into(),
    };
    check(request, r#"{"model":"m","input":["a"],"dimensions":256,"extra":{"user":"u"}}"#);
    reads(r#"{"input":[]}"#, &EmbeddingRequest::default());
    check(
        EmbeddingResponse {
            embeddings: vec![vec![0.5, 1.0]],
            model: "m".into(),
            usage: EmbeddingUsage { prompt_tokens: 1, total_tokens: 1 },
        },
        r#"{"embeddings":[[0.5,1.0]],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}"#,
    );
}
