//! Checks bodies of requests to the Responses API and for embeddings, each with the expected error text.

use super::*;

fn body(fields: &Value) -> Value {
    with(json!({"model": "gpt-5.4-mini", "input": "hi"}), fields)
}

#[track_caller]
fn accepts(fields: Value) {
    assert_eq!(check_responses_request(&body(&fields)), Ok(()));
}

#[track_caller]
fn refuses(fields: Value, expected: &str) {
    let error = check_responses_request(&body(&fields)).unwrap_err();
    let code = error.code.clone().unwrap_or("-".into());
    assert_eq!(format!("{} {code}: {}", error.status, error.message), expected);
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "f", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "4"})
}

fn reasoning() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"})
}

#[test]
fn valid_requests_are_accepted() {
    accepts(json!({}));
    accepts(json!({
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "max_output_tokens": 16,
        "parallel_tool_calls": false,
    }));
    accepts(json!({"store": false, "input": [
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        ]},
        reasoning(),
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "hm", "annotations": []},
        ]},
        call("a"),
        call("b"),
        output("b"),
        output("a"),
    ]}));
    accepts(json!({"previous_response_id": "resp_1", "input": [output("a")]}));
    accepts(json!({"tools": [
        {"type": "function", "name": "f", "parameters": null, "strict": null},
        {"type": "web_search"},
    ], "tool_choice": {"type": "function", "name": "f"}}));
}

#[test]
fn invalid_parameters_are_rejected() {
    refuses(
        json!({"model": null}),
        "400 missing_required_parameter: Missing required parameter: 'model'.",
    );
    refuses(
        json!({"input": null}),
        "400 missing_required_parameter: Missing required parameter: 'input'.",
    );
    refuses(
        json!({"messages": []}),
        "400 unsupported_parameter: Unsupported parameter: 'messages'. In the Responses API, \
         this parameter has moved to 'input'. Try again with the new parameter.",
    );
    refuses(json!({"n": 1}), "400 unknown_parameter: Unknown parameter: 'n'.");
    refuses(
        json!({"temperature": 0}),
        "400 -: Unsupported parameter: 'temperature' is not supported with this model.",
    );
    refuses(
        json!({"max_output_tokens": 5}),
        "400 integer_below_min_value: Invalid 'max_output_tokens': integer below minimum \
         value. Expected a value >= 16, but got 5 instead.",
    );
    refuses(
        json!({"text": {"format": {"type": "json_schema", "json_schema": {}}}}),
        "400 missing_required_parameter: Missing required parameter: 'text.format.name'.",
    );
    refuses(
        json!({"reasoning": {"enabled": true}}),
        "400 unknown_parameter: Unknown parameter: 'reasoning.enabled'.",
    );
}

#[test]
fn invalid_tools_are_rejected() {
    let nested = json!([{"type": "function", "function": {"name": "f"}}]);
    refuses(
        json!({"tools": nested}),
        "400 missing_required_parameter: Missing required parameter: 'tools[0].name'.",
    );
    refuses(
        json!({"tools": [{"type": "function", "name": "f", "parameters": {}}]}),
        "400 missing_required_parameter: Missing required parameter: 'tools[0].strict'.",
    );
}

#[test]
fn items_without_their_required_items_are_rejected() {
    refuses(
        json!({"input": [output("a")]}),
        "400 -: No tool call found for function call output with call_id a.",
    );
    refuses(
        json!({"input": [output("a"), call("a")]}),
        "400 -: No tool call found for function call output with call_id a.",
    );
    refuses(
        json!({"input": [call("a"), call("b"), output("a")]}),
        "400 -: No tool output found for function call b.",
    );
    let alone = "400 -: Item 'rs_1' of type 'reasoning' was provided without its required \
                 following item.";
    refuses(json!({"input": [reasoning()]}), alone);
    refuses(json!({"input": [reasoning(), {"role": "user", "content": "hi"}]}), alone);
    let mut unkept = reasoning();
    unkept["encrypted_content"] = Value::Null;
    let answer = json!({"role": "assistant", "content": "hm"});
    accepts(json!({"input": [unkept, answer]}));
    refuses(
        json!({"store": false, "input": [unkept, answer]}),
        "404 -: Item with id 'rs_1' not found. Items are not persisted when `store` is set to \
         false. Try again with `store` set to true, or remove this item from your input.",
    );
}

#[test]
fn invalid_items_are_rejected() {
    let refuses_item = |item: Value, expected| refuses(json!({"input": [item]}), expected);
    let mut item = call("a");
    item["id"] = json!("call_1");
    refuses_item(
        item,
        "400 invalid_value: Invalid 'input[0].id': 'call_1'. Expected an ID that begins with \
         'fc'.",
    );
    refuses_item(
        json!({"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]}),
        "400 invalid_value: Invalid value: 'input_text'. Supported values are: 'output_text' \
         and 'refusal'.",
    );
    refuses_item(
        json!({"role": "tool", "content": "hi"}),
        "400 invalid_value: Invalid value: 'tool'. Supported values are: 'assistant', \
         'system', 'developer', and 'user'.",
    );
    refuses_item(
        json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": {}}),
        "400 invalid_type: Invalid type for 'input[0].arguments': expected a string, but got \
         an object instead.",
    );
    let error = check_responses_request(&body(&json!({"input": [{"type": "tool_use"}]})));
    let error = error.unwrap_err();
    assert!(error.message.starts_with("Invalid value: 'tool_use'. Supported values are: "));
    assert_eq!(error.param.as_deref(), Some("input[0].type"));
}

#[test]
fn invalid_embedding_requests_are_rejected() {
    let check = |fields: Value| {
        let body = with(json!({"model": "text-embedding-3-small", "input": "hi"}), &fields);
        check_embeddings_request(&body).map_err(|error| error.message)
    };
    assert_eq!(check(json!({})), Ok(()));
    assert_eq!(check(json!({"input": ["a", "b"], "encoding_format": "base64"})), Ok(()));
    assert_eq!(check(json!({"input": [[1, 2], [3]], "dimensions": 2})), Ok(()));
    let refuses = |fields: Value, message: &str| {
        assert_eq!(check(fields), Err(message.to_owned()));
    };
    refuses(json!({"model": ""}), "you must provide a model parameter");
    refuses(json!({"input": ""}), "Invalid 'input': input cannot be an empty string.");
    refuses(json!({"input": ["a", ""]}), "Invalid 'input': input cannot be an empty string.");
    refuses(
        json!({"input": [{}]}),
        "'$.input' is invalid. Please check the API reference: \
         https://platform.openai.com/docs/api-reference.",
    );
    refuses(json!({"truncate": true}), "Unknown parameter: 'truncate'.");
    refuses(
        json!({"encoding_format": "hex"}),
        "Invalid value: 'hex'. Supported values are: 'float' and 'base64'.",
    );
    refuses(
        json!({"model": "text-embedding-ada-002", "dimensions": 5}),
        "This model does not support specifying dimensions.",
    );
}

#[test]
fn deferred_tools_are_checked() {
    let function = |deferred: bool| json!({"type": "function", "name": "f", "parameters": {}, "strict": false, "defer_loading": deferred});
    let search = json!({"type": "tool_search"});
    let client = json!({"type": "tool_search", "execution": "client"});
    let namespace = json!({"type": "namespace", "name": "n", "tools": [function(true)]});
    accepts(json!({"tools": [search, function(true)]}));
    accepts(json!({"tools": [search, namespace]}));
    accepts(json!({"tools": [client, function(false)]}));
    refuses(
        json!({"tools": [search, function(false)]}),
        "400 invalid_value: Invalid Value: 'tools.tool_search'. tools.tool_search requires at least one deferred \
         tool.",
    );
    let mut named = call("c1");
    named["namespace"] = json!("f");
    let found =
        json!({"type": "tool_search_output", "execution": "server", "tools": [function(true)]});
    let missing = "400 -: Missing namespace for function_call 'f'. It does not exist in the default namespace. \
                   Round-trip the model's function_call item with its namespace field included.";
    for tools in [json!([search, function(true)]), json!([])] {
        accepts(json!({"tools": tools, "input": [found, named, output("c1")]}));
        refuses(json!({"tools": tools, "input": [found, call("c1"), output("c1")]}), missing);
    }
    refuses(
        json!({"tools": [search, function(true)], "input": [call("c1"), output("c1")]}),
        missing,
    );
    accepts(json!({"tools": [function(false)], "input": [found, call("c1"), output("c1")]}));
    accepts(json!({"tools": [], "input": [call("c1"), output("c1")]}));
}
