//! Faults that the fuzzers found, each with a minimal input.

use neuron_fuzz_properties::{response, stream};

/// Encodes a stream of server-sent events. The first byte defines how it is cut.
fn events(data: &[&str]) -> Vec<u8> {
    let events = data.iter().map(|data| format!("data: {data}\n\n"));
    format!("\0{}", events.collect::<String>()).into_bytes()
}

// Deltas of text in a block that is not a text were shown, but were missing in the message.
#[test]
fn text_in_a_block_that_is_not_modelled_is_not_said() {
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

// A call began and did not end if another item replaced it.
#[test]
fn a_call_ends_when_another_item_takes_its_place() {
    let call = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"n"}}"#;
    let message = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[]}}"#;
    let end = r#"{"type":"response.completed","response":{"id":"r"}}"#;
    stream::responses(&events(&[call, message, end]));
    stream::responses(&events(&[call, call, end]));
}

// A refusal was shown, and then a value of another type replaced it.
#[test]
fn what_was_said_stays() {
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

// The message's text had only one of a refusal and a transcript in the same response.
#[test]
fn a_refusal_and_speech_are_both_said() {
    response::chat(
        br#"{"choices":[{"message":{"content":"a","refusal":"b","audio":{"transcript":"c"}}}]}"#,
    );
}
