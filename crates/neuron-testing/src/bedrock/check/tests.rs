//! Checks right bodies, and bodies that break one rule each.

use serde_json::{Value, json};

use super::*;
use crate::base64;
use crate::bedrock::reasoning_signature;
use crate::checker::tests::{check_coverage, check_refused, check_shapes, with};

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0";
const SONNET_5: &str = "global.anthropic.claude-sonnet-5";
const NOVA: &str = "amazon.nova-pro-v1%3A0";
const LLAMA: &str = "meta.llama4-scout-17b-instruct-v1%3A0";
const MISTRAL: &str = "mistral.mistral-large-2407-v1%3A0";
const PALMYRA: &str = "writer.palmyra-x5-v1%3A0";
const GPT: &str = "global.openai.gpt-5.6-sol";
const PROMPT: &str = "arn:aws:bedrock:eu-west-1:123456789012:prompt%2FABC";
const OTHER: &str = "the-model";

fn route(model: &str) -> Route {
    Route::parse(&format!("/model/{model}/converse")).unwrap()
}

fn body(fields: Value) -> Value {
    with(json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}), fields)
}

fn said(messages: Value) -> Value {
    body(json!({"messages": messages, "toolConfig": {"tools": [tool(json!({}))]}}))
}

fn asked(blocks: Value) -> Value {
    said(json!([user(blocks)]))
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn model(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn call(id: &str) -> Value {
    json!({"toolUse": {"toolUseId": id, "name": "now", "input": {}}})
}

fn result(fields: Value) -> Value {
    json!({"toolResult": with(json!({"toolUseId": "a", "content": [{"text": "1"}]}), fields)})
}

fn called(calls: Value, results: Value) -> Value {
    said(json!([user(json!([text("hi")])), model(calls), user(results)]))
}

fn tool(fields: Value) -> Value {
    let spec = json!({"name": "now", "inputSchema": {"json": {"type": "object"}}});
    json!({"toolSpec": with(spec, fields)})
}

fn tools(tools: Value) -> Value {
    body(json!({"toolConfig": {"tools": tools}}))
}

fn chosen(choice: Value) -> Value {
    body(json!({"toolConfig": {"tools": [tool(json!({}))], "toolChoice": choice}}))
}

fn point(ttl: &str) -> Value {
    json!({"cachePoint": {"type": "default", "ttl": ttl}})
}

fn more(fields: Value) -> Value {
    body(json!({"additionalModelRequestFields": fields}))
}

fn thinking(budget: u32, fields: Value) -> Value {
    with(more(json!({"thinking": {"type": "enabled", "budget_tokens": budget}})), fields)
}

fn thought(text: &str, signature: &str) -> Value {
    let reasoning = json!({"reasoningText": {"text": text, "signature": signature}});
    said(json!([
        user(json!([{"text": "hi"}])),
        model(json!([{"reasoningContent": reasoning}, {"text": "Hello."}])),
        user(json!([{"text": "so"}])),
    ]))
}

fn image(format: &str) -> Value {
    json!({"image": {"format": format, "source": {"bytes": base64::encode(b"\x89PNG\r\n\x1a\n")}}})
}

fn document(fields: Value) -> Value {
    json!({"document": with(json!({"format": "pdf", "name": "a", "source": {"bytes": "JVBERi0xLjQK"}}), fields)})
}

#[test]
fn each_field_has_its_kind() {
    check_shapes(&TABLE, false);
}

#[test]
fn right_requests_are_accepted() {
    let hidden = json!({"reasoningContent": {"redactedContent": "AAAA"}});
    let result_b = result(json!({"toolUseId": "b"}));
    let result_a = result(json!({}));
    let interrupted = said(json!([
        user(json!([text("hi")])),
        model(json!([call("a"), call("b")])),
        {"role": "system", "content": [text("be brief")]},
        user(json!([result_b])),
        user(json!([result_a])),
    ]));
    let own = with(call("a")["toolUse"].clone(), json!({"type": "server_tool_use"}));
    let served =
        json!([{"toolUse": own}, result(json!({"type": "nova_grounding_result"})), text("So.")]);
    let thought_and_called = called(json!([hidden, call("a")]), json!([result_a]));
    let with_image =
        called(json!([call("a")]), json!([result(json!({"content": [image("png")]}))]));
    let begun = said(json!([model(json!([text("hm")])), user(json!([text("hi")]))]));
    let ended = said(json!([user(json!([text("hi")])), model(json!([text("hm")]))]));
    let signature = |text: &str| reasoning_signature(text, &route(CLAUDE));
    let forms = json!({"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": "{}"}}}});
    for (model, right) in [
        (
            CLAUDE,
            body(
                json!({"system": [text("Be brief."), point("1h")], "outputConfig": forms, "toolConfig": null}),
            ),
        ),
        (CLAUDE, more(json!({"thinking": {"type": "adaptive"}, "top_k": 4}))),
        (LLAMA, more(json!({"anything": [1]}))),
        (PROMPT, body(json!({"messages": [], "promptVariables": {"name": {"text": "Ada"}}}))),
        (CLAUDE, interrupted),
        (
            CLAUDE,
            said(json!([user(json!([text("hi")])), model(served), user(json!([text("so")]))])),
        ),
        (CLAUDE, called(json!([call("a")]), json!([result_a, text("Briefly.")]))),
        (NOVA, called(json!([call("a")]), json!([result_a, text("Read."), document(json!({}))]))),
        (LLAMA, with_image.clone()),
        (OTHER, with_image),
        (CLAUDE, begun),
        (CLAUDE, ended),
        (
            CLAUDE,
            with(
                thinking(1024, json!({})),
                json!({"messages": thought_and_called["messages"], "toolConfig": thought_and_called["toolConfig"]}),
            ),
        ),
        (CLAUDE, thinking(1024, json!({"inferenceConfig": {"maxTokens": 1025, "temperature": 1}}))),
        (CLAUDE, thought("hm", &signature("hm"))),
        (OTHER, thought("hm", "c2lnbmF0dXJl")),
        ("deepseek.r1-v1%3A0", thought("hm", "")),
        (CLAUDE, asked(json!([image("png"), document(json!({"name": "a (1) [b]-c"})), text("?")]))),
        (
            CLAUDE,
            asked(json!([document(json!({"format": null, "source": {"text": "a"}})), text("?")])),
        ),
        (CLAUDE, chosen(json!({"any": {}}))),
        (GPT, chosen(json!({"tool": {"name": "now"}}))),
        (LLAMA, chosen(json!({"auto": {}}))),
        (MISTRAL, chosen(json!({"any": {}}))),
        (CLAUDE, tools(json!([{"systemTool": {"name": "nova_grounding"}}, point("5m")]))),
        (CLAUDE, asked(json!([text("a"), point("1h"), text("b"), point("5m")]))),
        (NOVA, asked(json!([text("a"), point("5m")]))),
        (
            "global.amazon.nova-2-lite-v1%3A0",
            with(
                more(json!({"reasoningConfig": {"maxReasoningEffort": "high"}})),
                json!({"inferenceConfig": {"stopSequences": [" "]}}),
            ),
        ),
        ("openai.gpt-oss-120b-1%3A0", more(json!({"reasoning_effort": "low"}))),
    ] {
        assert_eq!(check_request(&right, &route(model)), Ok(()), "{model}: {right}");
    }
    let mode = body(json!({"guardrailConfig": {"streamProcessingMode": "sync"}}));
    let streamed = Route::parse("/model/m/converse-stream").unwrap();
    assert_eq!(check_request(&mode, &streamed), Ok(()));
}

#[test]
fn wrong_requests_are_refused() {
    let null = "Member must not be null";
    let unsupported = "Remove toolConfig.toolChoice.";
    let missing = "Expected toolResult blocks at messages.";
    let result_a = result(json!({}));
    let hi = user(json!([text("hi")]));
    let effort = |config: Value| {
        with(
            more(json!({"reasoningConfig": {"maxReasoningEffort": "high"}})),
            json!({"inferenceConfig": config}),
        )
    };
    let prompted = |field: &str, value: Value| body(json!({ field: value }));
    let own = reasoning_signature("hm", &route(CLAUDE));
    let mut untold = called(json!([call("a")]), json!([result_a]));
    untold.as_object_mut().unwrap().remove("toolConfig");
    let mut unthinking = called(json!([call("a")]), json!([result_a]));
    unthinking["additionalModelRequestFields"] =
        json!({"thinking": {"type": "enabled", "budget_tokens": 1024}});
    let hidden = json!([{"reasoningContent": {"redactedContent": "AAAA"}}]);
    let cases = vec![
        (
            CLAUDE,
            "Malformed input request: #/inferenceConfig: extraneous key [topK]",
            body(json!({"inferenceConfig": {"topK": 5}})),
        ),
        (
            CLAUDE,
            "#/messages/0/content/0: extraneous key [cacheControl]",
            asked(json!([{"text": "hi", "cacheControl": {}}])),
        ),
        (
            CLAUDE,
            "#/messages/0/content/0: extraneous key [text]",
            asked(json!([with(image("png"), json!({"text": "hi"}))])),
        ),
        (CLAUDE, "extraneous key [topK]", more(json!({"topK": 5}))),
        (
            OTHER,
            "extraneous key [streamProcessingMode]",
            body(json!({"guardrailConfig": {"streamProcessingMode": "sync"}})),
        ),
        (CLAUDE, "null at 'messages.1.member.content'", said(json!([{"role": "user"}]))),
        (CLAUDE, null, asked(json!([{}]))),
        (
            CLAUDE,
            "string can not be converted to integer",
            body(json!({"inferenceConfig": {"maxTokens": "5"}})),
        ),
        (
            CLAUDE,
            "'tool' at 'messages.1.member.role' failed to satisfy constraint: Member must satisfy enum value set: [user, assistant, system]",
            said(json!([{"role": "tool", "content": []}])),
        ),
        (CLAUDE, "greater than or equal to 1", body(json!({"inferenceConfig": {"maxTokens": 0}}))),
        (
            CLAUDE,
            "'1.5' at 'inferenceConfig.temperature' failed to satisfy constraint: Member must have value less",
            body(json!({"inferenceConfig": {"temperature": 1.5}})),
        ),
        (
            CLAUDE,
            "at 'inferenceConfig.stopSequences' failed to satisfy constraint: Member must have length less",
            body(json!({"inferenceConfig": {"stopSequences": vec!["a"; 2501]}})),
        ),
        (
            CLAUDE,
            "stopSequences.2.member' failed to satisfy constraint: Member must have length greater",
            body(json!({"inferenceConfig": {"stopSequences": ["a", ""]}})),
        ),
        (CLAUDE, "regular expression pattern", tools(json!([tool(json!({"name": "a.b"}))]))),
        (
            CLAUDE,
            "regular expression pattern",
            called(json!([call("a/b")]), json!([result(json!({"toolUseId": "a/b"}))])),
        ),
        (
            CLAUDE,
            "regular expression pattern",
            asked(json!([document(json!({"name": "a.txt"})), text("?")])),
        ),
        (
            CLAUDE,
            "regular expression pattern",
            asked(json!([document(json!({"name": "a  b"})), text("?")])),
        ),
        (CLAUDE, "length greater than or equal to 1", tools(json!([]))),
        (CLAUDE, "must have at least one tool", tools(json!([point("5m")]))),
        (
            CLAUDE,
            "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must",
            tools(json!([tool(json!({"inputSchema": {"json": {}}}))])),
        ),
        (
            CLAUDE,
            "The tool now is already defined",
            tools(json!([tool(json!({})), tool(json!({}))])),
        ),
        (CLAUDE, "Tool 'other' not found", chosen(json!({"tool": {"name": "other"}}))),
        (LLAMA, unsupported, chosen(json!({"any": {}}))),
        (MISTRAL, unsupported, chosen(json!({"tool": {"name": "now"}}))),
        (CLAUDE, "extraneous key [none]", chosen(json!({"none": {}}))),
        (
            CLAUDE,
            "tool_choice conflicts",
            with(
                chosen(json!({"auto": {}})),
                json!({"additionalModelRequestFields": {"tool_choice": {}}}),
            ),
        ),
        (PROMPT, "can't include the system field", prompted("system", json!([text("a")]))),
        (PROMPT, "can't include the inferenceConfig field", prompted("inferenceConfig", json!({}))),
        (CLAUDE, "must start with a user message", body(json!({"messages": []}))),
        (NOVA, "must start with a user message", said(json!([model(json!([text("hm")])), hi]))),
        (CLAUDE, "at messages.0.content is empty", asked(json!([]))),
        (
            CLAUDE,
            "The toolUse field in the ContentBlock object at messages.0.content.0 is not supported in user messages",
            asked(json!([call("a")])),
        ),
        (
            CLAUDE,
            "The image field in the ContentBlock",
            said(json!([hi, model(json!([image("png")]))])),
        ),
        (
            CLAUDE,
            "messages.1.member.content.1.member.text' failed to satisfy constraint: Member must have length",
            asked(json!([text("")])),
        ),
        (CLAUDE, "must contain non-whitespace text", asked(json!([text(" ")]))),
        (CLAUDE, "must contain non-whitespace text", body(json!({"system": [text("\n")]}))),
        (
            CLAUDE,
            "each stop sequence must contain",
            body(json!({"inferenceConfig": {"stopSequences": [" "]}})),
        ),
        (CLAUDE, "trailing whitespace", said(json!([hi, model(json!([text("hm ")]))]))),
        (
            "us.anthropic.claude-sonnet-4-6",
            "does not support assistant message prefill",
            said(json!([hi, model(json!([text("hm")]))])),
        ),
        (
            SONNET_5,
            "does not support assistant message prefill",
            said(json!([hi, model(hidden), hi])),
        ),
        (CLAUDE, "toolConfig field must be defined", untold),
        (CLAUDE, missing, called(json!([call("a"), call("b")]), json!([result_a]))),
        (
            CLAUDE,
            "Expected toolResult blocks at messages.2.content for the following Ids: a, b",
            called(json!([call("a"), call("b")]), json!([text("So?")])),
        ),
        (CLAUDE, missing, said(json!([hi, model(json!([call("a")]))]))),
        (CLAUDE, "exceeds the number of toolUse blocks", asked(json!([result_a]))),
        (
            CLAUDE,
            "exceeds the number of toolUse blocks",
            called(json!([call("a")]), json!([result_a, result(json!({"toolUseId": "c"}))])),
        ),
        (
            CLAUDE,
            "exceeds the number of toolUse blocks",
            said(json!([hi, model(json!([result_a]))])),
        ),
        (
            CLAUDE,
            "The toolResult blocks at messages.2.content.1 contain duplicate Ids: a",
            called(json!([call("a")]), json!([result_a, result_a])),
        ),
        (
            CLAUDE,
            "The toolUse blocks at messages.1.content.1 contain duplicate Ids: a",
            called(json!([call("a"), call("a")]), json!([result_a])),
        ),
        (
            LLAMA,
            "cannot be provided in the same turn",
            called(json!([call("a")]), json!([result_a, text("So?")])),
        ),
        (
            CLAUDE,
            "cannot be provided in the same turn",
            called(json!([call("a")]), json!([result_a, text("So?"), document(json!({}))])),
        ),
        (
            CLAUDE,
            "cannot be empty when status value is error",
            called(json!([call("a")]), json!([result(json!({"status": "error", "content": []}))])),
        ),
        (
            PALMYRA,
            "doesn't support the status field",
            called(json!([call("a")]), json!([result(json!({"status": "success"}))])),
        ),
        (
            MISTRAL,
            "doesn't support the image field",
            called(json!([call("a")]), json!([result(json!({"content": [image("png")]}))])),
        ),
        (
            "meta.llama3-2-90b-instruct-v1%3A0",
            "doesn't support the image field",
            called(json!([call("a")]), json!([result(json!({"content": [image("png")]}))])),
        ),
        (LLAMA, "doesn't support the reasoningContent field", thought("hm", "s")),
        (CLAUDE, "thinking.signature: Field required", thought("hm", "")),
        (CLAUDE, "cannot be modified", thought("hm!", &own)),
        (GPT, "Unknown parameter: 'reasoning_effort'", more(json!({"reasoning_effort": "low"}))),
        (NOVA, "maxTokens cannot be used with", effort(json!({"maxTokens": 5}))),
        (NOVA, "topP cannot be used with", effort(json!({"topP": 1}))),
        (CLAUDE, "equal to 1024", thinking(1023, json!({}))),
        (
            CLAUDE,
            "`max_tokens` must be greater",
            thinking(1024, json!({"inferenceConfig": {"maxTokens": 1024}})),
        ),
        (
            CLAUDE,
            "`temperature` may only be set to 1",
            thinking(1024, json!({"inferenceConfig": {"temperature": 0.5}})),
        ),
        (
            CLAUDE,
            "forces tool use",
            with(
                thinking(1024, json!({})),
                json!({"toolConfig": chosen(json!({"any": {}}))["toolConfig"]}),
            ),
        ),
        (CLAUDE, "but found `toolUse`", unthinking),
        (CLAUDE, "must follow the blocks that are cached", asked(json!([point("5m"), text("a")]))),
        (NOVA, "extraneous key [cachePoint]", asked(json!([image("png"), point("5m")]))),
        (
            CLAUDE,
            "A maximum of 4 blocks",
            asked(json!([
                text("a"),
                point("5m"),
                point("5m"),
                point("5m"),
                point("5m"),
                point("5m")
            ])),
        ),
        (
            CLAUDE,
            "must not come after a ttl='5m'",
            asked(json!([text("a"), point("5m"), point("1h")])),
        ),
        (CLAUDE, "A text block must be included", asked(json!([document(json!({}))]))),
        (
            CLAUDE,
            "duplicate document names",
            asked(json!([document(json!({})), document(json!({})), text("?")])),
        ),
        (
            CLAUDE,
            "'format' beside 'messages.1.member.content.1.member.document.source'",
            asked(json!([document(json!({"format": null})), text("?")])),
        ),
        (CLAUDE, "the image appears to be a image/png image", asked(json!([image("jpeg")]))),
    ];
    let mut messages = Vec::new();
    for (model, expected, body) in cases {
        let check = |body: &Value| check_request(body, &route(model));
        messages.extend(check_refused(vec![(expected, body)], check, |error| {
            assert_eq!(error.status, 400);
            error.message
        }));
    }
    for (model, body) in [
        (MISTRAL, asked(json!([text("a"), point("5m")]))),
        (NOVA, asked(json!([text("a"), point("1h")]))),
    ] {
        let error = check_request(&body, &route(model)).unwrap_err();
        assert_eq!((error.status, error.exception.as_str()), (403, "AccessDeniedException"));
        messages.push(error.message);
    }
    for (bytes, found) in [("/9j/AAAA", "jpeg"), ("R0lGODlh", "gif"), ("UklGRgAA", "webp")] {
        let mut block = image("png");
        block["image"]["source"]["bytes"] = json!(bytes);
        let error = check_request(&asked(json!([block])), &route(CLAUDE)).unwrap_err();
        assert!(error.message.ends_with(&format!("a image/{found} image")), "{error}");
        messages.push(error.message);
    }
    check_coverage(&TABLE, &messages);
    let error = check_request(&json!([]), &route(CLAUDE)).unwrap_err();
    assert_eq!(error.exception, "SerializationException");
}
