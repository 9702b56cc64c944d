//! Regression tests for faults that the fuzzers found, each with a minimal input.

use neuron_fuzz_properties::{response, stream};

/// Encodes a stream of server-sent events as an input. The first byte selects the way to cut the stream.
fn events(data: &[&str]) -> Vec<u8> {
    let events = data.iter().map(|data| format!("data: {data}\n\n"));
    format!("\0{}", events.collect::<String>()).into_bytes()
}

// Text deltas in a block of another type were returned as events, but were missing in the message.
#[test]
fn delta_of_the_wrong_type_for_its_block_is_dropped() {
    for (kind, delta) in [
        ("new", r#"{"type":"text_delta","text":"a"}"#),
        ("thinking", r#"{"type":"text_delta","text":"a"}"#),
        ("text", r#"{"type":"thinking_delta","thinking":"a"}"#),
    ] {
        stream::anthropic(&events(&[
            r#"{"type":"message_start","message":{"content":[]}}"#,
            &format!(
                r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"{kind}","text":"b"}}}}"#
            ),
            &format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#),
            r#"{"type":"message_stop"}"#,
        ]));
    }
}

// A tool call started and did not end if another item with the same index replaced it.
#[test]
fn tool_call_ends_when_another_item_replaces_it() {
    let call = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"n"}}"#;
    let message = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[]}}"#;
    let end = r#"{"type":"response.completed","response":{"id":"r"}}"#;
    stream::responses(&events(&[call, message, end]));
    stream::responses(&events(&[call, call, end]));
}

// A delta with a refusal was returned, and then a value of another type replaced the refusal in the message.
#[test]
fn later_value_of_another_type_keeps_the_streamed_refusal() {
    for more in [
        r#"{"refusal":"No.","audio":{"transcript":"a"}}"#,
        r#"{"refusal":-1,"audio":{"transcript":[]}}"#,
        r#"{"refusal":"Sorry","audio":{"transcript":"b"}}"#,
        r#"{"audio":7}"#,
    ] {
        let first = r#"{"choices":[{"delta":{"refusal":"No.","audio":{"transcript":"a"}}}]}"#;
        let second = format!(r#"{{"choices":[{{"delta":{more}}}]}}"#);
        stream::chat(&events(&[first, &second, "[DONE]"]));
        stream::chat(&events(&[&second, first, "[DONE]"]));
    }
}

// If a response had both a refusal and an audio transcript, the message's text contained only one of them.
#[test]
fn message_contains_both_refusal_and_transcript() {
    response::chat(
        br#"{"choices":[{"message":{"content":"a","refusal":"b","audio":{"transcript":"c"}}}]}"#,
    );
}
