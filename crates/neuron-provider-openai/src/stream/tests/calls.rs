//! Tests that assemble tool calls from streamed fragments, with every format of arguments.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// Checks the calls of a response. Each element of `deltas` is the list of call fragments in one delta.
#[track_caller]
fn check_calls(deltas: impl IntoIterator<Item = Value>, calls: &[ContentBlock]) {
    check(deltas.into_iter().map(|calls| json!({"tool_calls": calls})), calls);
}

#[test]
fn fragments_are_matched_by_index_id_or_position() {
    let (null, empty) = (json!(null), json!(""));
    let (a, b) = (json!({"a": 1}), json!({"b": 2}));
    let calls = [call("x", "look", a.clone()), call("y", "find", b.clone())];
    let begin = |index: Value, id: &str, name: &str, arguments: &str| {
        json!([function(index, json!(id), json!(name), json!(arguments))])
    };
    let more = |index: Value, id: &Value, name: &Value, arguments: &str| {
        json!([function(index, id.clone(), name.clone(), json!(arguments))])
    };
    // The fragments of two calls are interleaved.
    let (zero, one) = (json!(0), json!(1));
    check_calls(
        [
            begin(zero.clone(), "x", "look", ""),
            begin(one.clone(), "y", "find", "{"),
            more(zero.clone(), &null, &null, "{\"a\":"),
            more(one, &null, &empty, "\"b\": 2}"),
            more(zero.clone(), &empty, &null, "1}"),
        ],
        &calls,
    );
    // The fragments have no index, or all the same index.
    for index in [null.clone(), zero] {
        check_calls(
            [
                begin(index.clone(), "x", "look", ""),
                more(index.clone(), &null, &null, "{\"a\":"),
                more(index.clone(), &empty, &empty, "1}"),
                begin(index.clone(), "y", "find", "{\"b\":"),
                more(index.clone(), &null, &null, "2}"),
            ],
            &calls,
        );
        // Each fragment repeats the id and the name.
        check_calls(
            [
                begin(index.clone(), "x", "look", "{\"a\":"),
                begin(index.clone(), "y", "find", "{\"b\":"),
                begin(index.clone(), "x", "look", "1}"),
                begin(index.clone(), "y", "find", "2}"),
            ],
            &calls,
        );
        // One delta contains two complete calls.
        check_calls(
            [json!([
                function(index.clone(), json!("x"), json!("look"), json!("{\"a\":1}")),
                function(index.clone(), json!("y"), json!("find"), b.clone()),
            ])],
            &calls,
        );
    }
    // Only one fragment has the index.
    check_calls(
        [begin(null.clone(), "x", "look", ""), more(json!(0), &null, &null, "{\"a\":1}")],
        &calls[..1],
    );
    check_calls(
        [
            begin(json!(0), "x", "look", "{\"a\":"),
            json!([{"id": "x", "function": {"arguments": "1}"}}]),
        ],
        &calls[..1],
    );
}

/// Complete calls without index and id must be separate calls. Regression test. The second call was treated as a
/// fragment of the first call, with the arguments `{"a":1}{"b":2}`.
#[test]
fn complete_calls_without_index_and_id_are_separate() {
    let whole =
        |name: &str, arguments: Value| json!({"function": {"name": name, "arguments": arguments}});
    let (a, b) = (json!({"a": 1}), json!({"b": 2}));
    let made = |id: &str, name: &str, input: &Value| call(id, name, input.clone());
    let (id, next_id) = ("call_cmpl_1", "call_cmpl_1_2");
    for (first, second) in [("look", "find"), ("look", "look")] {
        let calls = [made(id, first, &a), made(next_id, second, &b)];
        let (one, two) = (whole(first, json!("{\"a\":1}")), whole(second, b.clone()));
        check_calls([json!([one]), json!([two])], &calls);
        check_calls([json!([one, two])], &calls);
    }
    let nothing = json!({});
    let calls = [made(id, "look", &nothing), made(next_id, "look", &nothing)];
    check_calls([json!([whole("look", json!("")), whole("look", json!(""))])], &calls);
    check_calls([json!([whole("look", json!("{}"))]), json!([whole("look", json!("{}"))])], &calls);
}

/// If every fragment of a call repeats the name, the name must be kept once. Regression test. The names were
/// concatenated.
#[test]
fn repeated_name_is_not_appended() {
    let piece = |arguments: &str| json!([{"index": 0, "function": {"name": "look", "arguments": arguments}}]);
    let calls = [call("call_cmpl_1", "look", json!({"a": 1}))];
    check_calls([piece(""), piece("{\"a\""), piece(":1}")], &calls);
    let piece = |arguments: &str| json!([{"function": {"name": "look", "arguments": arguments}}]);
    check_calls([piece(""), piece("{\"a\""), piece(":1}")], &calls);
}

#[test]
fn call_repeated_at_the_end_is_kept_once() {
    let whole = json!([function(json!(0), json!("x"), json!("look"), json!("{\"a\":1}"))]);
    check_calls([whole.clone(), whole], &[call("x", "look", json!({"a": 1}))]);
}

#[test]
fn id_after_name_does_not_begin_another_call() {
    check_calls(
        [
            json!([{"index": 0, "function": {"name": "look"}}]),
            json!([{"index": 0, "id": "late", "function": {"arguments": "{\"a\":1}"}}]),
        ],
        &[call("call_cmpl_1", "look", json!({"a": 1}))],
    );
    check_calls(
        [
            json!([{"index": 0, "id": "early"}]),
            json!([{"index": 0, "function": {"arguments": "{\"a\""}}]),
            json!([{"index": 0, "function": {"name": "look", "arguments": ":1}"}}]),
        ],
        &[call("early", "look", json!({"a": 1}))],
    );
}

#[test]
fn empty_stub_is_not_a_call() {
    check_calls([json!([{}]), json!([{"index": 0}]), json!([]), json!(null)], &[]);
    check_calls([json!([{"index": null, "id": null, "function": null, "type": "function"}])], &[]);
}

#[test]
fn arguments_are_parsed_from_every_format() {
    let whole =
        |arguments: Value| json!([function(json!(0), json!("x"), json!("look"), arguments)]);
    for (arguments, input) in [
        (json!(""), json!({})),
        (json!(null), json!({})),
        (json!({}), json!({})),
        (json!({"a": {"b": [1]}}), json!({"a": {"b": [1]}})),
        (json!("{\"z\": 1, \"a\": 2}"), json!({"z": 1, "a": 2})),
        (json!("{\"a\":"), ToolCall::invalid_json_input("{\"a\":")),
        (json!("nonsense"), ToolCall::invalid_json_input("nonsense")),
    ] {
        check_calls([whole(arguments)], &[call("x", "look", input)]);
    }
}

#[test]
fn custom_call_has_free_text_input() {
    let events = read(&answer(
        [
            json!({"tool_calls": [{"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": ""}}]}),
            json!({"tool_calls": [{"index": 0, "custom": {"input": "select "}}]}),
            json!({"tool_calls": [{"index": 0, "custom": {"input": "1"}}]}),
        ],
        "tool_calls",
    ));
    let json =
        json!({"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}});
    let expected = raw(json, Some(call("c1", "sql", json!("select 1"))));
    assert_eq!(response_of(&events).message.content, [expected]);
}

/// The older field `function_call` must be parsed as a tool call in streams too. Regression test. The finish reason
/// announced a call, but the response had none.
#[test]
fn legacy_function_call_is_a_call() {
    let events = read(&answer(
        [
            json!({"function_call": {"name": "look", "arguments": ""}}),
            json!({"function_call": {"arguments": "{\"a\":"}}),
            json!({"function_call": {"arguments": "1}"}}),
        ],
        "function_call",
    ));
    let response = response_of(&events);
    let expected = call("call_cmpl_1", "look", json!({"a": 1}));
    assert_eq!(response.message.content, [expected]);
    assert_eq!(response.stop_reason, StopReason::ToolUse);
}

/// Generates a fragment of a call, in which any field may be missing.
fn piece() -> impl Strategy<Value = Value> {
    let one_of = |values: Vec<Value>| prop::sample::select(values);
    (
        one_of(vec![json!(null), json!(0), json!(1)]),
        one_of(vec![json!(null), json!(""), json!("x"), json!("y")]),
        one_of(vec![json!(null), json!(""), json!("look"), json!("find")]),
        one_of(vec![json!(null), json!(""), json!("{\"a\":"), json!("1}"), json!("{}"), json!({})]),
    )
        .prop_map(|(index, id, name, arguments)| function(index, id, name, arguments))
}

proptest! {
    #[test]
    fn deltas_match_the_message_for_any_fragments(
        deltas in prop::collection::vec(prop::collection::vec(piece(), 0..3), 0..6),
    ) {
        let deltas = deltas.into_iter().map(|calls| json!({"content": "a", "tool_calls": calls}));
        let events = read(&answer(deltas, "stop"));
        let Some(StreamEvent::ResponseComplete(response)) = events.last() else {
            panic!("{events:?}");
        };
        let ids: Vec<_> = response.message.tool_uses().map(|call| call.id).collect();
        // Duplicate ids that the server sent cannot be repaired.
        if ids.iter().collect::<HashSet<_>>().len() == ids.len() {
            response_of(&events);
        }
    }
}
