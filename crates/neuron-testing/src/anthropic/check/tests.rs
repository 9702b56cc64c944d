//! Checks request bodies against Anthropic's rules, each with the expected error text.

use serde_json::{Value, json};

use super::*;

fn body() -> Value {
    json!({
        "model": "m",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "hi"}],
    })
}

/// Returns a valid body with `fields` set in addition. A null removes a field.
fn with(fields: Value) -> Value {
    let mut body = body();
    for (key, value) in fields.as_object().unwrap() {
        match value {
            Value::Null => drop(body.as_object_mut().unwrap().remove(key)),
            value => body[key] = value.clone(),
        }
    }
    body
}

#[track_caller]
fn accepts(fields: Value) {
    assert_eq!(check_request(&with(fields), &[]), Ok(()));
}

#[track_caller]
fn refuses(fields: Value, expected: &str) {
    let error = check_request(&with(fields), &[]).unwrap_err();
    assert_eq!(error.message, expected);
    assert_eq!((error.status, error.kind.as_str()), (400, "invalid_request_error"));
}

/// Checks that a request with these `messages` is rejected with the error text `expected`.
#[track_caller]
fn refuses_messages(messages: Value, expected: &str) {
    refuses(json!({"messages": messages}), expected);
}

/// Checks that a user message with this content block is rejected with the error text `expected`.
#[track_caller]
fn refuses_block(block: Value, expected: &str) {
    refuses_messages(json!([{"role": "user", "content": [block]}]), expected);
}

/// Checks that an assistant message with this content block is rejected with the error text `expected`.
#[track_caller]
fn refuses_answer(block: Value, expected: &str) {
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": "go on"},
    ]);
    refuses_messages(messages, expected);
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "add", "input": {"a": 1}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "2"})
}

/// Returns a conversation whose assistant message has the content `calls` and whose next user message has the content
/// `answer`.
fn called(calls: Value, answer: Value) -> Value {
    json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": answer},
    ])
}

#[test]
fn check_request_accepts_every_stable_field() {
    accepts(json!({}));
    accepts(json!({
        "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
        "stop_sequences": ["END"],
        "stream": true,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 10,
        "tools": [
            {
                "name": "add",
                "description": "adds",
                "input_schema": {"type": "object"},
                "strict": true,
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            },
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        ],
        "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": true},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        "metadata": {"user_id": "u"},
        "service_tier": "auto",
        "container": "c",
    }));
    accepts(json!({"system": "", "thinking": {"type": "enabled", "budget_tokens": 1024}}));
    accepts(json!({"thinking": {"type": "adaptive", "display": "omitted"}}));
    accepts(json!({"thinking": {"type": "between_tools"}}));
}

#[test]
fn check_request_accepts_every_kind_of_block() {
    let messages = json!([
        {"role": "user", "content": [
            {"type": "text", "text": "hi"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}},
            {"type": "image", "source": {"type": "url", "url": "http://localhost"}},
            {"type": "document", "title": "t", "source":
                {"type": "base64", "media_type": "application/pdf", "data": ""}},
            {"type": "document", "source":
                {"type": "text", "media_type": "text/plain", "data": "x"}},
            {"type": "document", "source": {"type": "content", "content": "x"}},
            {"type": "search_result", "source": "s", "title": "t", "content": []},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {"type": "text", "text": "cited", "citations": [{"type": "x"}]},
            call("c1"),
            call("c2"),
        ]},
        {"role": "user", "content": [
            result("c2"),
            {"type": "tool_result", "tool_use_id": "c1", "is_error": false, "content": [
                {"type": "text", "text": "2"},
                {"type": "image", "source": {"type": "file", "file_id": "f"}},
            ]},
            {"type": "text", "text": "and?"},
        ]},
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": "well,"},
    ]);
    accepts(json!({"messages": messages}));
}

#[test]
fn consecutive_messages_of_one_role_count_as_one_turn() {
    accepts(json!({"messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "there"},
        {"role": "assistant", "content": [call("c1")]},
        {"role": "assistant", "content": [call("c2")]},
        {"role": "user", "content": [result("c1")]},
        {"role": "user", "content": [result("c2")]},
        {"role": "assistant", "content": []},
    ]}));
}

#[test]
fn invalid_top_level_fields_are_rejected() {
    refuses(json!({"model": null}), "model: Field required");
    refuses(json!({"model": 1}), "model: Input should be a valid string");
    refuses(json!({"model": ""}), "model: String should have at least 1 character");
    refuses(json!({"max_tokens": null}), "max_tokens: Field required");
    refuses(json!({"max_tokens": 0}), "max_tokens: Input should be greater than or equal to 1");
    refuses(json!({"max_tokens": -1}), "max_tokens: Input should be a valid integer");
    refuses(json!({"max_tokens": "9"}), "max_tokens: Input should be a valid integer");
    refuses(json!({"messages": null}), "messages: Field required");
    refuses(json!({"messages": []}), "messages: at least one message is required");
    refuses(json!({"messages": "hi"}), "messages: Input should be a valid list");
    refuses(json!({"response_format": {}}), "response_format: Extra inputs are not permitted");
    refuses(json!({"metadata": {"user": "u"}}), "metadata.user: Extra inputs are not permitted");
    refuses(json!({"stream": "yes"}), "stream: Input should be a valid boolean");
    refuses(json!({"temperature": 1.5}), "temperature: range: 0..1");
    refuses(json!({"top_p": "x"}), "top_p: Input should be a valid number");
    refuses(
        json!({"stop_sequences": [" "]}),
        "stop_sequences: each stop sequence must contain non-whitespace",
    );
    refuses(
        json!({"output_config": {"effort": "none"}}),
        "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
    );
    refuses(json!({"system": 1}), "system: Input should be a valid list");
    refuses(
        json!({"system": [{"type": "text", "text": ""}]}),
        "system.0.text.text: text content blocks must be non-empty",
    );
    refuses(
        json!({"system": [{"type": "image"}]}),
        "system.0: Input tag 'image' found using 'type' does not match any of the expected tags: \
         'text'",
    );
    let error = check_request(&json!([]), &[]).unwrap_err();
    assert_eq!(error.message, "Input should be an object");
}

#[test]
fn invalid_thinking_settings_are_rejected() {
    let refuses_thinking = |thinking: Value, expected: &str| {
        refuses(json!({"thinking": thinking}), expected);
    };
    refuses_thinking(json!({"type": "enabled"}), "thinking.budget_tokens: Field required");
    refuses_thinking(
        json!({"type": "enabled", "budget_tokens": 1023}),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    );
    refuses_thinking(
        json!({"type": "enabled", "budget_tokens": 4096}),
        "`max_tokens` must be greater than `thinking.budget_tokens`",
    );
    refuses_thinking(
        json!({"type": "adaptive", "budget_tokens": 2000}),
        "thinking.budget_tokens: Extra inputs are not permitted",
    );
    refuses_thinking(
        json!({"type": "on"}),
        "thinking: Input tag 'on' found using 'type' does not match any of the expected tags: \
         'enabled', 'adaptive', 'disabled', 'between_tools'",
    );
    refuses(
        json!({"thinking": {"type": "enabled", "budget_tokens": 1024}, "temperature": 0}),
        "`temperature` may only be set to 1 when thinking is enabled",
    );
}

#[test]
fn beta_fields_and_blocks_require_their_beta() {
    let management = json!({"edits": [{"type": "compact_20260112"}]});
    let compact = with(json!({"context_management": management}));
    let refused = |betas: &[&str]| check_request(&compact, betas).unwrap_err().message;
    assert_eq!(check_request(&compact, &["compact-2026-01-12"]), Ok(()));
    assert_eq!(refused(&[]), "context_management: Extra inputs are not permitted");
    assert_eq!(
        refused(&["files-api-2025-04-14"]),
        "context_management: Extra inputs are not permitted"
    );
    assert_eq!(
        refused(&["context-management-2025-06-27"]),
        "context_management.edits.0: Input tag 'compact_20260112' found using 'type' does not \
         match any of the expected tags: 'clear_tool_uses_20250919', 'clear_thinking_20251015'"
    );

    let summary = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "compaction", "content": "so far"}]},
        {"role": "user", "content": "go on"},
    ]});
    let summary = with(summary);
    assert_eq!(check_request(&summary, &["compact-2026-01-12"]), Ok(()));
    assert!(check_request(&summary, &[]).is_err());
    let servers = with(json!({"mcp_servers": []}));
    assert_eq!(check_request(&servers, &["mcp-client-2025-11-20"]), Ok(()));
    assert!(check_request(&servers, &[]).is_err());
}

#[test]
fn check_version_rejects_unknown_versions_and_removed_fields() {
    let sampling = with(json!({"temperature": 1}));
    assert_eq!(check_version(&sampling, "2023-06-01"), Ok(()));
    assert_eq!(check_version(&body(), "2026-10-21"), Ok(()));
    assert_eq!(
        check_version(&sampling, "2026-10-21").unwrap_err().message,
        "temperature: Extra inputs are not permitted"
    );
    assert_eq!(
        check_version(&body(), "1").unwrap_err().message,
        "anthropic-version: \"1\" is not a valid version"
    );
}

#[test]
fn invalid_roles_and_content_are_rejected() {
    refuses_messages(
        json!([{"role": "assistant", "content": "hi"}]),
        "messages: first message must use the \"user\" role",
    );
    refuses_messages(
        json!([{"role": "system", "content": "x"}, {"role": "assistant", "content": "hi"}]),
        "messages: first message must use the \"user\" role",
    );
    refuses_messages(
        json!([{"role": "tool", "content": "hi"}]),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    );
    refuses_messages(
        json!([{"role": "user", "content": "hi", "name": "x"}]),
        "messages.0.name: Extra inputs are not permitted",
    );
    refuses_messages(json!([{"role": "user"}]), "messages.0.content: Field required");
    refuses_messages(
        json!([{"role": "user", "content": []}]),
        "messages.0: all messages must have non-empty content except for the optional final \
         assistant message",
    );
    refuses_messages(
        json!([{"role": "user", "content": ""}]),
        "messages.0.content: text content blocks must be non-empty",
    );
    refuses_messages(
        json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b "}]),
        "messages: final assistant content cannot end with trailing whitespace",
    );
}

#[test]
fn invalid_blocks_are_rejected() {
    refuses_block(
        json!({"type": "text", "text": ""}),
        "messages.0.content.0.text.text: text content blocks must be non-empty",
    );
    refuses_block(
        json!({"type": "text", "text": " \n"}),
        "messages.0.content.0.text.text: text content blocks must contain non-whitespace text",
    );
    refuses_block(json!({"type": "text"}), "messages.0.content.0.text.text: Field required");
    refuses_block(json!({"text": "x"}), "messages.0.content.0.type: Field required");
    refuses_block(
        json!({"type": "text", "text": "x", "id": "1"}),
        "messages.0.content.0.text.id: Extra inputs are not permitted",
    );
    refuses_block(
        call("c1"),
        "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
    );
    refuses_block(
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": ""}}),
        "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', \
         'image/png', 'image/gif' or 'image/webp'",
    );
    refuses_block(
        json!({"type": "image", "source": {"type": "url"}}),
        "messages.0.content.0.image.source.url.url: Field required",
    );
    refuses_block(
        json!({"type": "image", "source": {"type": "path"}}),
        "messages.0.content.0.image.source: Input tag 'path' found using 'type' does not match \
         any of the expected tags: 'base64', 'url', 'file'",
    );
    refuses_answer(
        result("c1"),
        "messages.1.content.0: `tool_result` blocks can only be in `user` messages",
    );
    refuses_answer(
        json!({"type": "thinking", "thinking": "x"}),
        "messages.1.content.0.thinking.signature: Field required",
    );
    refuses_answer(
        json!({"type": "thinking", "thinking": "x", "signature": "s", "cache_control": {}}),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    );
    refuses_answer(
        json!({"type": "tool_use", "id": "c 1", "name": "add", "input": {}}),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    );
    refuses_answer(
        json!({"type": "tool_use", "id": "c1", "name": "add", "input": "{"}),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    );
    let unknown = check_request(
        &with(json!({"messages": [{"role": "user", "content": [{"type": "audio"}]}]})),
        &[],
    );
    let message = unknown.unwrap_err().message;
    assert!(
        message.starts_with("messages.0.content.0: Input tag 'audio' found using 'type'"),
        "{message}"
    );
}

#[test]
fn calls_without_results_and_results_without_calls_are_rejected() {
    let missing = |message: usize, ids: &str| {
        format!(
            "messages.{message}: `tool_use` ids were found without `tool_result` blocks \
             immediately after: {ids}. Each `tool_use` block must have a corresponding \
             `tool_result` block in the next message."
        )
    };
    let unexpected = |path: &str, id: &str| {
        format!(
            "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
             `tool_result` block must have a corresponding `tool_use` block in the previous \
             message."
        )
    };
    refuses_messages(called(json!([call("c1")]), json!("go on")), &missing(1, "c1"));
    refuses_messages(
        called(json!([call("c1"), call("c2")]), json!([result("c1")])),
        &missing(1, "c2"),
    );
    let after_text = json!([{"type": "text", "text": "here"}, result("c1")]);
    refuses_messages(called(json!([call("c1")]), after_text), &missing(1, "c1"));
    refuses_messages(
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [call("c1")]}]),
        &missing(1, "c1"),
    );
    refuses_messages(
        json!([{"role": "user", "content": [result("c1")]}]),
        &unexpected("messages.0.content.0", "c1"),
    );
    refuses_messages(
        called(json!([call("c1")]), json!([result("c1"), result("c2")])),
        &unexpected("messages.2.content.1", "c2"),
    );
    refuses_messages(
        called(json!([call("c1")]), json!([result("c1"), result("c1")])),
        "messages.2.content.1: each tool_use must have a single result. Found multiple \
         `tool_result` blocks with id: c1",
    );
    refuses_messages(
        called(json!([call("c1"), call("c1")]), json!([result("c1")])),
        "messages.1.content.1: `tool_use` ids must be unique",
    );
}

#[test]
fn error_results_must_have_text_content() {
    let answer = |content: Value| {
        let mut result = result("c1");
        result["is_error"] = json!(true);
        result["content"] = content;
        called(json!([call("c1")]), json!([result]))
    };
    accepts(json!({"messages": answer(json!("no"))}));
    refuses_messages(
        answer(json!([])),
        "messages.2.content.0.tool_result.content: content cannot be empty if `is_error` is true",
    );
    refuses_messages(
        answer(json!([{"type": "image", "source": {"type": "url", "url": "u"}}])),
        "messages.2.content.0.tool_result.content: all content must be type 'text' if 'is_error' \
         is true",
    );
    refuses_messages(
        answer(json!([{"type": "text", "text": ""}])),
        "messages.2.content.0.tool_result.content.0.text.text: text content blocks must be \
         non-empty",
    );
    let nested = check_request(&with(json!({"messages": answer(json!([call("c2")]))})), &[]);
    assert!(nested.unwrap_err().message.contains("Input tag 'tool_use'"));
}

#[test]
fn cache_breakpoints_are_limited_in_number_and_order() {
    let cached = |ttl: Option<&str>| {
        let mut cache = json!({"type": "ephemeral"});
        if let Some(ttl) = ttl {
            cache["ttl"] = json!(ttl);
        }
        json!({"type": "text", "text": "x", "cache_control": cache})
    };
    let ask = |blocks: Vec<Value>| json!({"messages": [{"role": "user", "content": blocks}]});
    accepts(ask(vec![cached(None); 4]));
    refuses(
        ask(vec![cached(None); 5]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    );
    let mut automatic = ask(vec![cached(None); 4]);
    automatic["cache_control"] = json!({"type": "ephemeral"});
    refuses(automatic, "A maximum of 4 blocks with cache_control may be provided. Found 5.");
    refuses(
        ask(vec![cached(Some("2h"))]),
        "messages.0.content.0.text.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    );
    accepts(ask(vec![cached(Some("1h")), cached(Some("5m"))]));
    refuses(
        ask(vec![cached(None), cached(Some("1h"))]),
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note \
         that blocks are processed in the following order: `tools`, `system`, `messages`.",
    );
}

#[test]
fn invalid_tools_are_rejected() {
    let refuses_tool = |tool: Value, expected: &str| refuses(json!({"tools": [tool]}), expected);
    let schema = json!({"type": "object"});
    refuses_tool(
        json!({"name": "a", "input_schema": schema, "title": "A"}),
        "tools.0.custom.title: Extra inputs are not permitted",
    );
    refuses_tool(json!({"name": "a"}), "tools.0.custom.input_schema: Field required");
    refuses_tool(
        json!({"name": "a", "input_schema": true}),
        "tools.0.custom.input_schema: Input should be an object",
    );
    refuses_tool(
        json!({"name": "a", "input_schema": {}}),
        "tools.0.custom.input_schema.type: Field required",
    );
    refuses_tool(
        json!({"name": "a", "input_schema": {"type": "string"}}),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    );
    refuses_tool(
        json!({"name": "a", "input_schema": {"type": "object", "oneOf": []}}),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at \
         the top level",
    );
    refuses_tool(
        json!({"name": "a.b", "input_schema": schema}),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]+$'",
    );
    refuses_tool(
        json!({"name": "a".repeat(129), "input_schema": schema}),
        "tools.0.custom.name: String should have at most 128 characters",
    );
    refuses(
        json!({"tools": vec![json!({"name": "a", "input_schema": schema}); 2]}),
        "tools: Tool names must be unique.",
    );
    let unknown = check_request(&with(json!({"tools": [{"type": "function"}]})), &[]);
    let message = unknown.unwrap_err().message;
    assert!(message.starts_with("tools.0: Input tag 'function'"), "{message}");
}

#[test]
fn call_of_a_servers_tool_needs_its_result_in_the_same_turn() {
    let call = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []});
    let open = "messages.1: `web_search` tool use with id `s1` was found without a corresponding \
                `web_search_tool_result` block";
    refuses_answer(call.clone(), open);
    let user = |text: &str| json!({"role": "user", "content": text});
    let model = |block: &Value| json!({"role": "assistant", "content": [block]});
    let late = json!([user("hi"), model(&call), user("go on"), model(&found), user("thanks")]);
    refuses_messages(late, open);
    let continued = json!([user("hi"), model(&call), model(&found), user("thanks")]);
    let paused = json!([user("hi"), model(&call)]);
    for messages in [continued, paused] {
        accepts(json!({"messages": messages}));
    }
}

#[test]
fn answer_must_not_end_with_thinking() {
    refuses_answer(
        json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    );
}

#[test]
fn turn_with_a_thinking_budget_begins_with_thinking() {
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let with_budget = |messages: Value| {
        let thinking = json!({"type": "enabled", "budget_tokens": 1024});
        with(json!({"messages": messages, "thinking": thinking}))
    };
    let begun = called(json!([call("a")]), json!([result("a")]));
    let error = check_request(&with_budget(begun.clone()), &[]).unwrap_err();
    assert!(error.message.starts_with(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    ));
    let text = json!({"type": "text", "text": "and?"});
    for messages in [
        called(json!([thought, call("a")]), json!([result("a")])),
        called(json!([call("a")]), json!([result("a"), text])),
        json!([{"role": "user", "content": "hi"}]),
    ] {
        assert_eq!(check_request(&with_budget(messages), &[]), Ok(()));
    }
    accepts(json!({"messages": begun}));
}

#[test]
fn invalid_tool_choices_are_rejected() {
    let tools = json!([{"name": "a", "input_schema": {"type": "object"}}]);
    refuses(
        json!({"tool_choice": {"type": "auto"}}),
        "tool_choice: tool_choice may only be specified while providing tools",
    );
    refuses(
        json!({"tools": tools, "tool_choice": {"type": "tool", "name": "b"}}),
        "Tool 'b' not found in provided tools",
    );
    refuses(
        json!({"tools": tools, "tool_choice": {"type": "tool"}}),
        "tool_choice.tool.name: Field required",
    );
    refuses(
        json!({"tools": tools, "tool_choice": {"type": "none", "disable_parallel_tool_use": true}}),
        "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted",
    );
    refuses(
        json!({"tools": tools, "tool_choice": {"type": "required"}}),
        "tool_choice: Input tag 'required' found using 'type' does not match any of the expected \
         tags: 'auto', 'any', 'tool', 'none'",
    );
    refuses(
        json!({
            "tools": tools,
            "tool_choice": {"type": "any"},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        }),
        "Thinking may not be enabled when tool_choice forces tool use.",
    );
}

#[test]
fn shapes_file_follows_the_grammar() {
    crate::shape::tests::check_shapes(Wording, &["betas", "places"]);
}

/// Returns the fields of a request whose conversation has a search result with a reference to `found`.
fn searched(tools: Value, found: &str) -> Value {
    let references = json!([{"type": "tool_reference", "tool_name": found}]);
    json!({"tools": tools, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_bm25", "input": {"query": "a"}},
            {"type": "tool_search_tool_result", "tool_use_id": "s1", "content":
                {"type": "tool_search_tool_search_result", "tool_references": references}},
            {"type": "text", "text": "so"},
        ]},
        {"role": "user", "content": "and?"},
    ]})
}

#[test]
fn deferred_tools_are_checked() {
    let search = json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"});
    let add = json!({"name": "add", "input_schema": {"type": "object"}, "defer_loading": true});
    accepts(searched(json!([search, add]), "add"));
    accepts(searched(
        json!([search, add, {"type": "web_search_20250305", "name": "web_search"}]),
        "web_search",
    ));
    let gone = "Tool reference 'sub' not found in available tools";
    refuses(searched(json!([search, add]), "sub"), gone);
    // A search of the client returns references in the result of a call.
    let reference = json!([{"type": "tool_reference", "tool_name": "sub"}]);
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call("c1")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": reference}]},
    ]);
    refuses(json!({"tools": [search, add], "messages": messages}), gone);
    refuses(
        json!({"tools": [add]}),
        "All tools have defer_loading set. At least one tool must be non-deferred.",
    );
    let mut cached = add.clone();
    cached["cache_control"] = json!({"type": "ephemeral"});
    refuses(
        json!({"tools": [search, cached]}),
        "Tool 'add' cannot have both defer_loading=true and cache_control set. Tools with \
         defer_loading cannot use prompt caching.",
    );
}
