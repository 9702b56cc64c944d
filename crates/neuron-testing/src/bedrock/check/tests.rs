//! Checks request bodies against Bedrock's rules, each with the expected error text.

mod conversations;
mod media;

use serde_json::json;

use super::*;
use crate::shape::tests::check_shapes;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0";
const NOVA: &str = "amazon.nova-pro-v1%3A0";
const LLAMA: &str = "meta.llama4-scout-17b-instruct-v1%3A0";
const MISTRAL: &str = "mistral.mistral-large-2407-v1%3A0";

fn route(model: &str) -> Route {
    Route::parse(&format!("/model/{model}/converse")).unwrap()
}

fn with(fields: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[track_caller]
fn accepts_at(model: &str, fields: Value) {
    assert_eq!(check_request(&with(fields), &route(model)), Ok(()), "{model}");
}

#[track_caller]
fn accepts(fields: Value) {
    for model in [CLAUDE, "the-model"] {
        accepts_at(model, fields.clone());
    }
}

#[track_caller]
fn fails_at(model: &str, fields: Value, status: u16, exception: &str, expected: &str) {
    let error = check_request(&with(fields), &route(model)).unwrap_err();
    assert_eq!((error.status, error.exception.as_str()), (status, exception));
    assert_eq!(error.message, expected);
}

#[track_caller]
fn refuses_at(model: &str, fields: Value, expected: &str) {
    fails_at(model, fields, 400, "ValidationException", expected);
}

#[track_caller]
fn refuses(fields: Value, expected: &str) {
    refuses_at(CLAUDE, fields, expected);
}

#[track_caller]
fn claude_refuses(fields: Value, expected: &str) {
    refuses(fields, &format!("The model returned the following errors: {expected}"));
}

/// Checks a constraint of the service model. `place` is the place as Bedrock prints it, with the value if it has one.
#[track_caller]
fn breaks(fields: Value, place: &str, constraint: &str) {
    let expected = format!(
        "1 validation error detected: Value {place} failed to satisfy constraint: {constraint}"
    );
    refuses(fields, &expected);
}

#[track_caller]
fn mistypes(fields: Value, expected: &str) {
    fails_at(CLAUDE, fields, 400, "SerializationException", expected);
}

fn tools(spec: Value) -> Value {
    json!({"toolConfig": {"tools": [{"toolSpec": spec}]}})
}

fn chosen(choice: Value) -> Value {
    let spec = json!({"name": "now", "inputSchema": {"json": {"type": "object"}}});
    json!({"toolConfig": {"tools": [{"toolSpec": spec}], "toolChoice": choice}})
}

#[test]
fn every_shape_has_known_kinds() {
    check_shapes(Wording, &["places"]);
}

#[test]
fn valid_requests_are_accepted() {
    accepts(json!({}));
    accepts(json!({"system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]}));
    accepts(json!({"inferenceConfig": {
        "maxTokens": 1, "temperature": 0.5, "topP": 1, "stopSequences": ["END"],
    }}));
    accepts(json!({
        "additionalModelRequestFields": {"thinking": {"type": "adaptive"}, "top_k": 4},
        "additionalModelResponseFieldPaths": ["/stop_sequence"],
        "performanceConfig": {"latency": "optimized"},
        "serviceTier": {"type": "flex"},
        "requestMetadata": {"team": "a"},
        "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1", "trace": "enabled"},
        "toolConfig": null,
    }));
    let schema = json!({"jsonSchema": {"schema": "{\"type\":\"object\"}", "name": "city"}});
    let format = json!({"type": "json_schema", "structure": schema});
    accepts(json!({"outputConfig": {"textFormat": format, "effort": "low"}}));
    accepts_at(LLAMA, json!({"additionalModelRequestFields": {"anything": [1]}}));
    accepts_at("arn:aws:bedrock:eu-west-1:123456789012:prompt%2FABC", json!({"messages": []}));
}

#[test]
fn unknown_fields_are_rejected() {
    let unknown = |place: &str, key: &str| {
        format!(
            "Malformed input request: {place}: extraneous key [{key}] is not permitted, please \
             reformat your input and try again."
        )
    };
    refuses(json!({"max_tokens": 5}), &unknown("#", "max_tokens"));
    refuses(json!({"inferenceConfig": {"topK": 5}}), &unknown("#/inferenceConfig", "topK"));
    let block = json!({"text": "hi", "cacheControl": {}});
    refuses(
        json!({"messages": [{"role": "user", "content": [block]}]}),
        &unknown("#/messages/0/content/0", "cacheControl"),
    );
    let two = json!({"text": "hi", "image": {"format": "png", "source": {"bytes": "AAAA"}}});
    refuses(
        json!({"messages": [{"role": "user", "content": [two]}]}),
        &unknown("#/messages/0/content/0", "image"),
    );
    refuses(
        json!({"additionalModelRequestFields": {"topK": 5}}),
        &unknown("#/additionalModelRequestFields", "topK"),
    );
    let mode = json!({"guardrailConfig": {"streamProcessingMode": "sync"}});
    refuses(mode.clone(), &unknown("#/guardrailConfig", "streamProcessingMode"));
    let streamed = Route::parse("/model/m/converse-stream").unwrap();
    assert_eq!(check_request(&with(mode), &streamed), Ok(()));
}

#[test]
fn missing_fields_and_wrong_values_are_rejected() {
    let null = "Member must not be null";
    breaks(json!({"messages": [{"role": "user"}]}), "null at 'messages.1.member.content'", null);
    breaks(
        json!({"messages": [{"role": "user", "content": [{}]}]}),
        "null at 'messages.1.member.content.1.member'",
        null,
    );
    breaks(json!({"toolConfig": {}}), "null at 'toolConfig.tools'", null);
    breaks(
        json!({"messages": [{"role": "tool", "content": []}]}),
        "'tool' at 'messages.1.member.role'",
        "Member must satisfy enum value set: [user, assistant, system]",
    );
    breaks(
        json!({"inferenceConfig": {"maxTokens": 0}}),
        "'0' at 'inferenceConfig.maxTokens'",
        "Member must have value greater than or equal to 1",
    );
    breaks(
        json!({"inferenceConfig": {"temperature": 1.5}}),
        "'1.5' at 'inferenceConfig.temperature'",
        "Member must have value less than or equal to 1",
    );
    breaks(
        json!({"inferenceConfig": {"stopSequences": vec!["a"; 2501]}}),
        "at 'inferenceConfig.stopSequences'",
        "Member must have length less than or equal to 2500",
    );
    let nonempty = "Member must have length greater than or equal to 1";
    breaks(
        json!({"inferenceConfig": {"stopSequences": ["a", ""]}}),
        "at 'inferenceConfig.stopSequences.2.member'",
        nonempty,
    );
    breaks(json!({"system": [{"text": ""}]}), "at 'system.1.member.text'", nonempty);
    breaks(json!({"requestMetadata": {}}), "at 'requestMetadata'", nonempty);
    let metadata: serde_json::Map<String, Value> =
        (0..17).map(|index| (format!("k{index}"), "v".into())).collect();
    breaks(
        json!({"requestMetadata": metadata}),
        "at 'requestMetadata'",
        "Member must have length less than or equal to 16",
    );
    breaks(
        json!({"serviceTier": {"type": "auto"}}),
        "'auto' at 'serviceTier.type'",
        "Member must satisfy enum value set: [priority, default, flex, reserved]",
    );
}

#[test]
fn values_of_another_type_are_rejected() {
    mistypes(
        json!({"inferenceConfig": {"maxTokens": "5"}}),
        "STRING_VALUE can not be converted to an Integer",
    );
    mistypes(
        json!({"inferenceConfig": {"topP": true}}),
        "TRUE_VALUE can not be converted to a Float",
    );
    mistypes(json!({"system": "Be brief."}), "Unexpected field type");
    mistypes(json!({"system": {}}), "Start of structure or map found where not expected.");
    mistypes(json!({"inferenceConfig": []}), "Start of list found where not expected");
    mistypes(
        json!({"messages": [{"role": "user", "content": [{"text": 5}]}]}),
        "NUMBER_VALUE can not be converted to a String",
    );
    mistypes(
        json!({"requestMetadata": {"a": false}}),
        "FALSE_VALUE can not be converted to a String",
    );
    let error = check_request(&json!([]), &route(CLAUDE)).unwrap_err();
    assert_eq!(error.exception, "SerializationException");
}

#[test]
fn claude_rejects_whitespace_in_settings() {
    claude_refuses(
        json!({"inferenceConfig": {"stopSequences": [" "]}}),
        "stop_sequences: each stop sequence must contain non-whitespace",
    );
    claude_refuses(
        json!({"system": [{"text": "\n"}]}),
        "system: text content blocks must contain non-whitespace text",
    );
    accepts_at(NOVA, json!({"inferenceConfig": {"stopSequences": [" "]}}));
}

#[test]
fn schema_of_the_output_is_a_text_with_json() {
    let format = |schema: &str| {
        let structure = json!({"jsonSchema": {"schema": schema}});
        json!({"outputConfig": {"textFormat": {"type": "json_schema", "structure": structure}}})
    };
    for schema in ["", "{", "[]", "\"object\""] {
        refuses(
            format(schema),
            "The value at outputConfig.textFormat.structure.jsonSchema.schema is not a valid JSON \
             schema.",
        );
    }
    accepts(format("{}"));
}

#[test]
fn valid_tools_are_accepted() {
    let cache = json!({"cachePoint": {"type": "default"}});
    let spec = json!({
        "name": "a-B_1", "description": "d", "inputSchema": {"json": {"type": "object"}},
        "strict": true,
    });
    accepts(json!({"toolConfig": {"tools": [{"toolSpec": spec}, cache]}}));
    accepts(json!({"toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}}));
    for choice in [json!({"auto": {}}), json!({"any": {}}), json!({"tool": {"name": "now"}})] {
        accepts(chosen(choice.clone()));
        accepts_at(NOVA, chosen(choice.clone()));
        accepts_at("global.openai.gpt-6-sol", chosen(choice));
    }
    accepts_at(LLAMA, chosen(json!({"auto": {}})));
    accepts_at(MISTRAL, chosen(json!({"any": {}})));
}

#[test]
fn invalid_tools_are_rejected() {
    let schema = json!({"json": {"type": "object"}});
    let spec = |name: &str| json!({"name": name, "inputSchema": schema});
    breaks(
        json!({"toolConfig": {"tools": []}}),
        "at 'toolConfig.tools'",
        "Member must have length greater than or equal to 1",
    );
    for name in ["a b", "a.b", "é"] {
        breaks(
            tools(spec(name)),
            "at 'toolConfig.tools.1.member.toolSpec.name'",
            "Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+",
        );
    }
    breaks(
        tools(spec(&"a".repeat(65))),
        "at 'toolConfig.tools.1.member.toolSpec.name'",
        "Member must have length less than or equal to 64",
    );
    breaks(
        tools(json!({"name": "f", "description": "", "inputSchema": schema})),
        "at 'toolConfig.tools.1.member.toolSpec.description'",
        "Member must have length greater than or equal to 1",
    );
    breaks(
        tools(json!({"name": "f"})),
        "null at 'toolConfig.tools.1.member.toolSpec.inputSchema'",
        "Member must not be null",
    );
    for schema in [json!({}), json!({"type": "array"})] {
        refuses(
            tools(json!({"name": "f", "inputSchema": {"json": schema}})),
            "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the \
             following: object.",
        );
    }
    let twice = json!([{"toolSpec": spec("f")}, {"toolSpec": spec("f")}]);
    refuses(
        json!({"toolConfig": {"tools": twice}}),
        "The tool f is already defined at toolConfig.tools.",
    );
    refuses(
        json!({"toolConfig": {"tools": [{"cachePoint": {"type": "default"}}]}}),
        "The toolConfig field must have at least one tool.",
    );
}

#[test]
fn choice_names_a_tool_and_is_supported_by_the_model() {
    claude_refuses(
        chosen(json!({"tool": {"name": "other"}})),
        "Tool 'other' not found in provided tools",
    );
    let unsupported = |field: &str| {
        format!("This model doesn't support the {field} field. Remove {field} and try again.")
    };
    refuses_at(LLAMA, chosen(json!({"any": {}})), &unsupported("toolConfig.toolChoice.any"));
    let tool = json!({"tool": {"name": "now"}});
    refuses_at(MISTRAL, chosen(tool), &unsupported("toolConfig.toolChoice.tool"));
    refuses(
        chosen(json!({"none": {}})),
        "Malformed input request: #/toolConfig/toolChoice: extraneous key [none] is not permitted, \
         please reformat your input and try again.",
    );
    let mut both = chosen(json!({"auto": {}}));
    both["additionalModelRequestFields"] = json!({"tool_choice": {"type": "none"}});
    refuses(
        both,
        "The additional field tool_choice conflicts with the existing field toolConfig.toolChoice.",
    );
}

#[test]
fn thinking_of_claude_has_a_budget_and_forces_no_tool() {
    let thinking = |budget: u32, others: Value| {
        let mut fields = others;
        let enabled = json!({"type": "enabled", "budget_tokens": budget});
        fields["additionalModelRequestFields"] = json!({"thinking": enabled});
        fields
    };
    accepts(thinking(1024, json!({"inferenceConfig": {"maxTokens": 1025}})));
    accepts(thinking(1024, chosen(json!({"auto": {}}))));
    accepts_at(NOVA, thinking(1, chosen(json!({"any": {}}))));
    claude_refuses(
        thinking(1023, json!({})),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    );
    claude_refuses(
        thinking(1024, json!({"inferenceConfig": {"maxTokens": 1024}})),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    );
    claude_refuses(
        thinking(1024, json!({"inferenceConfig": {"temperature": 0.5}})),
        "`temperature` may only be set to 1 when thinking is enabled.",
    );
    claude_refuses(
        thinking(1024, chosen(json!({"any": {}}))),
        "Thinking may not be enabled when tool_choice forces tool use.",
    );
    claude_refuses(
        json!({"additionalModelRequestFields": {"thinking": {"type": "on"}}}),
        "thinking: Input tag does not match any of the expected tags: 'adaptive', 'disabled', \
         'enabled'",
    );
}

#[test]
fn turn_of_claude_with_a_budget_begins_with_reasoning() {
    let called = |blocks: Value| {
        let result = json!({"toolResult": {"toolUseId": "a", "content": [{"text": "1"}]}});
        let messages = json!([
            {"role": "user", "content": [{"text": "hi"}]},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result]},
        ]);
        let mut fields = chosen(json!({"auto": {}}));
        fields["messages"] = messages;
        fields["additionalModelRequestFields"] =
            json!({"thinking": {"type": "enabled", "budget_tokens": 1024}});
        fields
    };
    let call = json!({"toolUse": {"toolUseId": "a", "name": "look", "input": {}}});
    let thought = json!({"reasoningContent": {"redactedContent": "AAAA"}});
    accepts_at(CLAUDE, called(json!([thought, call])));
    accepts_at(NOVA, called(json!([call])));
    let mut ended = called(json!([call]));
    ended["messages"][2]["content"].as_array_mut().unwrap().push(json!({"text": "and?"}));
    accepts_at(CLAUDE, ended);
    claude_refuses(
        called(json!([call])),
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` \
         is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of \
         `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid \
         this requirement, disable `thinking`.",
    );
}

#[test]
fn thinking_of_other_models_has_rules() {
    let nova = "global.amazon.nova-2-lite-v1%3A0";
    let effort = |effort: &str, config: Value| {
        let fields = json!({"type": "enabled", "maxReasoningEffort": effort});
        json!({
            "additionalModelRequestFields": {"reasoningConfig": fields}, "inferenceConfig": config,
        })
    };
    accepts_at(nova, effort("high", json!({"stopSequences": ["END"]})));
    for (name, value) in [("maxTokens", json!(5)), ("temperature", json!(1)), ("topP", json!(1))] {
        let expected = format!(
            "The model returned the following errors: {name} cannot be used with maxReasoningEffort \
             set to high."
        );
        refuses_at(nova, effort("high", json!({ name: value })), &expected);
        accepts_at(nova, effort("medium", json!({ name: value })));
    }
    let flat = json!({"additionalModelRequestFields": {"reasoning_effort": "low"}});
    accepts_at("openai.gpt-oss-120b-1%3A0", flat.clone());
    refuses_at(
        "global.openai.gpt-5.6-sol",
        flat,
        "The model returned the following errors: Unknown parameter: 'reasoning_effort'.",
    );
}

#[test]
fn prompt_defines_some_fields_itself() {
    let prompt = "arn:aws:bedrock:eu-west-1:123456789012:prompt%2FABC%3A1";
    accepts_at(prompt, json!({"promptVariables": {"name": {"text": "Ada"}}}));
    for (field, fields) in [
        ("inferenceConfig", json!({"inferenceConfig": {"maxTokens": 1}})),
        ("system", json!({"system": [{"text": "a"}]})),
        ("toolConfig", chosen(json!({"auto": {}}))),
        ("additionalModelRequestFields", json!({"additionalModelRequestFields": {"top_k": 4}})),
    ] {
        let expected = format!(
            "You can't include the {field} field in a request with a prompt from Prompt management. \
             Remove {field} and try again."
        );
        refuses_at(prompt, fields, &expected);
    }
}
