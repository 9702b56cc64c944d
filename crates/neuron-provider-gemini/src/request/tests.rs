//! Tests of the fields of a request.

use neuron_model::{
    CompletionRequest, ContextEdit, ContextManagement, Role, SystemBlock, ToolChoice,
    ToolDefinition,
};
use serde_json::json;

use super::*;
use crate::model::GOOGLE_AI;

const MODEL: &str = "gemini-3.8-flash";

fn ask() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() }
}

fn look() -> ToolDefinition {
    serde_json::from_value(json!({
        "name": "look", "description": "Looks.",
        "input_schema": {"type": "object", "title": "T", "properties": {"a": {"type": "integer"}}},
    }))
    .unwrap()
}

fn body(request: &CompletionRequest) -> Value {
    serde_json::from_slice(&write(request.view(), MODEL, GOOGLE_AI).unwrap()).unwrap()
}

/// Checks the fields of the body other than `contents`.
#[track_caller]
fn check(request: CompletionRequest, mut expected: Value) {
    expected["contents"] = json!([{"role": "user", "parts": [{"text": "hi"}]}]);
    assert_eq!(body(&request), expected);
}

#[test]
fn settings_are_serialised() {
    check(ask(), json!({}));
    check(
        CompletionRequest {
            max_tokens: Some(64),
            temperature: Some(0.7),
            top_p: Some(0.9),
            stop_sequences: vec!["END".into()],
            reasoning_effort: Some(neuron_model::ReasoningEffort::Low),
            ..ask()
        },
        json!({"generationConfig": {
            "temperature": 0.7, "topP": 0.9, "maxOutputTokens": 64, "stopSequences": ["END"],
            "thinkingConfig": {"thinkingLevel": "LOW"},
        }}),
    );
}

/// Returns the `maxOutputTokens` that a model gets, and whether the response must be streamed.
fn maximum(model: &str, max_tokens: usize, extra: Value) -> (Value, bool) {
    let request = CompletionRequest { max_tokens: Some(max_tokens), extra: Some(extra), ..ask() };
    let bytes = write(request.view(), model, GOOGLE_AI).unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let sent = body["generationConfig"]["maxOutputTokens"].clone();
    (sent, needs_stream(request.view(), model))
}

#[test]
fn maximum_of_tokens_is_at_most_the_maximum_of_one_request() {
    for model in [MODEL, "gemini-2.5-flash"] {
        for (given, sent) in [(65_536, 65_536), (65_537, 65_536), (1_000_000, 65_536), (1, 1)] {
            assert_eq!(maximum(model, given, json!({})), (json!(sent), false), "{model}");
        }
    }
}

/// The maximum of a model with long decode is the maximum of all requests that continue each other.
#[test]
fn maximum_of_a_continued_response_is_not_reduced() {
    for (model, given, needs_stream) in [
        ("gemini-4-argon", 32_768, false),
        ("gemini-4-argon", 32_769, true),
        ("gemini-4-argon", 1_000_000, true),
        ("gemini-10-x", 1_000_000, true),
    ] {
        assert_eq!(maximum(model, given, json!({})), (json!(given), needs_stream), "{model}");
    }
    let token = json!({"continuationToken": "t"});
    assert_eq!(maximum("gemini-latest", 200_000, token.clone()), (json!(200_000), true));
    assert_eq!(maximum(MODEL, 200_000, token), (json!(200_000), false));
    let no_token = json!({"continuationToken": null});
    assert_eq!(maximum("gemini-latest", 200_000, no_token), (json!(65_536), true));
}

#[test]
fn maximum_in_extra_decides_about_streaming() {
    let own = |tokens: usize| json!({"generationConfig": {"maxOutputTokens": tokens}});
    for (own, sent, needs_stream) in [
        (own(100_000), 100_000, true),
        (own(10), 10, false),
        (json!({"generationConfig": {"topK": 1}}), 40_000, true),
    ] {
        assert_eq!(maximum("gemini-4-argon", 40_000, own), (json!(sent), needs_stream));
    }
}

#[test]
fn response_formats_are_serialised() {
    check(CompletionRequest { response_format: Some(ResponseFormat::Text), ..ask() }, json!({}));
    check(
        CompletionRequest { response_format: Some(ResponseFormat::JsonObject), ..ask() },
        json!({"generationConfig": {"responseMimeType": "application/json"}}),
    );
    let schema = json!({
        "title": "City", "type": "object", "properties": {"at": {"$ref": "#/$defs/At"}},
        "$defs": {"At": {"type": "string"}},
    });
    let format = ResponseFormat::JsonSchema { name: "city".into(), schema, strict: true };
    check(
        CompletionRequest { response_format: Some(format), ..ask() },
        json!({"generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object", "properties": {"at": {"type": "string"}}},
        }}),
    );
}

#[test]
fn tools_and_choices_are_serialised() {
    let declarations = json!([{"functionDeclarations": [{
        "name": "look", "description": "Looks.", "behavior": "BLOCKING",
        "parametersJsonSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }]}]);
    let tool = look().with_vendor_field("gcp.gemini", "behavior", "BLOCKING").with_vendor_field(
        "anthropic",
        "defer_loading",
        true,
    );
    for (choice, config) in [
        (None, None),
        (Some(ToolChoice::Auto), Some(json!({"mode": "AUTO"}))),
        (Some(ToolChoice::None), Some(json!({"mode": "NONE"}))),
        (Some(ToolChoice::Required), Some(json!({"mode": "ANY"}))),
        (
            Some(ToolChoice::Specific { name: "look".into() }),
            Some(json!({"mode": "ANY", "allowedFunctionNames": ["look"]})),
        ),
    ] {
        let mut expected = json!({"tools": declarations});
        if let Some(config) = config {
            expected["toolConfig"] = json!({"functionCallingConfig": config});
        }
        let request = CompletionRequest { tools: vec![tool.clone()], tool_choice: choice, ..ask() };
        check(request, expected);
    }
}

#[test]
fn choice_without_declarations_is_left_out_if_it_has_no_effect() {
    let search = json!({"tools": [{"googleSearch": {}}]});
    for choice in [ToolChoice::Auto, ToolChoice::None] {
        let plain = CompletionRequest { tool_choice: Some(choice), ..ask() };
        check(plain.clone(), json!({}));
        check(CompletionRequest { extra: Some(search.clone()), ..plain.clone() }, search.clone());
        let declared = json!({"tools": [{"functionDeclarations": [{"name": "f"}]}]});
        let sent = body(&CompletionRequest { extra: Some(declared), ..plain });
        assert!(sent.get("toolConfig").is_some());
    }
}

#[test]
fn extra_is_merged_into_the_body() {
    let extra = json!({
        "tools": [{"googleSearch": {}}],
        "toolConfig": {"includeServerSideToolInvocations": true},
        "generationConfig": {"topK": 5, "thinkingConfig": {"thinkingLevel": "MINIMAL"}},
        "safetySettings": [],
    });
    let request = CompletionRequest {
        tools: vec![look()],
        tool_choice: Some(ToolChoice::Auto),
        temperature: Some(0.5),
        extra: Some(extra),
        ..ask()
    };
    let sent = body(&request);
    assert_eq!(sent["tools"].as_array().unwrap().len(), 2);
    assert_eq!(
        sent["toolConfig"],
        json!({"functionCallingConfig": {"mode": "AUTO"}, "includeServerSideToolInvocations": true})
    );
    assert_eq!(
        sent["generationConfig"],
        json!({"temperature": 0.5, "topK": 5, "thinkingConfig": {"thinkingLevel": "MINIMAL"}})
    );
    let keys: Vec<_> = sent.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["generationConfig", "tools", "toolConfig", "safetySettings", "contents"]);
}

#[test]
fn system_instruction_contains_prompt_and_leading_system_messages() {
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    let request = CompletionRequest {
        system: Some(vec![block("one"), block(""), block("two")].into()),
        messages: vec![Message::system("three"), Message::user("hi")],
        ..Default::default()
    };
    check(
        request,
        json!({"systemInstruction": {"parts": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}}),
    );
    check(CompletionRequest { system: Some("".into()), ..ask() }, json!({}));
}

#[test]
fn fields_of_a_cache_are_not_sent_beside_it() {
    // Regression case. The name in snake case, which the API accepts too, was not known.
    for name in ["cachedContent", "cached_content"] {
        let extra = json!({name: "cachedContents/1"});
        let request = CompletionRequest {
            system: Some("s".into()),
            tools: vec![look()],
            tool_choice: Some(ToolChoice::Auto),
            extra: Some(extra.clone()),
            ..ask()
        };
        check(request, extra);
    }
}

/// The cache contains the system prompt and the tools of the request, but not its messages.
#[test]
fn leading_system_messages_are_sent_beside_a_cache() {
    let request = CompletionRequest {
        messages: vec![Message::system("be brief"), Message::user("hi")],
        extra: Some(json!({"cachedContent": "cachedContents/1"})),
        ..Default::default()
    };
    let user = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    assert_eq!(
        body(&request),
        json!({"cachedContent": "cachedContents/1", "contents": [user("be brief"), user("hi")]})
    );
}

#[test]
fn request_without_messages_gets_no_filler() {
    assert_eq!(body(&CompletionRequest::default()), json!({"contents": []}));
    let blank = CompletionRequest { messages: vec![Message::user("")], ..Default::default() };
    assert_eq!(body(&blank)["contents"].as_array().unwrap().len(), 1);
}

#[test]
fn inexpressible_request_is_an_error() {
    let edit = ContextEdit::Compact { strategy: "summarize".into() };
    let management = ContextManagement { edits: vec![edit] };
    for (request, text) in [
        (
            CompletionRequest { context_management: Some(management), ..ask() },
            "invalid request: Gemini does not edit conversations: use a ContextStrategy, which runs on the client",
        ),
        (
            CompletionRequest { temperature: Some(f32::NAN), ..ask() },
            "invalid request: cannot be written: JSON has no number NaN",
        ),
        (
            CompletionRequest { extra: Some(json!([])), ..ask() },
            "invalid request: `extra` must be a JSON object: its fields are merged into the request",
        ),
        (
            CompletionRequest { extra: Some(json!({"stream": true})), ..ask() },
            "invalid request: `extra` cannot set `stream`: call complete or complete_stream",
        ),
    ] {
        let error = write(request.view(), MODEL, GOOGLE_AI).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn next_turn_begins_with_the_bytes_of_the_previous_turn() {
    let mut request = CompletionRequest {
        system: Some("s".into()),
        tools: vec![look()],
        messages: vec![Message::user("hi")],
        ..Default::default()
    };
    let mut before = write(request.view(), MODEL, GOOGLE_AI).unwrap();
    let call = ContentBlock::ToolUse { id: "c".into(), name: "look".into(), input: json!({}) };
    let result =
        ContentBlock::ToolResult { tool_use_id: "c".into(), content: Vec::new(), is_error: false };
    for turn in [
        [
            Message { role: Role::Assistant, content: vec![call] },
            Message { role: Role::User, content: vec![result] },
        ],
        [Message::assistant("done"), Message::user("more")],
        [Message::assistant("done"), Message::system("now")],
    ] {
        request.messages.extend(turn);
        let after = write(request.view(), MODEL, GOOGLE_AI).unwrap();
        let shared = before.strip_suffix(b"]}").unwrap();
        assert!(after.starts_with(shared));
        before = after;
    }
}

/// The API rejected these requests. Regression test.
#[test]
fn request_that_the_api_rejects_is_an_error() {
    let check = |request: CompletionRequest, expected: &str| {
        let error = write(request.view(), MODEL, GOOGLE_AI).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid request: {expected}"));
    };
    let choose = |tools, choice| CompletionRequest { tools, tool_choice: Some(choice), ..ask() };
    let no_tools = "a forced tool call needs tools: add them, or use ToolChoice::Auto";
    check(choose(vec![], ToolChoice::Required), no_tools);
    // The error has the name that the caller gave.
    check(
        choose(vec![look()], ToolChoice::Specific { name: "1find".into() }),
        "the tool choice names `1find`, and the request has no such tool: add it, or choose another tool",
    );
    let stop = |sequences: &[&str]| CompletionRequest {
        stop_sequences: sequences.iter().map(|&sequence| sequence.to_owned()).collect(),
        ..ask()
    };
    check(
        stop(&["a", "b", "c", "d", "e", "f"]),
        "Gemini accepts at most 5 stop sequences, and the request has 6: leave some out",
    );
    check(stop(&[""]), "a stop sequence is empty: leave it out");
    assert_eq!(body(&stop(&["\n"]))["generationConfig"]["stopSequences"], json!(["\n"]));
}
