//! Tests of responses that are not streamed.

use neuron_model::TokenUsage;

use super::*;
use crate::model::Model;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-6";

fn origin() -> Origin {
    let mut origin = Origin::new(Model::new(CLAUDE, ""));
    origin.request_id = "r-1".into();
    origin
}

fn read_json(body: &Value) -> Result<CompletionResponse, ProviderError> {
    read(body.to_string().as_bytes(), &Secret::new("sk-secret"), origin())
}

fn body(content: Value, reason: &str) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": reason,
        "usage": {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12},
        "metrics": {"latencyMs": 1},
    })
}

#[test]
fn response_has_content_usage_and_the_id_of_the_request() {
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"text": "a"},
        {"toolUse": {"toolUseId": "x", "name": "look", "input": {"b": 1}}},
    ]);
    let response = read_json(&body(content, "tool_use")).unwrap();
    assert_eq!((response.id.as_str(), response.model.as_str()), ("r-1", CLAUDE));
    assert_eq!(response.stop_reason, StopReason::ToolUse);
    let usage = TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() };
    assert_eq!(response.usage, usage);
    assert_eq!(
        response.message.content,
        [
            ContentBlock::Thinking { thinking: "hm".into(), signature: "s".into() },
            ContentBlock::Text("a".into()),
            ContentBlock::ToolUse { id: "x".into(), name: "look".into(), input: json!({"b": 1}) },
        ]
    );
}

#[test]
fn each_stop_reason_is_converted() {
    for (reason, expected) in [
        ("end_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("stop_sequence", StopReason::StopSequence),
        ("guardrail_intervened", StopReason::ContentFilter),
        ("content_filtered", StopReason::ContentFilter),
        ("model_context_window_exceeded", StopReason::ContextWindowExceeded),
        ("malformed_tool_use", StopReason::Other("malformed_tool_use".into())),
        ("new", StopReason::Other("new".into())),
    ] {
        assert_eq!(read_json(&body(json!([]), reason)).unwrap().stop_reason, expected);
    }
}

/// Some models send `end_turn` with calls: <https://github.com/strands-agents/sdk-python/issues/644>.
#[test]
fn calls_decide_between_tool_use_and_the_end_of_the_turn() {
    let call = json!({"toolUse": {"toolUseId": "x", "name": "look", "input": {}}});
    let of_server = json!({"toolUse": {
        "toolUseId": "s", "name": "nova_grounding", "input": {}, "type": "server_tool_use",
    }});
    // Recorded from Claude Sonnet 4.5 and 5 and from Nova 2 Lite, although the model of the API lists no such type.
    let mut typed = call.clone();
    typed["toolUse"]["type"] = "tool_use".into();
    for (content, expected) in [
        (json!([{"text": "a"}, call]), StopReason::ToolUse),
        (json!([{"text": "a"}, typed]), StopReason::ToolUse),
        (json!([{"text": "a"}]), StopReason::EndTurn),
        (json!([of_server, {"text": "a"}]), StopReason::EndTurn),
        (json!([]), StopReason::EndTurn),
    ] {
        for reason in ["end_turn", "tool_use"] {
            let response = read_json(&body(content.clone(), reason)).unwrap();
            assert_eq!(response.stop_reason, expected, "{reason} {content}");
        }
    }
    let cut = read_json(&body(json!([call]), "max_tokens")).unwrap();
    assert_eq!(cut.stop_reason, StopReason::MaxTokens);
}

/// Regression test. The integer was rounded.
#[test]
fn integer_beyond_64_bits_is_kept_as_text() {
    let call = json!({"toolUse": {"toolUseId": "x", "name": "look", "input": {"n": 0}}});
    let body = body(json!([call]), "tool_use").to_string();
    let body = body.replace("{\"n\":0}", "{\"n\":123456789012345678901}");
    let response = read(body.as_bytes(), &Secret::default(), origin()).unwrap();
    let call = response.message.tool_uses().next().unwrap();
    assert_eq!(call.input, &json!({"n": "123456789012345678901"}));
}

#[test]
fn metadata_is_kept() {
    let mut json = body(json!([{"text": "a"}]), "stop_sequence");
    json["additionalModelResponseFields"] = json!({"stop_sequence": "HALT"});
    json["serviceTier"] = json!({"type": "priority"});
    json["trace"] = json!({"promptRouter": {"invokedModelId": "arn:x"}});
    let response = read_json(&json).unwrap();
    let metadata = response.message.metadata().unwrap();
    assert_eq!(metadata.stop_sequence.as_deref(), Some("HALT"));
    assert_eq!(metadata.service_tier.as_deref(), Some("priority"));
    assert_eq!((metadata.stop_details, response.model.as_str()), (None, "arn:x"));

    let mut json = body(json!([{"text": "blocked"}]), "guardrail_intervened");
    json["trace"] = json!({"guardrail": {"actionReason": "no"}});
    let details = json!({"stopReason": "guardrail_intervened", "trace": json["trace"]});
    let metadata = read_json(&json).unwrap().message.metadata().unwrap();
    assert_eq!(metadata.stop_details, Some(details));
}

#[test]
fn fields_of_other_types_are_ignored() {
    let mut json = body(json!([{"text": "a"}]), "end_turn");
    for (key, value) in [
        ("usage", json!("x")),
        ("serviceTier", json!(1)),
        ("additionalModelResponseFields", json!([])),
        ("trace", json!(null)),
    ] {
        json[key] = value;
    }
    let response = read_json(&json).unwrap();
    assert_eq!(response.message, Message::assistant("a"));
    assert_eq!(response.usage, TokenUsage::default());
    let empty = json!({"output": null, "stopReason": "guardrail_intervened"});
    assert_eq!(read_json(&empty).unwrap().message.text(), "");
}

#[test]
fn other_body_is_an_error() {
    for (body, text) in [
        (
            json!({"output": {"message": {"content": []}}}).to_string(),
            "the body is not a response of Bedrock (it is incomplete, because it has no stopReason); it begins with: \
             {\"output\":{\"message\":{\"content\":[]}}}",
        ),
        (
            "<html>sk-secret".to_owned(),
            "the body is not a response of Bedrock (expected value at line 1 column 1); it begins with: \
             <html>[redacted]",
        ),
        (
            json!({"__type": "ServiceUnavailableException", "message": "busy"}).to_string(),
            "service unavailable: in the answer ServiceUnavailableException: busy",
        ),
    ] {
        let error = read(body.as_bytes(), &Secret::new("sk-secret"), origin()).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn truncated_body_is_an_error() {
    let body = body(json!([{"text": "日本"}]), "end_turn").to_string();
    for end in 0..body.len() {
        let error = read(&body.as_bytes()[..end], &Secret::default(), origin()).unwrap_err();
        assert_eq!(error.kind(), "Other", "cut at {end}");
    }
}
