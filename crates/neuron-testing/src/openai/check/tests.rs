//! Checks right bodies, and bodies that break one rule each.

use serde_json::{Value, json};

use super::*;
use crate::checker::tests::{check_coverage, check_refused, check_shapes, with};

fn chat(fields: Value) -> Value {
    let messages = json!([{"role": "user", "content": "hi"}]);
    with(json!({"model": "gpt-4.1", "messages": messages}), fields)
}

fn said(messages: Value) -> Value {
    chat(json!({"messages": messages}))
}

fn responses(fields: Value) -> Value {
    with(json!({"model": "gpt-5.4-mini", "input": "hi"}), fields)
}

fn embeddings(fields: Value) -> Value {
    with(json!({"model": "text-embedding-3-small", "input": "hi"}), fields)
}

fn object(fields: Value) -> Value {
    let schema = json!({
        "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false,
    });
    with(schema, fields)
}

fn function(fields: Value) -> Value {
    with(json!({"name": "f", "parameters": {"type": "object", "properties": {}}}), fields)
}

fn chat_tools(fields: Value) -> Value {
    json!([{"type": "function", "function": function(fields)}])
}

fn tool(fields: Value) -> Value {
    with(with(function(json!({})), json!({"type": "function", "strict": false})), fields)
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn calls(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let calls: Vec<Value> = ids.iter().map(call).collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "4"})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "f", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "4"})
}

fn reasoning(fields: Value) -> Value {
    with(
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}),
        fields,
    )
}

fn answer() -> Value {
    json!({"role": "assistant", "content": "hm"})
}

/// What a search has found: the function `f`, in a namespace of its own.
fn found() -> Value {
    let tools = json!([tool(json!({"defer_loading": true}))]);
    json!({"type": "tool_search_output", "execution": "server", "tools": tools})
}

#[test]
fn each_field_has_its_kind() {
    check_shapes(&TABLE, false);
}

#[test]
fn right_chats_are_accepted() {
    let hi = user(json!("hi"));
    let parts = json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
    ]);
    let whole = json!([
        {"role": "developer", "content": [{"type": "text", "text": "be kind"}]},
        user(parts),
        calls(&["c1", "c2"]),
        result("c2"),
        result("c1"),
        {"role": "assistant", "content": "4", "refusal": null, "annotations": []},
        calls(&["c1"]),
        result("c1"),
        {"role": "assistant", "content": null, "refusal": "no"},
    ]);
    let named = json!({"type": "function", "function": {"name": "f"}});
    let nullable =
        object(json!({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}));
    let format = |strict: bool, schema: Value| {
        let named = json!({"name": "a", "strict": strict, "schema": schema});
        json!({"response_format": {"type": "json_schema", "json_schema": named}})
    };
    for right in [
        chat(json!({"temperature": 0.5, "max_tokens": 5, "stop": ["a", "b"], "seed": null})),
        chat(json!({"tools": chat_tools(json!({"parameters": {}})), "tool_choice": "required"})),
        chat(json!({"tools": chat_tools(json!({})), "tool_choice": named})),
        chat(
            json!({"tools": chat_tools(json!({"strict": true, "parameters": object(json!({}))}))}),
        ),
        chat(json!({"stream": true, "stream_options": {"include_usage": true}})),
        chat(json!({"model": "gpt-5.4-mini", "temperature": 1, "max_completion_tokens": 5})),
        chat(json!({"model": "gpt-5-chat", "temperature": 0, "max_tokens": 5})),
        chat(json!({"model": "gpt-5.4", "temperature": 0.5, "reasoning_effort": "none"})),
        chat(json!({"model": "gpt-5.4", "tools": chat_tools(json!({}))})),
        chat(
            json!({"model": "gpt-5.6", "tools": chat_tools(json!({})), "reasoning_effort": "none"}),
        ),
        chat(
            json!({"response_format": {"type": "json_object"}, "messages": [user(json!("JSON, please"))]}),
        ),
        chat(format(true, nullable)),
        chat(format(false, json!({"type": "object"}))),
        said(json!([hi, calls(&["a"]), result("a"), hi])),
        said(whole),
    ] {
        assert_eq!(check_chat_request(&right), Ok(()), "{right}");
    }
}

#[test]
fn lenient_server_accepts_unknown_parameters() {
    let thinking = json!([{"role": "assistant", "content": "hi", "thinking": "hm"}]);
    let body =
        chat(json!({"model": "gpt-5.4-mini", "max_tokens": 5, "top_k": 3, "messages": thinking}));
    assert!(check_chat_request(&body).is_err());
    assert_eq!(check_chat(&body, true), Ok(()));
    assert!(check_chat(&said(json!([result("c1")])), true).is_err());
    assert_eq!(check_responses(&responses(json!({"temperature": 0, "n": 1})), true), Ok(()));
    assert_eq!(check_embeddings(&embeddings(json!({"truncate": true})), true), Ok(()));
}

#[test]
fn right_responses_and_embeddings_are_accepted() {
    let image =
        json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"});
    let text = json!([{"type": "output_text", "text": "hm", "annotations": []}]);
    let items = json!([
        {"role": "developer", "content": "be kind"},
        user(json!([{"type": "input_text", "text": "look"}, image])),
        reasoning(json!({})),
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": text},
        call("a"),
        call("b"),
        output("b"),
        output("a"),
        {"type": "web_search_call", "id": "ws_1"},
    ]);
    let deferred = tool(json!({"defer_loading": true}));
    let (search, client) =
        (json!({"type": "tool_search"}), json!({"type": "tool_search", "execution": "client"}));
    let namespace = json!({"type": "namespace", "name": "n", "tools": [deferred]});
    let within = with(call("a"), json!({"namespace": "f"}));
    let bare = tool(json!({"parameters": null, "strict": null}));
    let tools = [
        bare.as_object().unwrap().clone(),
        json!({"type": "web_search"}).as_object().unwrap().clone(),
    ];
    let mut nulls = json!({"tools": tools, "tool_choice": {"type": "function", "name": "f"}});
    nulls["tools"][0]["parameters"] = Value::Null;
    nulls["tools"][0]["strict"] = Value::Null;
    for right in [
        responses(
            json!({"store": false, "input": items, "max_output_tokens": 16, "text": {"format": {"type": "text"}}}),
        ),
        responses(json!({"previous_response_id": "resp_1", "input": [output("a")]})),
        responses(json!({"previous_response_id": "resp_1", "input": null})),
        responses(json!({"input": [reasoning(json!({"encrypted_content": null})), answer()]})),
        responses(nulls),
        responses(
            json!({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}),
        ),
        responses(json!({"tools": [search, deferred]})),
        responses(json!({"tools": [search, namespace]})),
        responses(json!({"tools": [client, tool(json!({}))]})),
        responses(json!({"tools": [search, deferred], "input": [found(), within, output("a")]})),
        responses(json!({"tools": [tool(json!({}))], "input": [found(), call("a"), output("a")]})),
        responses(json!({"model": "gpt-4.1", "temperature": 0})),
    ] {
        assert_eq!(check_responses_request(&right), Ok(()), "{right}");
    }
    for right in
        [json!({}), json!({"input": ["a", "b"]}), json!({"input": [[1, 2]], "dimensions": 2})]
    {
        assert_eq!(check_embeddings_request(&embeddings(right)), Ok(()));
    }
}

#[test]
fn wrong_requests_are_refused() {
    let hi = user(json!("hi"));
    let strict = |schema: Value| {
        chat(json!({"tools": chat_tools(json!({"strict": true, "parameters": schema}))}))
    };
    let image = json!([{"type": "image_url", "image_url": {"url": "https://x"}}]);
    let open = "In context=('properties', 'a'), 'additionalProperties'";
    let cases = vec![
        ("Missing required parameter: 'messages'.", chat(json!({"messages": null}))),
        (
            "Unknown parameter: 'messages[0].thinking'.",
            said(json!([with(hi.clone(), json!({"thinking": "a"}))])),
        ),
        ("expected a value of type decimal, but got string", chat(json!({"temperature": "hot"}))),
        ("Supported values are: low, medium, high.", chat(json!({"verbosity": "huge"}))),
        ("Invalid value: 'bot'", said(json!([{"role": "bot", "content": "hi"}]))),
        (
            "Supported values are: text.",
            said(json!([with(result("a"), json!({"content": image}))])),
        ),
        ("Expected a value >= 1, but got 0", chat(json!({"max_tokens": 0}))),
        ("Expected a value <= 2, but got 3", chat(json!({"temperature": 3}))),
        ("Invalid 'messages': empty array.", said(json!([]))),
        (
            "Invalid 'messages[0].tool_calls[0].id': string too long.",
            said(json!([calls(&[&"x".repeat(41)])])),
        ),
        (
            "string does not match pattern",
            chat(json!({"tools": chat_tools(json!({"name": "a b"}))})),
        ),
        ("expected a string, got null", said(json!([{"role": "assistant", "content": null}]))),
        ("did not have response messages: a, b", said(json!([hi, calls(&["a", "b"])]))),
        (
            "did not have response messages: b",
            said(json!([hi, calls(&["a", "b"]), result("a"), hi, result("b")])),
        ),
        (
            "did not have response messages: a",
            said(json!([hi, calls(&["a"]), calls(&["b"]), result("a"), result("b")])),
        ),
        ("'tool_call_id' of 'a' not found", said(json!([hi, result("a")]))),
        (
            "'tool_call_id' of 'a' not found",
            said(json!([hi, calls(&["a"]), result("a"), hi, result("a")])),
        ),
        ("ids must be unique", said(json!([hi, calls(&["a", "a"]), result("a")]))),
        (
            "Tool choice 'function' 'g' not found",
            chat(
                json!({"tools": chat_tools(json!({})), "tool_choice": {"type": "function", "function": {"name": "g"}}}),
            ),
        ),
        (
            "Tool choice 'custom' 'g'",
            chat(json!({
                "tools": [{"type": "custom", "custom": {"name": "c"}}], "tool_choice": {"type": "custom", "custom": {"name": "g"}},
            })),
        ),
        ("must contain the word 'json'", chat(json!({"response_format": {"type": "json_object"}}))),
        ("you must provide a model", chat(json!({"model": null}))),
        ("you must provide a model", chat(json!({"model": ""}))),
        (
            "at the same time is not supported",
            chat(json!({"max_completion_tokens": 5, "max_tokens": 5})),
        ),
        ("so 'n' must be 1", chat(json!({"n": 2}))),
        (
            "only allowed when 'stream' is enabled",
            chat(json!({"stream_options": {"include_usage": true}})),
        ),
        ("'tool_choice' is only allowed when 'tools'", chat(json!({"tool_choice": "auto"}))),
        (
            "'parallel_tool_calls' is only allowed when 'tools'",
            chat(json!({"parallel_tool_calls": false})),
        ),
        (
            "Invalid value: 'any'",
            chat(json!({"tools": chat_tools(json!({})), "tool_choice": "any"})),
        ),
        (
            "schema must be a JSON Schema of",
            chat(json!({"tools": chat_tools(json!({"parameters": {"type": "string"}}))})),
        ),
        (
            "object schema missing properties",
            chat(json!({"tools": chat_tools(json!({"parameters": {"type": "object"}}))})),
        ),
        (open, strict(object(json!({"properties": {"a": {"type": "object", "properties": {}}}})))),
        (open, strict(object(json!({"properties": {"a": {"type": ["object", "null"]}}})))),
        (
            "In context=('items', 'anyOf', '0')",
            strict(object(json!({"items": {"anyOf": [{"type": "object"}]}}))),
        ),
        ("Missing 'a'.", strict(object(json!({"required": []})))),
        (
            "'response_format.json_schema.schema': In context=('')",
            chat(json!({"response_format": {
                "type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": object(json!({"additionalProperties": true}))},
            }})),
        ),
        (
            "Use 'max_completion_tokens' instead",
            chat(json!({"model": "gpt-5.4-mini", "max_tokens": 5})),
        ),
        (
            "'stop' is not supported with this model",
            chat(json!({"model": "gpt-5.5", "stop": "END"})),
        ),
        (
            "'temperature' does not support 0.5",
            chat(json!({"model": "gpt-5.4", "temperature": 0.5})),
        ),
        (
            "'top_p' does not support 0.5",
            chat(json!({"model": "o3", "top_p": 0.5, "temperature": 1})),
        ),
        (
            "not supported for gpt-5.6-sol in",
            chat(json!({"model": "gpt-5.6-sol", "tools": chat_tools(json!({}))})),
        ),
        (
            "not supported for gpt-5.4 in",
            chat(
                json!({"model": "gpt-5.4", "reasoning_effort": "low", "tools": chat_tools(json!({}))}),
            ),
        ),
    ];
    let message = |error: ApiError| {
        assert_eq!(error.kind, "invalid_request_error");
        assert!(error.status == 400 || error.message.contains("not persisted"), "{error}");
        error.message
    };
    let mut messages = check_refused(cases, check_chat_request, message);
    let cases = vec![
        ("Missing required parameter: 'input'.", responses(json!({"input": null}))),
        ("moved to 'input'", responses(json!({"messages": []}))),
        ("moved to 'text.format'", responses(json!({"response_format": {"type": "text"}}))),
        ("moved to 'max_output_tokens'", responses(json!({"max_tokens": 9}))),
        ("moved to 'reasoning.effort'", responses(json!({"reasoning_effort": "low"}))),
        ("Unknown parameter: 'n'.", responses(json!({"n": 1}))),
        ("only allowed when 'stream' is enabled", responses(json!({"stream_options": {}}))),
        ("Invalid value: 'any'", responses(json!({"tool_choice": "any"}))),
        (
            "schema must be a JSON Schema of",
            responses(json!({"tools": [tool(json!({"parameters": {"type": "array"}}))]})),
        ),
        (
            "object schema missing properties",
            responses(json!({"tools": [tool(json!({"parameters": {"type": "object"}}))]})),
        ),
        (
            "'tools[0].parameters': In context",
            responses(json!({"tools": [tool(json!({"strict": true}))]})),
        ),
        (
            "'text.format.schema': In context",
            responses(json!({"text": {"format": {
                "type": "json_schema", "name": "a", "strict": true, "schema": {"type": "object"},
            }}})),
        ),
        (
            "to use 'text.format' of type",
            responses(json!({"text": {"format": {"type": "json_object"}}})),
        ),
        ("'temperature' is not supported with this model", responses(json!({"temperature": 0}))),
        (
            "at least one deferred tool",
            responses(json!({"tools": [{"type": "tool_search"}, tool(json!({}))]})),
        ),
        (
            "Item with id 'rs_1' not found",
            responses(
                json!({"store": false, "input": [reasoning(json!({"encrypted_content": null})), answer()]}),
            ),
        ),
        (
            "No tool call found for function call output with call_id a",
            responses(json!({"input": [output("a")]})),
        ),
        ("No tool call found", responses(json!({"input": [output("a"), call("a")]}))),
        (
            "No tool output found for function call b",
            responses(json!({"input": [call("a"), call("b"), output("a")]})),
        ),
        (
            "without its required following item",
            responses(json!({"input": [reasoning(json!({}))]})),
        ),
        (
            "without its required following item",
            responses(json!({"input": [reasoning(json!({})), hi]})),
        ),
        (
            "without its required following item",
            responses(json!({"input": [call("a"), reasoning(json!({})), output("a")]})),
        ),
        (
            "Missing namespace for function_call 'f'",
            responses(json!({"input": [found(), call("a"), output("a")]})),
        ),
        (
            "Missing namespace",
            responses(json!({
                "tools": [tool(json!({"defer_loading": true}))], "input": [call("a"), output("a")],
            })),
        ),
        (
            "Tool choice 'function' 'g' not found",
            responses(
                json!({"tools": [tool(json!({}))], "tool_choice": {"type": "function", "name": "g"}}),
            ),
        ),
        (
            "Invalid value: 'input_text'. Supported values are: output_text, refusal",
            responses(
                json!({"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]}]}),
            ),
        ),
        ("Invalid value: 'tool_use'", responses(json!({"input": [{"type": "tool_use"}]}))),
    ];
    messages.extend(check_refused(cases, check_responses_request, message));
    let cases = vec![
        ("you must provide a model", embeddings(json!({"model": ""}))),
        ("input cannot be an empty string", embeddings(json!({"input": ""}))),
        ("input cannot be an empty string", embeddings(json!({"input": ["a", ""]}))),
        ("Unknown parameter: 'truncate'.", embeddings(json!({"truncate": true}))),
        (
            "does not support specifying dimensions",
            embeddings(json!({"model": "text-embedding-ada-002", "dimensions": 5})),
        ),
    ];
    messages.extend(check_refused(cases, check_embeddings_request, message));
    check_coverage(&TABLE, &messages);
}

#[test]
fn errors_have_codes_and_parameters() {
    let error = check_chat_request(&chat(json!({"temperature": 3}))).unwrap_err();
    assert_eq!(error.code.as_deref(), Some("decimal_above_max_value"));
    assert_eq!(error.param.as_deref(), Some("temperature"));
    let gone = reasoning(json!({"encrypted_content": null}));
    let error =
        check_responses_request(&responses(json!({"store": false, "input": [gone, answer()]})));
    let error = error.unwrap_err();
    assert_eq!(
        (error.status, error.code, error.param.as_deref()),
        (404, None, Some("input[0].id"))
    );
}
