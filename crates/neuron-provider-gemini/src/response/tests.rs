//! Tests of responses that are not streamed.

use neuron_model::TokenUsage;
use serde_json::json;

use super::*;
use crate::model::GOOGLE_AI;

fn read(body: &Value) -> CompletionResponse {
    super::read(body.to_string().as_bytes(), &Secret::default(), Origin::new(GOOGLE_AI, ""))
        .unwrap()
}

fn body(parts: &Value, reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]})
}

#[test]
fn response_is_parsed() {
    let call = json!({"functionCall": {"name": "f", "args": {"a": 1}, "id": "x"}, "thoughtSignature": "s"});
    let response = read(&json!({
        "candidates": [
            {"index": 1, "content": {"parts": [{"text": "another candidate"}]}},
            {
                "content": {"role": "model", "parts": [
                    {"text": "hm", "thought": true}, {"text": "Let me look."}, call,
                ]},
                "finishReason": "STOP", "index": 0, "safetyRatings": [],
            },
        ],
        "usageMetadata": {
            "promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 14,
        },
        "modelVersion": "gemini-3.8-flash", "responseId": "r1", "modelStatus": {"new": 1},
    }));
    let input = json!({"a": 1});
    let portable = ContentBlock::ToolUse { id: "x".into(), name: "f".into(), input };
    assert_eq!(
        response,
        CompletionResponse {
            id: "r1".into(),
            model: "gemini-3.8-flash".into(),
            message: Message {
                role: Role::Assistant,
                content: vec![
                    ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() },
                    ContentBlock::Text("Let me look.".into()),
                    ContentBlock::Raw {
                        provider: "gcp.gemini".into(),
                        json: call,
                        portable: Some(Box::new(portable)),
                    },
                ],
            },
            usage: TokenUsage {
                input_tokens: 9,
                output_tokens: 5,
                reasoning_tokens: Some(2),
                ..TokenUsage::default()
            },
            stop_reason: StopReason::ToolUse,
        }
    );
}

#[test]
fn each_finish_reason_has_a_stop_reason() {
    use StopReason as S;
    for (reason, expected) in [
        ("STOP", S::EndTurn),
        ("MAX_TOKENS", S::MaxTokens),
        ("CONTINUATION", S::MaxTokens),
        ("SAFETY", S::ContentFilter),
        ("RECITATION", S::ContentFilter),
        ("BLOCKLIST", S::ContentFilter),
        ("PROHIBITED_CONTENT", S::ContentFilter),
        ("SPII", S::ContentFilter),
        ("IMAGE_SAFETY", S::ContentFilter),
        ("IMAGE_PROHIBITED_CONTENT", S::ContentFilter),
        ("IMAGE_RECITATION", S::ContentFilter),
        ("MODEL_ARMOR", S::ContentFilter),
        ("ESCALATION", S::Refusal),
        ("PUP_LIMITED_DISABLED", S::Refusal),
        ("LANGUAGE", S::Other("LANGUAGE".into())),
        ("OTHER", S::Other("OTHER".into())),
        ("MALFORMED_FUNCTION_CALL", S::Other("MALFORMED_FUNCTION_CALL".into())),
        ("NEW_REASON", S::Other("NEW_REASON".into())),
    ] {
        let response = read(&body(&json!([{"text": "a"}]), reason));
        assert_eq!((response.stop_reason, response.message.text().as_str()), (expected, "a"));
    }
}

#[test]
fn malformed_call_does_not_run() {
    let plain = json!({"functionCall": {"name": "f", "args": {}}});
    let signed = json!({"functionCall": {"name": "g", "id": "x"}, "thoughtSignature": "s"});
    for reason in
        ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_X"]
    {
        let mut body = body(&json!([{"text": "a"}, plain, signed]), reason);
        body["candidates"][0]["finishMessage"] = json!("why");
        let response = read(&body);
        assert_eq!(response.stop_reason, StopReason::Other(reason.into()));
        let message = response.message;
        assert_eq!((message.text().as_str(), message.tool_uses().count()), ("a", 0));
        // The calls are kept, for logs.
        let stored = serde_json::to_string(&message).unwrap();
        assert!(stored.contains(r#""name":"f""#) && stored.contains(r#""name":"g""#), "{stored}");
        let details = json!({"finishReason": reason, "finishMessage": "why"});
        assert_eq!(message.metadata().unwrap().stop_details, Some(details));
    }
}

#[test]
fn refused_prompt_is_an_empty_refusal() {
    for reason in ["SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "JAILBREAK", "OTHER", "NEW"] {
        let feedback = json!({"blockReason": reason, "safetyRatings": [{"blocked": true}]});
        let response = read(&json!({
            "promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
        }));
        assert_eq!(response.stop_reason, StopReason::Refusal);
        assert_eq!(response.message.text(), "");
        assert!(!response.message.has_content());
        assert_eq!(response.message.metadata().unwrap().stop_details, Some(feedback));
        assert_eq!(response.usage.input_tokens, 7);
    }
}

/// A stream without a finish reason is an error too, and its calls do not run.
#[test]
fn response_without_finish_reason_is_an_error() {
    let call = json!([{"text": "a"}, {"functionCall": {"name": "f", "args": {}}}]);
    let mut open = body(&call, "STOP");
    open["candidates"][0].as_object_mut().unwrap().shift_remove("finishReason");
    for feedback in [
        json!(null),
        json!({}),
        json!({"blockReason": "BLOCK_REASON_UNSPECIFIED"}),
        json!({"blockReason": "BLOCKED_REASON_UNSPECIFIED"}),
        json!({"blockReason": ""}),
    ] {
        for mut body in [open.clone(), body(&call, "FINISH_REASON_UNSPECIFIED")] {
            body["promptFeedback"] = feedback.clone();
            let bytes = body.to_string();
            let origin = Origin::new(GOOGLE_AI, "");
            let error = super::read(bytes.as_bytes(), &Secret::default(), origin).unwrap_err();
            let text = "the body is not a response of Gemini (it is incomplete, because it has no finishReason); it \
                        begins with: {";
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }
}

/// The API sends such responses in the field (<https://github.com/AstrBotDevs/AstrBot/issues/6735>).
#[test]
fn empty_response_with_a_reason_is_accepted() {
    for candidate in [
        json!({"finishReason": "STOP"}),
        json!({"content": {}, "finishReason": "STOP"}),
        json!({"content": {"role": "model", "parts": null}, "finishReason": "STOP"}),
        json!({"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}),
    ] {
        let response = read(&json!({"candidates": [candidate], "promptFeedback": {}}));
        assert_eq!(response.stop_reason, StopReason::EndTurn);
        assert_eq!(response.message.content, []);
    }
}

#[test]
fn response_at_the_maximum_of_one_request_has_a_continuation_token() {
    let mut body = body(&json!([{"text": "a"}]), "CONTINUATION");
    body["candidates"][0]["continuationToken"] = json!("t");
    let metadata = read(&body).message.metadata().unwrap();
    let details = json!({"finishReason": "CONTINUATION", "continuationToken": "t"});
    assert_eq!(metadata.stop_details, Some(details));
}

#[test]
fn invalid_body_is_an_error() {
    let secret = Secret::new("sk-secret");
    for (body, text) in [
        (
            r#"{"candidates":[],"x":"sk-secret"}"#,
            r#"the body is not a response of Gemini (it has no candidate and no reason why); it begins with: {"candidates":[],"x":"[redacted]"}"#,
        ),
        (
            "[]",
            "the body is not a response of Gemini (it has no candidate and no reason why); it begins with: []",
        ),
        (
            r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#,
            "service unavailable: in the answer UNAVAILABLE: busy",
        ),
        (
            r#"[{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}]"#,
            "service unavailable: in the answer UNAVAILABLE: busy",
        ),
        (r#"{"message":"unauthorized"}"#, "authentication failed: in the answer: unauthorized"),
    ] {
        let error = super::read(body.as_bytes(), &secret, Origin::new(GOOGLE_AI, "")).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let body = body(&json!([{"text": "añ🦀"}]), "STOP").to_string();
    for end in 0..body.len() {
        let cut = &body.as_bytes()[..end];
        assert!(super::read(cut, &secret, Origin::new(GOOGLE_AI, "")).is_err(), "cut at {end}");
    }
}

#[test]
fn invalid_metadata_does_not_fail_a_response() {
    let response = read(&json!({
        "candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP", "citationMetadata": 1}],
        "usageMetadata": {"promptTokenCount": "many"}, "modelVersion": 1, "responseId": [],
    }));
    assert_eq!(response.message.text(), "a");
    assert_eq!(response.usage, TokenUsage::default());
}

/// Regression test. The integer was rounded.
#[test]
fn integer_beyond_64_bits_is_kept_as_text() {
    let body =
        body(&json!([{"functionCall": {"name": "f", "args": {"n": 0}}}]), "STOP").to_string();
    let body = body.replace("{\"n\":0}", "{\"n\":123456789012345678901}");
    let origin = Origin::new(GOOGLE_AI, "");
    let response = super::read(body.as_bytes(), &Secret::default(), origin).unwrap();
    let call = response.message.tool_uses().next().unwrap();
    assert_eq!(call.input, &json!({"n": "123456789012345678901"}));
}
