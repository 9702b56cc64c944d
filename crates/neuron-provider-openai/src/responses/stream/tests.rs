//! Tests that decode streams without HTTP. They cover every event and the known deviations of compatible servers. Each
//! stream is also split and truncated at every byte.

use neuron_model::{CompletionResponse, Message, Role, StopReason, TokenUsage};
use neuron_testing::Wire;
use neuron_testing::openai::{responses_body, responses_bytes};
use serde_json::json;

use super::*;
use crate::stream_checks::*;

fn read(events: &[Value]) -> Vec<StreamEvent> {
    read_bytes::<ResponsesDecoder>(&sse(events))
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": [], "usage": null}})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "model": "m", "status": "completed", "output": output, "usage": {"input_tokens": 9, "output_tokens": 3}}})
}

fn event(kind: &str, place: usize, mut fields: Value) -> Value {
    fields["type"] = format!("response.{kind}").into();
    fields["output_index"] = place.into();
    fields
}

fn added(place: usize, item: &Value) -> Value {
    event("output_item.added", place, json!({"item": item}))
}

fn done(place: usize, item: &Value) -> Value {
    event("output_item.done", place, json!({"item": item}))
}

fn said(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}]})
}

fn called(id: &str, arguments: Value) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "look", "arguments": arguments})
}

fn reasoned(summary: &[&str]) -> Value {
    let parts: Vec<_> =
        summary.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
    json!({"type": "reasoning", "id": "rs_1", "summary": parts})
}

/// Checks the deltas and items that a stream is decoded to. `middle` contains the stream's events except its first and
/// last event.
#[track_caller]
fn check(middle: &[Value], deltas: &[&str], items: &[Value]) {
    // The last event may contain all items, an empty list or no list.
    for output in [json!(items), json!([]), json!(null)] {
        let events: Vec<_> = [created()]
            .into_iter()
            .chain(middle.iter().cloned())
            .chain([completed(output)])
            .collect();
        let events = read(&events);
        let content: Vec<_> = items.iter().cloned().map(item).collect();
        assert_eq!(response_of(&events).message.content, content);
        assert_eq!(short(&events), deltas);
    }
}

fn everything() -> CompletionResponse {
    let thinking = ContentBlock::Thinking { thinking: "hm é".into(), signature: "sig".into() };
    let call = ContentBlock::ToolUse {
        id: "c1".into(),
        name: "look".into(),
        input: json!({"é": ["\"\n"]}),
    };
    CompletionResponse {
        id: "resp_7".into(),
        model: "m".into(),
        message: Message {
            role: Role::Assistant,
            content: vec![thinking, ContentBlock::Text("añ🦀".into()), call],
        },
        usage: TokenUsage {
            input_tokens: 50,
            output_tokens: 9,
            cache_read_tokens: Some(40),
            cache_creation_tokens: Some(3),
            reasoning_tokens: Some(2),
            iterations: None,
            cost: None,
        },
        stop_reason: StopReason::ToolUse,
    }
}

#[test]
fn stream_equals_whole_response() {
    let body = responses_body(&everything()).to_string();
    let whole = crate::responses::response::read(body.as_bytes(), &Secret::default()).unwrap();
    assert_eq!(whole.message.content.iter().filter(|block| !block.is_mark()).count(), 3);
    let unusual = Wire::default().crlf().no_space().comments();
    for (chunk_chars, wire) in [(1, Wire::default()), (3, unusual), (1000, Wire::default())] {
        let bytes = responses_bytes(&everything(), chunk_chars, &wire);
        let events = read_bytes::<ResponsesDecoder>(&bytes);
        assert_eq!(*response_of(&events), whole);
    }
}

#[test]
fn stream_is_decoded_for_every_split_and_rejected_if_truncated() {
    let bytes = responses_bytes(&everything(), 16, &Wire::default());
    // A part of the blank line that ends the last event may be missing.
    check_every_byte::<ResponsesDecoder>(&bytes, bytes.trim_ascii_end().len() + 1);
}

#[test]
fn deltas_are_emitted_as_they_arrive() {
    let (message, call) = (said("añ"), called("c1", json!("{\"a\":1}")));
    check(
        &[
            added(0, &said("")),
            event("content_part.added", 0, json!({"content_index": 0, "part": {}})),
            event("output_text.delta", 0, json!({"delta": "a", "obfuscation": "xyz"})),
            event("output_text.delta", 0, json!({"delta": ""})),
            event("output_text.delta", 0, json!({"delta": "ñ"})),
            event("output_text.done", 0, json!({"text": "añ"})),
            done(0, &message),
            added(1, &called("c1", json!(""))),
            event("function_call_arguments.delta", 1, json!({"delta": "{\"a\""})),
            event("function_call_arguments.delta", 1, json!({"delta": ":1}"})),
            event("function_call_arguments.done", 1, json!({"arguments": "{\"a\":1}"})),
            done(1, &call),
        ],
        &[
            "text a",
            "text ñ",
            "start c1 look",
            "input c1 {\"a\"",
            "input c1 :1}",
            "end c1",
            "call c1 look {\"a\":1}",
        ],
        &[message, call],
    );
}

#[test]
fn interleaved_calls_are_kept_apart() {
    let (first, second) = (called("c1", json!("{}")), called("c2", json!("{\"b\":2}")));
    check(
        &[
            added(0, &called("c1", json!(""))),
            added(1, &called("c2", json!(""))),
            event("function_call_arguments.delta", 1, json!({"delta": "{\"b\":2}"})),
            event("function_call_arguments.delta", 0, json!({"delta": "{}"})),
            done(1, &second),
            done(0, &first),
        ],
        &[
            "start c1 look",
            "start c2 look",
            "input c2 {\"b\":2}",
            "input c1 {}",
            "end c2",
            "call c2 look {\"b\":2}",
            "end c1",
            "call c1 look {}",
        ],
        &[first, second],
    );
}

#[test]
fn reasoning_parts_are_joined_as_paragraphs() {
    let delta = |place: usize, part: usize, text: &str| {
        event("reasoning_summary_text.delta", place, json!({"summary_index": part, "delta": text}))
    };
    let part = |part: usize| {
        event("reasoning_summary_part.added", 0, json!({"summary_index": part, "part": {}}))
    };
    let (first, second) = (reasoned(&["ab", "", "c"]), reasoned(&["d"]));
    check(
        &[
            added(0, &reasoned(&[])),
            part(0),
            delta(0, 0, "a"),
            delta(0, 0, "b"),
            part(1),
            delta(0, 1, ""),
            part(2),
            delta(0, 2, "c"),
            done(0, &first),
            delta(1, 0, "d"),
            done(1, &second),
        ],
        &["thinking a", "thinking b", "thinking \n\n", "thinking c", "thinking d"],
        &[first, second],
    );
    let open = json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "raw"}]});
    check(
        &[
            event("reasoning_text.delta", 0, json!({"content_index": 0, "delta": "raw"})),
            done(0, &open),
        ],
        &["thinking raw"],
        &[open],
    );
}

/// Deltas must contain only the summary of reasoning that has both a summary and a text. The final message contains
/// only the summary too. Regression test. The deltas contained both.
#[test]
fn reasoning_with_summary_and_text_is_emitted_once() {
    let both =
        json!({"type": "reasoning", "summary": [{"text": "short"}], "content": [{"text": "long"}]});
    check(
        &[
            event("reasoning_summary_text.delta", 0, json!({"delta": "short"})),
            event("reasoning_text.delta", 0, json!({"delta": "long"})),
            done(0, &both),
        ],
        &["thinking short"],
        &[both],
    );
}

#[test]
fn refusal_is_emitted_as_text() {
    let refused = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    let events = [
        event("refusal.delta", 0, json!({"delta": "No."})),
        event("refusal.done", 0, json!({"refusal": "No."})),
        done(0, &refused),
    ];
    check(&events, &["text No."], std::slice::from_ref(&refused));
    let events = read(&[done(0, &refused), completed(json!([refused]))]);
    assert_eq!(response_of(&events).stop_reason, StopReason::Refusal);
}

#[test]
fn custom_call_has_free_text_input() {
    let custom =
        json!({"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "x y"});
    check(
        &[
            added(
                0,
                &json!({"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": ""}),
            ),
            event("custom_tool_call_input.delta", 0, json!({"delta": "x y"})),
            done(0, &custom),
        ],
        &["start c1 sql", "input c1 x y", "end c1", "call c1 sql \"x y\""],
        &[custom],
    );
}

/// The content of an item must be emitted at the item's end if no delta contained it. Some compatible servers send no
/// deltas.
#[test]
fn content_without_deltas_is_emitted_whole() {
    let items = [
        reasoned(&["a", "b"]),
        said("Hi"),
        called("c1", json!("{\"a\":1}")),
        called("c2", json!({"b": 2})),
        called("c3", json!("")),
    ];
    let deltas = [
        "thinking a\n\nb",
        "text Hi",
        "start c1 look",
        "input c1 {\"a\":1}",
        "end c1",
        "call c1 look {\"a\":1}",
        "start c2 look",
        "input c2 {\"b\":2}",
        "end c2",
        "call c2 look {\"b\":2}",
        "start c3 look",
        "end c3",
        "call c3 look {}",
    ];
    let whole: Vec<_> = items.iter().enumerate().map(|(place, item)| done(place, item)).collect();
    check(&whole, &deltas, &items);
    // Only the last event contains items.
    let events = read(&[created(), completed(json!(items))]);
    response_of(&events);
    assert_eq!(short(&events), deltas);
    // The last event contains more items than the events before it.
    let events = read(&[created(), done(0, &items[0]), completed(json!(items))]);
    response_of(&events);
    assert_eq!(short(&events), deltas);
}

/// Items with the same output index must all be kept. Regression test. The first item was lost if the last event
/// contained no items.
#[test]
fn items_with_equal_output_index_are_kept() {
    let items = [said("a"), called("c1", json!("{}"))];
    let whole: Vec<_> = items.iter().map(|item| done(0, item)).collect();
    let events = read(&[whole, vec![completed(json!([]))]].concat());
    assert_eq!(response_of(&events).message.content.len(), 2);
}

#[test]
fn call_whose_name_arrives_last_is_announced_at_its_end() {
    let call = called("c1", json!("{}"));
    check(
        &[
            added(0, &json!({"type": "function_call", "id": "fc_1", "status": "in_progress"})),
            event("function_call_arguments.delta", 0, json!({"delta": "{}"})),
            done(0, &call),
        ],
        &["start c1 look", "input c1 {}", "end c1", "call c1 look {}"],
        &[call],
    );
}

#[test]
fn truncated_arguments_are_not_executed() {
    let mut cut = called("c1", json!("{\"a\":"));
    cut["status"] = json!("incomplete");
    let incomplete = json!({"type": "response.incomplete", "response": {"id": "resp_1", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [cut]}});
    let events = read(&[created(), done(0, &cut), incomplete]);
    let response = response_of(&events);
    assert_eq!(response.stop_reason, StopReason::MaxTokens);
    assert_eq!(short(&events), ["start c1 look", "input c1 {\"a\":", "end c1"]);
    // The last event has no id and no model, so those of the first event are used.
    assert_eq!((response.id.as_str(), response.model.as_str()), ("resp_1", "m"));
}

/// Events without output indices must be assigned to their items by id. llama.cpp's server sends such streams
/// (`to_json_oaicompat_resp` in `tools/server/server-task.cpp`). Its deltas of arguments contain only the `call_id`,
/// and it ends all items at the end of the stream.
#[test]
fn items_without_output_index_are_matched_by_id() {
    let event = |kind: &str, mut fields: Value| {
        fields["type"] = format!("response.{kind}").into();
        fields
    };
    let call = |id: &str, arguments: &str, status: &str| json!({"type": "function_call", "status": status, "arguments": arguments, "call_id": id, "name": "look"});
    let added = |item: Value| event("output_item.added", json!({"item": item}));
    let input = |id: &str, delta: &str| {
        event("function_call_arguments.delta", json!({"item_id": id, "delta": delta}))
    };
    let thought = |parts: Value| json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": parts, "encrypted_content": ""});
    let said = |parts: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "content": parts});
    let items = [
        thought(json!([{"type": "reasoning_text", "text": "hm"}])),
        said(json!([{"type": "output_text", "text": "Hi"}])),
        call("fc_1", "{\"a\":1}", "completed"),
        call("fc_2", "{\"b\":2}", "completed"),
    ];
    let begun = [
        added(thought(json!([]))),
        event("reasoning_text.delta", json!({"item_id": "rs_1", "delta": "hm"})),
        added(said(json!([]))),
        event("output_text.delta", json!({"item_id": "msg_1", "delta": "Hi"})),
        added(call("fc_1", "", "in_progress")),
        input("fc_1", "{\"a\":"),
        added(call("fc_2", "", "in_progress")),
        input("fc_2", "{\"b\":2}"),
        input("fc_1", "1}"),
    ];
    let done = items.iter().map(|item| event("output_item.done", json!({"item": item})));
    let deltas = [
        "thinking hm",
        "text Hi",
        "start fc_1 look",
        "input fc_1 {\"a\":",
        "start fc_2 look",
        "input fc_2 {\"b\":2}",
        "input fc_1 1}",
        "end fc_1",
        "call fc_1 look {\"a\":1}",
        "end fc_2",
        "call fc_2 look {\"b\":2}",
    ];
    let middle: Vec<_> = begun.into_iter().chain(done).collect();
    check(&middle, &deltas, &items);
    let events = [vec![created()], middle, vec![completed(json!(items))]].concat();
    let bytes = sse(&events);
    check_every_byte::<ResponsesDecoder>(&bytes, bytes.trim_ascii_end().len() + 1);
}

/// Calls must not be mixed up if their ids or indices are unreliable. Copilot changes the id of an item in every event.
/// Some proxies send the same index for all items.
#[test]
fn unreliable_index_or_id_does_not_mix_calls() {
    let call = |item: &str, id: &str, arguments: &str| json!({"type": "function_call", "id": item, "call_id": id, "name": "look", "arguments": arguments});
    let input = |place: usize, item: &str, delta: &str| {
        event("function_call_arguments.delta", place, json!({"item_id": item, "delta": delta}))
    };
    let deltas = [
        "start c1 look",
        "start c2 look",
        "input c1 {}",
        "input c2 {\"b\":2}",
        "end c1",
        "call c1 look {}",
        "end c2",
        "call c2 look {\"b\":2}",
    ];
    let items = [call("x5", "c1", "{}"), call("x6", "c2", "{\"b\":2}")];
    check(
        &[
            added(0, &call("x1", "c1", "")),
            added(1, &call("x2", "c2", "")),
            input(0, "x3", "{}"),
            input(1, "x4", "{\"b\":2}"),
            done(0, &items[0]),
            done(1, &items[1]),
        ],
        &deltas,
        &items,
    );
    let items = [call("fc_1", "c1", "{}"), call("fc_2", "c2", "{\"b\":2}")];
    check(
        &[
            added(0, &call("fc_1", "c1", "")),
            added(0, &call("fc_2", "c2", "")),
            input(0, "fc_1", "{}"),
            input(0, "fc_2", "{\"b\":2}"),
            done(0, &items[0]),
            done(0, &items[1]),
        ],
        &deltas,
        &items,
    );
    // The second call has no `response.output_item.added` event.
    check(
        &[added(0, &call("fc_1", "c1", "")), done(0, &items[1]), done(0, &items[0])],
        &[
            "start c1 look",
            "start c2 look",
            "input c2 {\"b\":2}",
            "end c2",
            "call c2 look {\"b\":2}",
            "input c1 {}",
            "end c1",
            "call c1 look {}",
        ],
        &items,
    );
}

/// A repeated first event of an item must not begin another item. Some proxies send the first event again with more
/// fields. Some also repeat the item's last event.
#[test]
fn repeated_begin_of_item_is_ignored() {
    let call = called("c1", json!("{}"));
    let begun = called("c1", json!(""));
    let pieces =
        event("function_call_arguments.delta", 0, json!({"delta": "{}", "item_id": "fc_1"}));
    check(
        &[
            added(0, &begun),
            added(0, &begun),
            pieces,
            added(0, &begun),
            done(0, &call),
            done(0, &call),
        ],
        &["start c1 look", "input c1 {}", "end c1", "call c1 look {}"],
        std::slice::from_ref(&call),
    );
    // The first event has no name, and the repeated event has one.
    let unnamed = json!({"type": "function_call", "id": "fc_1"});
    check(
        &[added(0, &unnamed), added(0, &begun), done(0, &call)],
        &["start c1 look", "input c1 {}", "end c1", "call c1 look {}"],
        &[call],
    );
    let message = said("a");
    check(
        &[
            added(0, &said("")),
            added(0, &said("")),
            event("output_text.delta", 0, json!({"delta": "a"})),
            done(0, &message),
        ],
        &["text a"],
        &[message],
    );
}

/// A call must be in the message if its start was emitted, even if its end event is missing. Regression test. The call
/// was lost, so it never ran.
#[test]
fn call_without_end_event_is_in_the_message() {
    let begun = called("c1", json!(""));
    let pieces = event("function_call_arguments.delta", 0, json!({"delta": "{\"a\":1}"}));
    let events = read(&[created(), added(0, &begun), pieces, completed(json!([]))]);
    let response = response_of(&events);
    assert_eq!(
        short(&events),
        ["start c1 look", "input c1 {\"a\":1}", "end c1", "call c1 look {\"a\":1}"]
    );
    assert_eq!(response.message.content, [item(called("c1", json!("{\"a\":1}")))]);
    assert_eq!(response.stop_reason, StopReason::ToolUse);
}

/// If the end event of an item is repeated, the item must be kept once. Regression test. Texts appeared twice, and a
/// call without an id ran twice.
#[test]
fn item_that_ends_twice_is_kept_once() {
    let message = done(0, &said("a"));
    let mut call = called("c1", json!("{}"));
    call.as_object_mut().unwrap().remove("call_id");
    call.as_object_mut().unwrap().remove("id");
    let call = done(1, &call);
    let events =
        read(&[created(), message.clone(), message, call.clone(), call, completed(json!([]))]);
    let response = response_of(&events);
    assert_eq!(response.message.text(), "a");
    assert_eq!(response.message.tool_uses().count(), 1);
    // Only the first event has the `call_id`. The status of the item changes.
    let mut ended = called("c1", json!("{}"));
    ended.as_object_mut().unwrap().remove("call_id");
    let mut first = ended.clone();
    (first["status"], ended["status"]) = ("in_progress".into(), "completed".into());
    let begun = added(0, &called("c1", json!("")));
    let events = read(&[created(), begun, done(0, &first), done(0, &ended), completed(json!([]))]);
    let calls: Vec<_> =
        response_of(&events).message.tool_uses().map(|call| call.id.to_owned()).collect();
    assert_eq!(calls, ["c1"]);
}

#[test]
fn text_without_end_event_is_in_the_message() {
    let piece = |text: &str| event("output_text.delta", 0, json!({"delta": text}));
    let events =
        read(&[created(), added(0, &said("")), piece("a"), piece("b"), completed(json!([]))]);
    let response = response_of(&events);
    assert_eq!(response.message.text(), "ab");
    assert_eq!(short(&events), ["text a", "text b"]);
    // Copilot sends a different id in the last event of a message.
    let (mut begun, mut ended) = (said(""), said("ab"));
    (begun["id"], ended["id"]) = ("a".into(), "b".into());
    let unplaced = |kind: &str, item: &Value| json!({"type": format!("response.output_item.{kind}"), "item": item});
    let events = read(&[
        created(),
        unplaced("added", &begun),
        json!({"type": "response.output_text.delta", "item_id": "a", "delta": "ab"}),
        unplaced("done", &ended),
        completed(json!([])),
    ]);
    assert_eq!(response_of(&events).message.text(), "ab");
}

/// A call must get a new id if its id is missing or repeats an earlier id of the response. Bedrock restarts its call
/// ids at `call_0` in each response, and some servers send no ids.
#[test]
fn missing_and_repeated_ids_are_generated() {
    let call = |id: Value, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": arguments});
    let items = [
        call(json!("call_0"), "{}"),
        call(json!("call_0"), "{\"b\":2}"),
        call(json!(""), "{}"),
        call(json!(null), "{}"),
    ];
    let whole = json!({"id": "resp_1", "status": "completed", "output": items});
    let whole = crate::responses::response::read(whole.to_string().as_bytes(), &Secret::default());
    let whole = whole.unwrap().message;
    let ids: Vec<_> = whole.tool_uses().map(|call| call.id).collect();
    assert_eq!(ids, ["call_0", "call_0_2", "call_resp_1", "call_resp_1_2"]);
    let begun = |place: usize| {
        let mut begun = items[place].clone();
        begun["arguments"] = json!("");
        added(place, &begun)
    };
    let input = event(
        "function_call_arguments.delta",
        1,
        json!({"delta": "{\"b\":2}", "item_id": "call_0"}),
    );
    for with_places in [true, false] {
        let mut events = vec![created(), begun(0), done(0, &items[0]), begun(1), input.clone()];
        events.extend((1..4).map(|place| done(place, &items[place])));
        events.push(completed(json!([])));
        if !with_places {
            for event in &mut events {
                event.as_object_mut().unwrap().shift_remove("output_index");
            }
        }
        let events = read(&events);
        assert_eq!(response_of(&events).message, whole);
        assert_eq!(
            short(&events)[4..8],
            [
                "start call_0_2 look",
                "input call_0_2 {\"b\":2}",
                "end call_0_2",
                "call call_0_2 look {\"b\":2}"
            ]
        );
    }
}

#[test]
fn null_fields_do_not_fail_a_response() {
    let message = said("a");
    check(
        &[
            json!({"type": "response.output_item.added", "output_index": null, "item": null}),
            json!({"type": "response.output_text.delta", "output_index": null, "item_id": null, "content_index": null, "delta": "a"}),
            json!({"type": "response.output_text.delta", "output_index": null, "delta": null}),
            json!({"type": "response.output_item.done", "output_index": null, "item": message}),
        ],
        &["text a"],
        &[message],
    );
}

/// The event `response.incomplete` must set the stop reason even if the response has no status. Regression test. The
/// response was reported as complete.
#[test]
fn incomplete_event_sets_stop_reason_without_status() {
    for response in [json!(null), json!({}), json!({"status": null, "output": []})] {
        let event = json!({"type": "response.incomplete", "response": response});
        let events = read(&[created(), event]);
        let expected = StopReason::Other("incomplete".into());
        assert_eq!(response_of(&events).stop_reason, expected);
    }
}

#[test]
fn unknown_events_are_ignored() {
    let message = said("a");
    check(
        &[
            json!({"type": "response.audio.delta", "delta": {"an": "object"}, "output_index": "x"}),
            json!({"type": "response.web_search_call.searching", "output_index": 0, "item": 7}),
            json!({"type": "keepalive", "sequence_number": 3}),
            json!({"no": "type"}),
            event("output_text.delta", 0, json!({"delta": "a"})),
            event("output_text.annotation.added", 0, json!({"annotation": {}})),
            done(0, &message),
        ],
        &["text a"],
        &[message],
    );
    let bytes = [b": hi\n\ndata:\n\ndata: [DONE]\n\n".to_vec(), sse(&[completed(json!([]))])];
    response_of(&read_bytes::<ResponsesDecoder>(&bytes.concat()));
}

#[test]
fn data_after_the_end_is_ignored() {
    let bytes = [sse(&[completed(json!([]))]), b"data: nonsense\n\ndata: [DONE]\n\n".to_vec()];
    response_of(&read_bytes::<ResponsesDecoder>(&bytes.concat()));
}

#[test]
fn error_event_ends_the_stream() {
    let failed = |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    for (json, kind, text) in [
        (
            json!({"type": "error", "error": {"type": "server_error", "code": null, "message": "why"}}),
            "StreamError",
            "stream error: in the stream server_error: why",
        ),
        (
            json!({"type": "error", "code": "server_is_overloaded", "message": "why", "param": null}),
            "ServiceUnavailable",
            "service unavailable: in the stream server_is_overloaded: why",
        ),
        (
            json!({"type": "error", "code": null, "message": "why"}),
            "StreamError",
            "stream error: in the stream: why",
        ),
        (
            json!({"type": "error"}),
            "StreamError",
            "stream error: in the stream: the server gives no reason",
        ),
        (
            failed(json!({"code": "rate_limit_exceeded", "message": "why"})),
            "RateLimit",
            "rate limited",
        ),
        (
            failed(json!(null)),
            "StreamError",
            "stream error: in the stream: the server gives no reason",
        ),
        (
            json!({"type": "response.cancelled", "response": {"status": "cancelled"}}),
            "StreamError",
            "stream error: in the stream: the server gives no reason",
        ),
        (
            json!({"error": {"message": "why sk-secret", "code": "invalid_api_key"}}),
            "Authentication",
            "authentication failed: in the stream invalid_api_key: why [redacted]",
        ),
    ] {
        let events = [created(), event("output_text.delta", 0, json!({"delta": "a"})), json];
        assert_eq!(check_error(&read(&events), kind), text);
    }
}

#[test]
fn invalid_event_is_an_error() {
    let bytes = |data: &str| read_bytes::<ResponsesDecoder>(format!("data: {data}\n\n").as_bytes());
    for data in ["nonsense", "[7]", "{\"type\":\"response.output_text.delta\",\"delta\":7}"] {
        let text = check_error(&bytes(data), "StreamError");
        assert!(text.contains("an event is not as expected"), "{text}");
    }
    for data in ["{}", "[DONE]", ""] {
        let text = check_error(&bytes(data), "StreamError");
        assert!(text.contains("ended before the answer was complete"), "{text}");
    }
}
