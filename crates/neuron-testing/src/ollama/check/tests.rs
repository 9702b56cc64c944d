//! Checks request bodies against Ollama's rules, each with the expected error text.

use serde_json::{Value, json};

use super::*;

fn with(fields: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[track_caller]
fn accepts(fields: Value) {
    assert_eq!(check_chat_request(&with(fields)), Ok(()));
}

#[track_caller]
fn refuses(fields: Value, expected: &str) {
    let error = check_chat_request(&with(fields)).unwrap_err();
    assert_eq!(error.to_string(), format!("400: {expected}"));
}

#[track_caller]
fn refuses_message(message: Value, expected: &str) {
    refuses(json!({"messages": [message]}), expected);
}

#[test]
fn valid_requests_are_accepted() {
    accepts(json!({}));
    accepts(json!({"messages": []}));
    accepts(json!({"tool_choice": "auto", "new_field": 1}));
    for keep_alive in
        [json!("5m"), json!("-1s"), json!("1h30.5m"), json!("0"), json!(300), json!(-1)]
    {
        accepts(json!({"keep_alive": keep_alive}));
    }
    for think in [json!(true), json!(false), json!("low"), json!("max"), Value::Null] {
        accepts(json!({"think": think}));
    }
    for format in [json!("json"), json!(""), json!({"type": "object"}), Value::Null] {
        accepts(json!({"format": format}));
    }
    accepts(json!({"options": {
        "num_ctx": 8192, "temperature": 0, "top_p": 0.5, "stop": ["END"], "mirostat_new": "x",
    }}));
    accepts(json!({"messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "look", "images": ["aGVsbG8="]},
        {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
            {"id": "call_a1b2c3d4", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}},
        ]},
        {"role": "tool", "content": "2", "tool_name": "f", "tool_call_id": "call_a1b2c3d4"},
    ]}));
    accepts(json!({"tools": [{"type": "function", "function": {
        "name": "f", "description": "d", "parameters": {"type": "object"},
    }}]}));
}

#[test]
fn invalid_fields_are_rejected() {
    refuses(json!({"model": ""}), "model is required");
    refuses(json!({"model": null}), "model is required");
    refuses(
        json!({"model": 1}),
        "json: cannot unmarshal number into Go struct field ChatRequest.model of type string",
    );
    refuses(
        json!({"stream": "yes"}),
        "json: cannot unmarshal string into Go struct field ChatRequest.stream of type bool",
    );
    refuses(
        json!({"think": "banana"}),
        "invalid think value: \"banana\" (must be \"high\", \"medium\", \"low\", \"max\", true, or \
         false)",
    );
    refuses(
        json!({"think": 3}),
        "think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", true, or false)",
    );
    let durations = [
        ("", "invalid"),
        ("soon", "invalid"),
        ("-1", "missing unit in"),
        ("5 m", "unknown unit in"),
    ];
    for (text, what) in durations {
        refuses(json!({"keep_alive": text}), &format!("time: {what} duration \"{text}\""));
    }
    refuses(json!({"keep_alive": true}), "unsupported type: 'bool'");
    let format = "invalid format: expected \"json\" or a valid JSON Schema object";
    refuses(json!({"format": "yaml"}), format);
    refuses(json!({"format": ["json"]}), format);
    refuses(json!({"top_logprobs": 21}), "top_logprobs must be between 0 and 20");
    let error = check_chat_request(&with(json!({"options": {"num_ctx": "8k"}}))).unwrap_err();
    assert_eq!(error.to_string(), "500: option \"num_ctx\" must be of type integer");
    let error = check_chat_request(&with(json!({"options": {"stop": "END"}}))).unwrap_err();
    assert_eq!(error.to_string(), "500: option \"stop\" must be of type array");
    let error = check_chat_request(&json!([])).unwrap_err();
    assert_eq!(error.message, "json: cannot unmarshal array into Go value of type api.ChatRequest");
}

#[test]
fn invalid_messages_are_rejected() {
    refuses_message(
        json!({"role": "bot", "content": "hi"}),
        "invalid role: \"bot\" (must be \"system\", \"user\", \"assistant\", or \"tool\")",
    );
    refuses_message(
        json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type \
         string",
    );
    refuses_message(
        json!({"role": "user", "content": "", "images": ["data:image/png;base64,aGVsbG8="]}),
        "illegal base64 data at input byte 4",
    );
    refuses_message(
        json!({"role": "user", "content": "", "images": "aGVsbG8="}),
        "json: cannot unmarshal string into Go struct field ChatRequest.messages.images of type \
         []api.ImageData",
    );
    refuses_message(
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "f", "arguments": "{}"}},
        ]}),
        "json: cannot unmarshal string into Go struct field \
         ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments",
    );
    refuses(
        json!({"tools": {"f": {}}}),
        "json: cannot unmarshal object into Go struct field ChatRequest.tools of type api.Tools",
    );
    refuses(
        json!({"tools": [{"type": "function", "function": {"name": 1}}]}),
        "json: cannot unmarshal number into Go struct field ChatRequest.tools.function.name of \
         type string",
    );
}

#[test]
fn invalid_embedding_requests_are_rejected() {
    let check = |input: Value| check_embed_request(&json!({"model": "m", "input": input}));
    assert_eq!(check(json!("hi")), Ok(()));
    assert_eq!(check(json!(["hi", "ho"])), Ok(()));
    assert_eq!(check(json!([])), Ok(()));
    assert_eq!(check(json!(3)).unwrap_err().message, "invalid input type");
    assert_eq!(check(json!([1])).unwrap_err().message, "invalid input type");
    let error = check_embed_request(&json!({"input": "hi"})).unwrap_err();
    assert_eq!(error.message, "model is required");
}

#[test]
fn shapes_file_follows_the_grammar() {
    shape::tests::check_shapes(Wording, &["options"]);
}
