//! Checks right bodies, and bodies that break one rule each.

use serde_json::{Value, json};

use super::*;
use crate::checker::tests::{check_coverage, check_refused, check_shapes, with};

fn body(fields: Value) -> Value {
    with(json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}), fields)
}

fn said(message: Value) -> Value {
    body(json!({"messages": [message]}))
}

#[test]
fn each_field_has_its_kind() {
    check_shapes(&TABLE, true);
}

#[test]
fn right_requests_are_accepted() {
    let call = json!({"id": "a", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}});
    for right in [
        body(json!({})),
        body(json!({"messages": [], "tool_choice": "auto", "new_field": 1, "keep_alive": "5m"})),
        body(json!({"think": true, "format": "json", "top_logprobs": 20})),
        body(json!({"think": "low", "format": {"type": "object"}})),
        body(json!({"think": false, "format": ""})),
        body(json!({"options": {"num_ctx": 8192, "temperature": 0, "stop": ["END"], "new": "x"}})),
        said(json!({"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]})),
        said(json!({"role": "user", "content": "look", "images": ["aGVsbG8="]})),
        said(json!({"role": "tool", "content": "2", "tool_name": "f"})),
    ] {
        assert_eq!(check_chat_request(&right), Ok(()), "{right}");
    }
    for input in [json!("hi"), json!(["hi", "ho"]), json!([])] {
        assert_eq!(check_embed_request(&json!({"model": "m", "input": input})), Ok(()));
    }
}

#[test]
fn wrong_requests_are_refused() {
    let cases = vec![
        ("model is required", body(json!({"model": ""}))),
        ("model is required", body(json!({"model": null}))),
        (
            "cannot unmarshal array into Go struct field ChatRequest.messages.content of type string",
            said(json!({"role": "user", "content": []})),
        ),
        ("invalid role: \"bot\"", said(json!({"role": "bot", "content": "hi"}))),
        ("illegal base64", said(json!({"role": "user", "images": ["data:image/png;base64,aGVs"]}))),
        ("invalid think value: \"banana\"", body(json!({"think": "banana"}))),
        ("invalid think value: \"3\"", body(json!({"think": 3}))),
        ("invalid format", body(json!({"format": "yaml"}))),
        ("invalid format", body(json!({"format": ["json"]}))),
        ("between 0 and 20", body(json!({"top_logprobs": 21}))),
    ];
    let message = |error: ApiError| {
        assert_eq!(error.status, 400);
        error.message
    };
    let mut messages = check_refused(cases, check_chat_request, message);
    let cases = vec![
        ("invalid input type", json!({"model": "m", "input": 3})),
        ("invalid input type", json!({"model": "m", "input": [1]})),
        ("model is required", json!({"input": "hi"})),
    ];
    messages.extend(check_refused(cases, check_embed_request, message));
    let error = check_chat_request(&body(json!({"options": {"num_ctx": "8k"}}))).unwrap_err();
    assert_eq!(error.to_string(), "500: option \"num_ctx\" must be of type integer");
    messages.push(error.message);
    check_coverage(&TABLE, &messages);
}
