//! What is Anthropic's alone: the answers and requests that no other vendor has.

use neuron_provider_anthropic::Anthropic;
use neuron_testing::Reply;
use neuron_types::{
    BoxedProvider, CompletionRequest, CompletionResponse, ContentBlock, ContextEdit,
    ContextManagement, Message, Role, StopReason, TokenUsage, UsageIteration,
};
use serde_json::{Value, json};

use crate::answers::{answer, answers};
use crate::corpus::{ask, request, weather};
use crate::failures;
use crate::serve::Case;
use crate::vendor::{API_KEY, Form, MODEL};

pub(crate) const FORMS: &[Form] = &[Form {
    name: "messages",
    provider: |url| BoxedProvider::new(Anthropic::new(API_KEY).base_url(url).model(MODEL)),
    refused: &["any json object"],
}];

/// How often a client asks for the same answer: whole, as events, and through its stream helper.
const WAYS: usize = 3;

/// How many requests the client thinks of by itself.
const OWN_REQUESTS: usize = 14;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, response) in answers().into_iter().chain(own_answers()) {
        let replies = (0..WAYS).map(|_| Reply::from(response.clone()).chunk_chars(5).into());
        cases.push(Case {
            name: name.into(),
            replies: replies.collect(),
            means: json!({"answer": response, "beta": needs_beta(&response)}),
        });
    }
    cases.extend(failures::refusals());
    cases.extend(failures::breaks());
    cases.extend(failures::of_the_clients_choice(OWN_REQUESTS));
    cases
}

/// Whether only the vendor's beta types have this.
fn needs_beta(response: &CompletionResponse) -> bool {
    let is_compaction = |block: &ContentBlock| matches!(block, ContentBlock::Compaction { .. });
    response.stop_reason == StopReason::Compaction
        || response.usage.iterations.is_some()
        || response.message.content.iter().any(is_compaction)
}

fn own_answers() -> Vec<(&'static str, CompletionResponse)> {
    let text = |text: &str| ContentBlock::Text(text.into());
    let thinking = |thinking: &str| ContentBlock::Thinking {
        thinking: thinking.into(),
        signature: "c2lnbmF0dXJl".into(),
    };
    let raw =
        |json: Value| ContentBlock::Raw { provider: "anthropic".into(), json, portable: None };
    let summary = || ContentBlock::Compaction { content: "They spoke of the weather.".into() };
    let passes = |passes: &[(&str, usize, usize)]| {
        let pass = |&(kind, input_tokens, output_tokens): &(&str, usize, usize)| UsageIteration {
            kind: kind.into(),
            input_tokens,
            output_tokens,
            cache_read_tokens: Some(0),
            cache_creation_tokens: Some(0),
            ..Default::default()
        };
        TokenUsage {
            input_tokens: passes.iter().map(|pass| pass.1).sum(),
            output_tokens: passes.iter().map(|pass| pass.2).sum(),
            cache_read_tokens: Some(0),
            cache_creation_tokens: Some(0),
            iterations: Some(passes.iter().map(pass).collect()),
            ..Default::default()
        }
    };
    let mut answers = vec![
        (
            "thinking before a text",
            CompletionResponse {
                usage: TokenUsage {
                    input_tokens: 40,
                    output_tokens: 90,
                    reasoning_tokens: Some(70),
                    ..Default::default()
                },
                ..answer(
                    vec![thinking("Hmm, let me see what they mean."), text("It is so.")],
                    StopReason::EndTurn,
                )
            },
        ),
        (
            "thinking that is not shown",
            answer(vec![thinking(""), text("It is so.")], StopReason::EndTurn),
        ),
        (
            "redacted thinking before a tool call",
            answer(
                vec![
                    ContentBlock::RedactedThinking { data: "ZW5jcnlwdGVk".into() },
                    ContentBlock::ToolUse {
                        id: "call_1".into(),
                        name: "now".into(),
                        input: json!({}),
                    },
                ],
                StopReason::ToolUse,
            ),
        ),
        (
            "a search on the vendor's side",
            answer(
                vec![
                    raw(json!({
                        "type": "server_tool_use",
                        "id": "srvtoolu_1",
                        "name": "web_search",
                        "input": {"query": "weather"},
                    })),
                    raw(json!({
                        "type": "web_search_tool_result",
                        "tool_use_id": "srvtoolu_1",
                        "content": [{
                            "type": "web_search_result",
                            "url": "https://weather.example",
                            "title": "Weather",
                            "encrypted_content": "ZW5jcnlwdGVk",
                            "page_age": null,
                        }],
                    })),
                    text("It is sunny."),
                ],
                StopReason::EndTurn,
            ),
        ),
        (
            "a summary before the answer",
            CompletionResponse {
                usage: passes(&[("compaction", 100, 50), ("message", 181, 20)]),
                ..answer(vec![summary(), text("It is sunny.")], StopReason::EndTurn)
            },
        ),
        (
            "a pause after a summary",
            CompletionResponse {
                usage: passes(&[("compaction", 100, 50)]),
                ..answer(vec![summary()], StopReason::Compaction)
            },
        ),
    ];
    for (name, reason) in [
        ("a stop sequence", StopReason::StopSequence),
        ("a paused turn", StopReason::PauseTurn),
        ("a refusal", StopReason::Refusal),
        ("a full context window", StopReason::ContextWindowExceeded),
    ] {
        answers.push((name, answer(vec![text("So far.")], reason)));
    }
    answers
}

pub(crate) fn requests() -> Vec<(&'static str, CompletionRequest)> {
    let raw =
        |json: Value| ContentBlock::Raw { provider: "anthropic".into(), json, portable: None };
    let edits = |names: &[&str]| {
        let edit = |name: &&str| ContextEdit::Compact { strategy: (*name).into() };
        Some(ContextManagement { edits: names.iter().map(edit).collect() })
    };
    vec![
        (
            "context management: compaction",
            CompletionRequest { context_management: edits(&["compact_20260112"]), ..ask("hi") },
        ),
        (
            "context management: clearing",
            CompletionRequest {
                context_management: edits(&["clear_thinking_20251015", "clear_tool_uses_20250919"]),
                ..ask("hi")
            },
        ),
        (
            "context management: all edits",
            CompletionRequest {
                context_management: edits(&[
                    "clear_thinking_20251015",
                    "clear_tool_uses_20250919",
                    "compact_20260112",
                ]),
                extra: Some(json!({"metadata": {"user_id": "u1"}})),
                ..ask("hi")
            },
        ),
        (
            "raw blocks of its own",
            request(vec![
                Message::user("Search for the weather."),
                Message {
                    role: Role::Assistant,
                    content: vec![
                        raw(json!({
                            "type": "server_tool_use",
                            "id": "srvtoolu_1",
                            "name": "web_search",
                            "input": {"query": "weather"},
                        })),
                        raw(json!({
                            "type": "web_search_tool_result",
                            "tool_use_id": "srvtoolu_1",
                            "content": [{
                                "type": "web_search_result",
                                "url": "https://weather.example",
                                "title": "Weather",
                                "encrypted_content": "ZW5jcnlwdGVk",
                                "page_age": null,
                            }],
                        })),
                        raw(json!({
                            "type": "text",
                            "text": "It is sunny.",
                            "citations": [{
                                "type": "web_search_result_location",
                                "url": "https://weather.example",
                                "title": "Weather",
                                "encrypted_index": "aW5kZXg=",
                                "cited_text": "sunny",
                            }],
                        })),
                    ],
                },
                Message::user("And tomorrow?"),
            ]),
        ),
        (
            "raw summary of its own",
            request(vec![
                Message::user("What is the weather?"),
                Message {
                    role: Role::Assistant,
                    content: vec![raw(json!({
                        "type": "compaction",
                        "content": "They spoke of the weather.",
                        "encrypted_content": "ZW5jcnlwdGVk",
                    }))],
                },
                Message::user("And tomorrow?"),
            ]),
        ),
        (
            "extra fields",
            CompletionRequest {
                tools: vec![weather()],
                extra: Some(json!({
                    "metadata": {"user_id": "u1"},
                    "service_tier": "auto",
                    "inference_geo": "us",
                    "cache_control": {"type": "ephemeral"},
                    "thinking": {"type": "adaptive", "display": "omitted"},
                    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}],
                })),
                ..ask("hi")
            },
        ),
    ]
}
