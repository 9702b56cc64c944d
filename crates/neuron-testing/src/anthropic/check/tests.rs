//! Checks right bodies, and bodies that break one rule each.

use serde_json::{Value, json};

use super::*;
use crate::checker::tests::{check_coverage, check_refused, check_shapes, with};

fn body(fields: Value) -> Value {
    let messages = json!([{"role": "user", "content": "hi"}]);
    with(json!({"model": "m", "max_tokens": 4096, "messages": messages}), fields)
}

fn said(messages: Value) -> Value {
    body(json!({"messages": messages}))
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn model(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "add", "input": {"a": 1}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "2"})
}

fn thought() -> Value {
    json!({"type": "thinking", "thinking": "hm", "signature": "s"})
}

fn cached(ttl: &str) -> Value {
    json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}})
}

fn with_budget(fields: Value) -> Value {
    with(body(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}})), fields)
}

/// Returns a conversation whose tool result is an error with this content.
fn failed(content: Value) -> Value {
    let result = with(result("a"), json!({"is_error": true, "content": content}));
    said(json!([user("hi"), model(json!([call("a")])), user(json!([result]))]))
}

fn server_call() -> Value {
    json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})
}

fn server_result() -> Value {
    json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []})
}

fn add() -> Value {
    json!({"name": "add", "input_schema": {"type": "object"}})
}

fn search() -> Value {
    json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"})
}

fn deferred() -> Value {
    with(add(), json!({"defer_loading": true}))
}

#[test]
fn each_field_has_its_kind() {
    check_shapes(&TABLE, false);
}

#[test]
fn right_requests_are_accepted() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}});
    let reference = json!({"type": "tool_reference", "tool_name": "add"});
    let results =
        with(result("c1"), json!({"is_error": false, "content": [text("2"), image, reference]}));
    let whole = json!([
        user(json!([text("hi"), image, {"type": "document", "source": {"type": "content", "content": "x"}}])),
        model(json!([thought(), server_call(), server_result(), call("c1"), call("c2")])),
        user(json!([result("c2"), results, text("and?")])),
        {"role": "system", "content": "be brief"},
        model("well,"),
    ]);
    let turns = json!([
        {"role": "system", "content": "be brief"},
        user("hi"),
        user("there"),
        model(json!([call("c1")])),
        model(json!([call("c2")])),
        user(json!([result("c1")])),
        user(json!([result("c2")])),
        model(json!([])),
    ]);
    let continued = json!([
        user("hi"),
        model(json!([server_call()])),
        model(json!([server_result()])),
        user("so")
    ]);
    let begun =
        json!([user("hi"), model(json!([thought(), call("a")])), user(json!([result("a")]))]);
    let ended =
        json!([user("hi"), model(json!([call("a")])), user(json!([result("a"), text("and?")]))]);
    for right in [
        body(json!({})),
        body(
            json!({"system": "", "tools": [add(), {"type": "web_search_20250305", "name": "w", "max_uses": 3}]}),
        ),
        body(json!({"tools": [add()], "tool_choice": {"type": "tool", "name": "add"}})),
        body(json!({"tools": [search(), deferred()], "messages": whole})),
        body(
            json!({"system": [cached("1h"), cached("1h")], "messages": [user(json!([cached("5m"), cached("5m")]))]}),
        ),
        said(turns),
        said(continued),
        said(json!([user("hi"), model(json!([server_call()]))])),
        with_budget(json!({})),
        with_budget(json!({"messages": begun})),
        with_budget(json!({"messages": ended})),
        failed(json!("no")),
        body(json!({"thinking": {"type": "adaptive", "display": "omitted"}, "temperature": 0.5})),
    ] {
        assert_eq!(check_request(&right, &[]), Ok(()), "{right}");
    }
}

#[test]
fn wrong_requests_are_refused() {
    let unknown = "Extra inputs are not permitted";
    let missing = "without `tool_result` blocks immediately after";
    let schema = |fields: Value| json!({"tools": [{"name": "a", "input_schema": with(json!({"type": "object"}), fields)}]});
    let edit = |kind: &str| body(json!({"context_management": {"edits": [{"type": kind}]}}));
    let cases = vec![
        ("max_tokens: Field required", body(json!({"max_tokens": null}))),
        ("response_format: Extra inputs", body(json!({"response_format": {}}))),
        ("messages: Input should be a valid array", said(json!("hi"))),
        ("effort: Input should be one of low", body(json!({"output_config": {"effort": "none"}}))),
        ("Input tag 'audio' found using 'type'", said(json!([user(json!([{"type": "audio"}]))]))),
        ("max_tokens: Input should be greater than or equal to 1", body(json!({"max_tokens": 0}))),
        ("temperature: Input should be less than or equal to 1", body(json!({"temperature": 1.5}))),
        ("messages: should have at least 1", said(json!([]))),
        ("at most 128", body(json!({"tools": [with(add(), json!({"name": "a".repeat(129)}))]}))),
        (
            "String should match pattern",
            body(json!({"tools": [with(add(), json!({"name": "a.b"}))]})),
        ),
        (unknown, edit("compact_20260112")),
        (unknown, body(json!({"compaction": {}}))),
        (unknown, body(json!({"output_format": {}}))),
        ("mcp_servers: Extra inputs", body(json!({"mcp_servers": []}))),
        (
            "Input tag 'compaction'",
            said(json!([
                user("hi"),
                model(json!([{"type": "compaction", "content": "a"}, text("b")]))
            ])),
        ),
        ("Input tag 'fallback'", said(json!([user("hi"), model(json!([{"type": "fallback"}]))]))),
        ("Input tag 'mcp_toolset'", body(json!({"tools": [{"type": "mcp_toolset"}]}))),
        ("each stop sequence must contain", body(json!({"stop_sequences": ["a", " "]}))),
        ("equal to 1024", body(json!({"thinking": {"type": "enabled", "budget_tokens": 1023}}))),
        ("`max_tokens` must be greater", with_budget(json!({"max_tokens": 1024}))),
        ("`temperature` may only be set to 1", with_budget(json!({"temperature": 0}))),
        ("forces tool use", with_budget(json!({"tools": [add()], "tool_choice": {"type": "any"}}))),
        ("only be specified while providing tools", body(json!({"tool_choice": {"type": "auto"}}))),
        ("oneOf, allOf, or anyOf at the top level", body(schema(json!({"oneOf": []})))),
        ("input_schema.type: Input should be one of", body(schema(json!({"type": "string"})))),
        (
            "cannot have both defer_loading",
            body(
                json!({"tools": [search(), with(deferred(), json!({"cache_control": {"type": "ephemeral"}}))]}),
            ),
        ),
        ("All tools have defer_loading set", body(json!({"tools": [deferred()]}))),
        (
            "messages.2.content.0.content.0.text: text content blocks must contain",
            failed(json!([text(" ")])),
        ),
        ("content cannot be empty if `is_error`", failed(json!([]))),
        ("content cannot be empty if `is_error`", failed(json!(""))),
        ("content cannot be empty if `is_error`", failed(json!(null))),
        (
            "all content must be type 'text'",
            failed(json!([{"type": "image", "source": {"type": "url", "url": "u"}}])),
        ),
        ("all messages must have non-empty content", said(json!([user(json!([]))]))),
        (
            "all messages must have non-empty content",
            said(json!([user("a"), model(json!([])), user("b")])),
        ),
        (
            "`tool_use` blocks can not be in `user` messages",
            said(json!([user(json!([call("a")]))])),
        ),
        (
            "`tool_result` blocks can not be in `assistant` messages",
            said(json!([user("a"), model(json!([result("a")]))])),
        ),
        ("text content blocks must contain", said(json!([user("")]))),
        (
            "messages.0.content.0: text content blocks must contain",
            said(json!([user(json!([text(" \n")]))])),
        ),
        ("system.0: text content", body(json!({"system": [text(" ")]}))),
        ("first message must use", said(json!([model("hi")]))),
        ("first message must use", said(json!([{"role": "system", "content": "x"}, model("hi")]))),
        ("cannot end with trailing whitespace", said(json!([user("a"), model("b ")]))),
        (
            missing,
            said(json!([
                user("hi"),
                model(json!([call("a"), call("b")])),
                user(json!([result("a")]))
            ])),
        ),
        (missing, said(json!([user("hi"), model(json!([call("a")]))]))),
        (
            missing,
            said(
                json!([user("hi"), model(json!([call("a")])), {"role": "system", "content": "x"}, user(json!([result("a")]))]),
            ),
        ),
        (
            "because a `text` block is before",
            said(json!([
                user("hi"),
                model(json!([call("a")])),
                user(json!([text("so"), result("a")]))
            ])),
        ),
        ("unexpected `tool_use_id`", said(json!([user(json!([result("a")]))]))),
        (
            "single result",
            said(json!([
                user("hi"),
                model(json!([call("a")])),
                user(json!([result("a"), result("a")]))
            ])),
        ),
        (
            "ids must be unique",
            said(json!([
                user("hi"),
                model(json!([call("a"), call("a")])),
                user(json!([result("a")]))
            ])),
        ),
        (
            "tool use with id `s1` was found without",
            said(json!([user("hi"), model(json!([server_call()])), user("so")])),
        ),
        (
            "but found `tool_use`",
            with_budget(
                json!({"messages": [user("hi"), model(json!([call("a")])), user(json!([result("a")]))]}),
            ),
        ),
        ("cannot be `thinking`", said(json!([user("hi"), model(json!([thought()])), user("so")]))),
        ("Tool names must be unique", body(json!({"tools": [add(), add()]}))),
        (
            "Tool 'b' not found in provided",
            body(json!({"tools": [add()], "tool_choice": {"type": "tool", "name": "b"}})),
        ),
        (
            "Tool reference 'sub'",
            body(json!({"tools": [add()], "messages": [
                user("hi"),
                model(json!([call("a")])),
                user(json!([with(result("a"), json!({"content": [{"type": "tool_reference", "tool_name": "sub"}]}))])),
            ]})),
        ),
        (
            "Tool reference 'sub'",
            body(json!({"tools": [add()], "messages": [user("hi"), model(json!([
                {"type": "tool_search_tool_result", "tool_use_id": "s", "content": {"tool_references": [{"tool_name": "sub"}]}},
            ]))]})),
        ),
        (
            "Found 5.",
            body(
                json!({"system": [cached("5m"), cached("5m")], "messages": [user(json!(vec![cached("5m"); 3]))]}),
            ),
        ),
        (
            "must not come after a ttl='5m'",
            said(json!([user(json!([cached("5m"), cached("1h")]))])),
        ),
    ];
    let message = |error: ApiError| {
        assert_eq!((error.status, error.kind.as_str()), (400, "invalid_request_error"));
        error.message
    };
    let mut messages = check_refused(cases, |body| check_request(body, &[]), message);
    let other_beta = |body: &Value| check_request(body, &["other"]);
    let cases = vec![
        ("context_management: Extra inputs", edit("compact_20260112")),
        (
            "Input tag 'compaction'",
            said(json!([user("hi"), model(json!([{"type": "compaction", "content": "a"}]))])),
        ),
    ];
    messages.extend(check_refused(cases, other_beta, message));
    let clearing = |body: &Value| check_request(body, &["context-management-2025-06-27"]);
    let cases = vec![("Input tag 'compact_20260112'", edit("compact_20260112"))];
    messages.extend(check_refused(cases, clearing, message));
    let compacting = |body: &Value| check_request(body, &["compact-2026-01-12"]);
    let cases = vec![("an edit does not match", edit("clear_thinking_20251015"))];
    messages.extend(check_refused(cases, compacting, message));
    check_coverage(&TABLE, &messages);
    assert_eq!(compacting(&edit("compact_20260112")), Ok(()));
    assert_eq!(clearing(&edit("clear_thinking_20251015")), Ok(()));
    assert_eq!(
        other_beta(&body(json!({"mcp_servers": [], "tools": [{"type": "mcp_toolset"}]}))),
        Ok(())
    );
}

#[test]
fn check_version_rejects_unknown_versions_and_removed_fields() {
    let sampling = body(json!({"temperature": 1}));
    assert_eq!(check_version(&sampling, "2023-06-01"), Ok(()));
    assert_eq!(check_version(&body(json!({})), "2026-10-21"), Ok(()));
    assert_eq!(
        check_version(&sampling, "2026-10-21").unwrap_err().message,
        "temperature: Extra inputs are not permitted"
    );
    assert_eq!(
        check_version(&sampling, "1").unwrap_err().message,
        "anthropic-version: \"1\" is not a valid version"
    );
}
