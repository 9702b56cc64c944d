//! Checks bodies of Chat Completions requests against OpenAI's rules, each with the expected error text.

mod responses_api;

use serde_json::{Value, json};

use super::*;

/// Returns `body` with `fields` set in addition.
fn with(mut body: Value, fields: &Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn chat(fields: &Value) -> Value {
    let good = json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]});
    with(good, fields)
}

#[track_caller]
fn accepts(fields: Value) {
    assert_eq!(check_chat_request(&chat(&fields)), Ok(()));
}

/// Checks that a chat with `fields` gets a 400 with this code and this message.
#[track_caller]
fn refuses(fields: Value, code: &str, message: &str) {
    let error = check_chat_request(&chat(&fields)).unwrap_err();
    assert_eq!(error.message, message);
    assert_eq!(error.code.as_deref().unwrap_or("-"), code);
    assert_eq!((error.status, error.kind.as_str()), (400, "invalid_request_error"));
}

fn function(fields: &Value) -> Value {
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {}}});
    json!([{"type": "function", "function": with(function, fields)}])
}

fn calls(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let calls: Vec<Value> = ids.iter().map(call).collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "4"})
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

#[test]
fn valid_chats_are_accepted() {
    accepts(json!({}));
    accepts(json!({"temperature": 0.5, "max_tokens": 5, "stop": ["a", "b"], "seed": null}));
    accepts(json!({"tools": function(&json!({})), "tool_choice": "required"}));
    let named = json!({"type": "function", "function": {"name": "f"}});
    accepts(json!({"tools": function(&json!({"parameters": {}})), "tool_choice": named}));
    accepts(json!({"stream": true, "stream_options": {"include_usage": true}}));
    accepts(json!({"model": "gpt-5.4-mini", "temperature": 1, "max_completion_tokens": 5}));
    accepts(json!({"model": "gpt-5.4", "temperature": 0.5, "reasoning_effort": "none"}));
    accepts(json!({"model": "gpt-5.4", "tools": function(&json!({}))}));
    accepts(json!({
        "model": "gpt-5.6-sol", "tools": function(&json!({})), "reasoning_effort": "none",
    }));
    accepts(json!({"messages": [
        {"role": "developer", "content": [{"type": "text", "text": "be kind"}]},
        user(json!([
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "file", "file": {
                "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA",
            }},
        ])),
        calls(&["c1", "c2"]),
        result("c2"),
        result("c1"),
        {"role": "assistant", "content": "4", "refusal": null, "annotations": []},
        user(json!("thanks")),
    ]}));
    let schema = json!({
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["a"],
        "additionalProperties": false,
    });
    accepts(json!({"response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": true, "schema": schema},
    }}));
}

#[test]
fn lenient_server_accepts_unknown_parameters() {
    let body = chat(&json!({
        "model": "gpt-5.4-mini",
        "max_tokens": 5,
        "top_k": 3,
        "messages": [{"role": "assistant", "content": "hi", "thinking": "hm"}],
    }));
    assert!(check_chat_request(&body).is_err());
    assert_eq!(check_chat(&body, true), Ok(()));
    let broken = chat(&json!({"messages": [result("c1")]}));
    assert!(check_chat(&broken, true).is_err());
}

#[test]
fn invalid_parameters_are_rejected() {
    refuses(json!({"model": null}), "-", "you must provide a model parameter");
    refuses(json!({"max_token": 1}), "unknown_parameter", "Unknown parameter: 'max_token'.");
    refuses(
        json!({"messages": null}),
        "missing_required_parameter",
        "Missing required parameter: 'messages'.",
    );
    refuses(
        json!({"messages": []}),
        "empty_array",
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an \
         empty array instead.",
    );
    refuses(
        json!({"temperature": "hot"}),
        "invalid_type",
        "Invalid type for 'temperature': expected a decimal, but got a string instead.",
    );
    refuses(
        json!({"temperature": 3}),
        "decimal_above_max_value",
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 \
         instead.",
    );
    refuses(
        json!({"max_completion_tokens": 0}),
        "integer_below_min_value",
        "Invalid 'max_completion_tokens': integer below minimum value. Expected a value >= 1, but \
         got 0 instead.",
    );
    refuses(
        json!({"max_completion_tokens": 5, "max_tokens": 5}),
        "invalid_parameter_combination",
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
    );
    refuses(
        json!({"stop": ["a", "b", "c", "d", "e"]}),
        "array_above_max_length",
        "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array \
         with length 5 instead.",
    );
    refuses(
        json!({"stream_options": {"include_usage": true}}),
        "-",
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    );
    refuses(
        json!({"verbosity": "huge"}),
        "invalid_value",
        "Invalid value: 'huge'. Supported values are: 'low', 'medium', and 'high'.",
    );
}

#[test]
fn reasoning_models_reject_sampling_and_old_parameters() {
    refuses(
        json!({"model": "gpt-5.4-mini", "max_tokens": 5}),
        "unsupported_parameter",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
         'max_completion_tokens' instead.",
    );
    refuses(
        json!({"model": "gpt-5.4", "temperature": 0.5}),
        "unsupported_value",
        "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default \
         (1) value is supported.",
    );
    refuses(
        json!({"model": "o3", "top_p": 0.5}),
        "unsupported_parameter",
        "Unsupported parameter: 'top_p' is not supported with this model.",
    );
    refuses(
        json!({"model": "gpt-5.5", "stop": "END"}),
        "unsupported_parameter",
        "Unsupported parameter: 'stop' is not supported with this model.",
    );
    refuses(
        json!({"model": "o1-mini", "messages": [{"role": "developer", "content": "hi"}]}),
        "unsupported_value",
        "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
    );
    for body in [
        json!({"model": "gpt-5.4", "reasoning_effort": "low", "tools": function(&json!({}))}),
        json!({"model": "gpt-5.6-sol", "tools": function(&json!({}))}),
    ] {
        let model = body["model"].as_str().unwrap().to_owned();
        let message = format!(
            "Function tools with reasoning_effort are not supported for {model} in \
             /v1/chat/completions. To use function tools, use /v1/responses or set \
             reasoning_effort to 'none'."
        );
        refuses(body, "-", &message);
    }
}

#[test]
fn invalid_tools_are_rejected() {
    let refuses_tool = |fields: Value, code, message| {
        refuses(json!({"tools": function(&fields)}), code, message);
    };
    refuses_tool(
        json!({"name": "a b"}),
        "invalid_value",
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that \
         matches the pattern '^[a-zA-Z0-9_-]+$'.",
    );
    refuses_tool(
        json!({"name": "x".repeat(65)}),
        "string_above_max_length",
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length \
         64, but got a string with length 65 instead.",
    );
    refuses_tool(
        json!({"input_schema": {}}),
        "unknown_parameter",
        "Unknown parameter: 'tools[0].function.input_schema'.",
    );
    refuses_tool(
        json!({"parameters": {"type": "string"}}),
        "invalid_function_parameters",
        "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got \
         'type: \"string\"'.",
    );
    refuses_tool(
        json!({"parameters": {"type": "object"}}),
        "invalid_function_parameters",
        "Invalid schema for function 'f': In context=(), object schema missing properties.",
    );
    let nested = json!({"type": "object", "properties": {"b": {"type": "string"}}});
    refuses_tool(
        json!({"strict": true, "parameters": {
            "type": "object",
            "properties": {"a": nested},
            "required": ["a"],
            "additionalProperties": false,
        }}),
        "invalid_function_parameters",
        "Invalid schema for function 'f': In context=('properties', 'a'), 'additionalProperties' is \
         required to be supplied and to be false.",
    );
    refuses_tool(
        json!({"strict": true, "parameters": with(nested, &json!({"additionalProperties": false}))}),
        "invalid_function_parameters",
        "Invalid schema for function 'f': In context=(), 'required' is required to be supplied and \
         to be an array including every key in properties. Missing 'b'.",
    );
    refuses(
        json!({"tools": [{"type": "function", "name": "f"}]}),
        "unknown_parameter",
        "Unknown parameter: 'tools[0].name'.",
    );
    for key in ["tool_choice", "parallel_tool_calls"] {
        let value = if key == "tool_choice" { json!("auto") } else { json!(false) };
        let message = format!(
            "Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified."
        );
        refuses(json!({key: value}), "-", &message);
    }
    refuses(
        json!({
            "tools": function(&json!({})),
            "tool_choice": {"type": "function", "function": {"name": "g"}},
        }),
        "-",
        "Tool choice 'function' 'g' not found in 'tools' parameter.",
    );
    refuses(
        json!({"tools": function(&json!({})), "tool_choice": "any"}),
        "invalid_value",
        "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
    );
}

#[test]
fn calls_without_results_and_results_without_calls_are_rejected() {
    let refuses_messages = |messages: Value, param: &str, message: &str| {
        let error = check_chat_request(&chat(&json!({"messages": messages}))).unwrap_err();
        assert_eq!((error.message.as_str(), error.param.as_deref()), (message, Some(param)));
    };
    let missing = "An assistant message with 'tool_calls' must be followed by tool messages \
                   responding to each 'tool_call_id'. The following tool_call_ids did not have \
                   response messages: ";
    let hi = user(json!("hi"));
    refuses_messages(
        json!([hi, calls(&["a", "b"])]),
        "messages.[1].role",
        &format!("{missing}a, b"),
    );
    refuses_messages(
        json!([hi, calls(&["a", "b"]), result("a"), hi, result("b")]),
        "messages.[3].role",
        &format!("{missing}b"),
    );
    let orphan = "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                  message with 'tool_calls'.";
    refuses_messages(json!([hi, result("a")]), "messages.[1].role", orphan);
    refuses_messages(
        json!([hi, calls(&["a"]), result("a"), hi, result("a")]),
        "messages.[4].role",
        orphan,
    );
    refuses_messages(
        json!([hi, calls(&["a"]), result("x")]),
        "messages.[2].tool_call_id",
        "Invalid parameter: 'tool_call_id' of 'x' not found in 'tool_calls' of previous message.",
    );
}

#[test]
fn invalid_messages_are_rejected() {
    let refuses_message = |message: Value, code, expected| {
        refuses(json!({"messages": [message]}), code, expected);
    };
    refuses_message(
        json!({"role": "bot", "content": "hi"}),
        "invalid_value",
        "Invalid value: 'bot'. Supported values are: 'system', 'assistant', 'user', 'function', \
         'tool', and 'developer'.",
    );
    refuses_message(
        user(Value::Null),
        "-",
        "Invalid value for 'content': expected a string, got null.",
    );
    refuses_message(
        json!({"role": "assistant"}),
        "missing_required_parameter",
        "Missing required parameter: 'messages[0].content'.",
    );
    refuses_message(
        user(json!({"text": "hi"})),
        "invalid_type",
        "Invalid type for 'messages[0].content': expected one of a string or array of objects, but \
         got an object instead.",
    );
    refuses_message(
        user(json!([{"type": "image", "image": "x"}])),
        "invalid_value",
        "Invalid value: 'image'. Supported values are: 'text', 'image_url', 'input_audio', \
         'refusal', 'audio', and 'file'.",
    );
    refuses_message(
        user(json!([{"type": "image_url", "image_url": "https://x"}])),
        "invalid_type",
        "Invalid type for 'messages[0].content[0].image_url': expected an object, but got a string \
         instead.",
    );
    refuses_message(
        user(json!([{"type": "image_url", "image_url": {"url": "data:text/plain;base64,AAAA"}}])),
        "invalid_value",
        "Invalid 'messages[0].content[0].image_url.url': Expected a base64-encoded data URL with \
         an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got \
         unsupported MIME type 'text/plain'.",
    );
    let image = json!([{"type": "image_url", "image_url": {"url": "https://x"}}]);
    refuses_message(
        json!({"role": "tool", "tool_call_id": "a", "content": image}),
        "invalid_value",
        "Invalid 'messages[0]'. Image URLs are only allowed for messages with role 'user', but \
         this message with role 'tool' contains an image URL.",
    );
    refuses_message(
        json!({"role": "assistant", "content": "hi", "thinking": "hm"}),
        "unknown_parameter",
        "Unknown parameter: 'messages[0].thinking'.",
    );
    let long = "x".repeat(41);
    refuses_message(
        calls(&[&long]),
        "string_above_max_length",
        "Invalid 'messages[0].tool_calls[0].id': string too long. Expected a string with maximum \
         length 40, but got a string with length 41 instead.",
    );
    let mut objects = calls(&["a"]);
    objects["tool_calls"][0]["function"]["arguments"] = json!({});
    refuses_message(
        objects,
        "invalid_type",
        "Invalid type for 'messages[0].tool_calls[0].function.arguments': expected a string, but \
         got an object instead.",
    );
    refuses_message(
        json!({"role": "assistant", "content": "hi", "tool_calls": []}),
        "empty_array",
        "Invalid 'messages[0].tool_calls': empty array. Expected an array with minimum length 1, \
         but got an empty array instead.",
    );
}

#[test]
fn invalid_response_formats_are_rejected() {
    let refuses_format = |format: Value, code, message| {
        refuses(json!({"response_format": format}), code, message);
    };
    refuses_format(
        json!({"type": "json"}),
        "invalid_value",
        "Invalid value: 'json'. Supported values are: 'json_object', 'json_schema', and 'text'.",
    );
    refuses_format(
        json!({"type": "json_object"}),
        "-",
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type \
         'json_object'.",
    );
    refuses_format(
        json!({"type": "json_schema"}),
        "missing_required_parameter",
        "Missing required parameter: 'response_format.json_schema'.",
    );
    refuses_format(
        json!({"type": "json_schema", "json_schema": {"schema": {}}}),
        "missing_required_parameter",
        "Missing required parameter: 'response_format.json_schema.name'.",
    );
    let schema = json!({"type": "object", "properties": {}});
    refuses_format(
        json!({"type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": schema}}),
        "invalid_json_schema",
        "Invalid schema for response_format 'a': In context=(), 'additionalProperties' is required \
         to be supplied and to be false.",
    );
}

#[test]
fn shapes_file_follows_the_grammar() {
    crate::shape::tests::check_shapes(wording::Wording { is_lenient: false }, &[]);
}
