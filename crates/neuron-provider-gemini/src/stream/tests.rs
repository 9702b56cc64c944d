//! Tests of streams.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use neuron_model::StreamHandle;
use serde_json::{Value, json};

use crate::model::GOOGLE_AI;
use crate::wire;

use super::*;

fn chunk(parts: &Value) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        "modelVersion": "m", "responseId": "r",
    })
}

fn last(parts: &Value, reason: &str) -> Value {
    let mut chunk = chunk(parts);
    chunk["candidates"][0]["finishReason"] = json!(reason);
    chunk["usageMetadata"] =
        json!({"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12});
    chunk
}

fn call(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {"a": 1}, "id": name}})
}

fn signed_call() -> Value {
    let mut call = call("f");
    call["thoughtSignature"] = json!("s");
    call
}

fn bytes(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

fn handle(pieces: &[&[u8]]) -> StreamHandle {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    wire::read_stream(stream::iter(pieces))
}

fn read(bytes: &str) -> Result<CompletionResponse, ProviderError> {
    handle(&[bytes.as_bytes()]).into_response().now_or_never().unwrap()
}

/// Returns the events before the usage, in their debug form.
fn deltas(bytes: &str) -> Vec<String> {
    let events = handle(&[bytes.as_bytes()]).receiver.collect::<Vec<_>>();
    let events = events.now_or_never().unwrap();
    events.iter().filter(|event| event.is_delta()).map(|event| format!("{event:?}")).collect()
}

fn answer() -> [Value; 5] {
    [
        chunk(&json!([{"text": "h", "thought": true}])),
        chunk(&json!([{"text": "m", "thought": true}, {"text": "añ"}])),
        chunk(&json!([{"text": "🦀"}])),
        chunk(&json!([signed_call()])),
        last(&json!([call("g"), {"text": "", "thoughtSignature": "t"}]), "STOP"),
    ]
}

#[test]
fn stream_is_equal_for_every_split() {
    let bytes = bytes(&answer());
    let whole = read(&bytes).unwrap();
    assert_eq!(whole.message.text(), "añ🦀");
    assert_eq!((whole.id.as_str(), whole.model.as_str()), ("r", "m"));
    assert_eq!(whole.stop_reason, StopReason::ToolUse);
    assert_eq!((whole.usage.input_tokens, whole.usage.output_tokens), (9, 3));
    let ids: Vec<_> = whole.message.tool_uses().map(|call| call.id).collect();
    assert_eq!(ids, ["f", "g"]);
    assert_eq!(whole.message.content.len(), 5);
    for split in 0..=bytes.len() {
        let (first, second) = bytes.as_bytes().split_at(split);
        let response = handle(&[first, second]).into_response().now_or_never().unwrap();
        assert_eq!(response.unwrap(), whole, "split at {split}");
    }
}

#[test]
fn collected_stream_is_equal_to_the_response_of_the_stream() {
    let collected =
        |bytes: &[u8]| super::read(bytes, &Secret::new("sk-secret"), Origin::new(GOOGLE_AI, ""));
    let bytes = bytes(&answer());
    assert_eq!(collected(bytes.as_bytes()).unwrap(), read(&bytes).unwrap());
    for end in 0..bytes.len() - 1 {
        assert!(collected(&bytes.as_bytes()[..end]).is_err(), "cut at {end}");
    }
    for (bytes, text) in [
        (
            r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#,
            "service unavailable: in the answer UNAVAILABLE: busy",
        ),
        ("<html>sk-secret", "a stream was asked for, and the server sent: <html>[redacted]"),
        (
            "data: {\"candidates\":[]}\n\n",
            "stream error: the stream ended before the answer was complete",
        ),
    ] {
        assert_eq!(collected(bytes.as_bytes()).unwrap_err().to_string(), text);
    }
}

#[test]
fn truncated_stream_is_an_error() {
    let bytes = bytes(&answer());
    // The last event ends with a blank line, which is complete with its carriage return.
    let complete = bytes.len() - 1;
    for end in 0..bytes.len() {
        let cut = handle(&[&bytes.as_bytes()[..end]]).into_response().now_or_never().unwrap();
        let kind = cut.map_err(|error| error.kind()).map(|_| ());
        let expected = if end < complete { Err("StreamError") } else { Ok(()) };
        assert_eq!(kind, expected, "cut at {end}");
    }
}

#[test]
fn events_follow_the_parts() {
    let text = |text: &str| format!("TextDelta({text:?})");
    let deltas = deltas(&bytes(&answer()));
    assert_eq!(
        deltas[..4],
        ["ThinkingDelta(\"h\")".into(), "ThinkingDelta(\"m\")".into(), text("añ"), text("🦀")]
    );
    let rest: Vec<_> = deltas[4..].iter().map(|event| event.split(' ').next().unwrap()).collect();
    let call = ["ToolUseStart", "ToolUseInputDelta", "ToolUseEnd", "ToolUse"];
    assert_eq!(rest, [call, call].concat());
}

/// A call must not run before the reason why the response ended is known.
#[test]
fn events_of_calls_wait_for_the_end() {
    let start = bytes(&[chunk(&json!([{"text": "a"}, call("f"), {"text": "b"}]))]);
    assert_eq!(deltas(&start), ["TextDelta(\"a\")"]);
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
        let all = start.clone() + &bytes(&[last(&json!([]), reason)]);
        assert_eq!(deltas(&all), ["TextDelta(\"a\")", "TextDelta(\"b\")"]);
        let response = read(&all).unwrap();
        assert_eq!(response.message.tool_uses().count(), 0);
        assert_eq!(response.message.text(), "ab");
    }
    let all = start + &bytes(&[last(&json!([]), "STOP")]);
    assert_eq!(deltas(&all).len(), 6);
    assert!(deltas(&all)[5].starts_with("TextDelta"));
}

#[test]
fn calls_of_a_refusal_do_not_run() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    for end in [
        last(&json!([{"text": "b"}]), "ESCALATION"),
        last(&json!([]), "PUP_LIMITED_DISABLED"),
        blocked,
    ] {
        let all = bytes(&[chunk(&json!([{"text": "a"}, call("f")])), end]);
        let response = read(&all).unwrap();
        assert_eq!(response.stop_reason, StopReason::Refusal);
        assert_eq!(response.message.tool_uses().count(), 1);
        let deltas = deltas(&all);
        assert!(deltas.iter().any(|event| event.starts_with("ToolUseStart")), "{deltas:?}");
        assert!(!deltas.iter().any(|event| event.starts_with("ToolUse {")), "{deltas:?}");
    }
}

/// The API sends a `finishReason` after each round of code execution. Everything after the first of them was lost.
#[test]
fn stream_continues_after_a_finish_reason() {
    let code = |code: &str| json!({"executableCode": {"language": "PYTHON", "code": code}});
    let output =
        |output: &str| json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": output}});
    let mut usage = json!({"usageMetadata": {
        "promptTokenCount": 9, "candidatesTokenCount": 70, "totalTokenCount": 79,
    }});
    for trailer in ["", "FINISH_REASON_UNSPECIFIED"] {
        usage["candidates"] = json!([{"finishReason": trailer}]);
        let bytes = bytes(&[
            chunk(&json!([code("1")])),
            chunk(&json!([output("1")])),
            last(&json!([code("2")]), "STOP"),
            chunk(&json!([output("2")])),
            chunk(&json!([{"text": "It is "}])),
            last(&json!([{"text": "2."}, call("f")]), "STOP"),
            usage.clone(),
        ]);
        let response = read(&bytes).unwrap();
        assert!(response.message.text().ends_with("It is 2."), "{}", response.message.text());
        assert_eq!(response.message.content.len(), 6);
        assert_eq!(response.usage.output_tokens, 70);
        assert_eq!(response.stop_reason, StopReason::ToolUse);
        let deltas = deltas(&bytes);
        assert_eq!(deltas[4..6], ["TextDelta(\"It is \")", "TextDelta(\"2.\")"]);
        assert!(deltas[6].starts_with("ToolUseStart"), "{deltas:?}");
        let collected =
            super::read(bytes.as_bytes(), &Secret::default(), Origin::new(GOOGLE_AI, ""));
        assert_eq!(collected.unwrap(), response);
    }
}

/// Some proxies send `STOP` in each chunk without a text, such as those of reasoning
/// (<https://github.com/Chevey339/kelivo/issues/1003>).
#[test]
fn last_finish_reason_counts() {
    let bytes = bytes(&[
        last(&json!([]), "STOP"),
        chunk(&json!([{"text": "a"}])),
        last(&json!([]), "MAX_TOKENS"),
    ]);
    let response = read(&bytes).unwrap();
    assert_eq!(response.message.text(), "a");
    assert_eq!(response.stop_reason, StopReason::MaxTokens);
}

/// Some proxies end each stream as OpenAI does.
#[test]
fn done_ends_the_stream() {
    let done = "data: [DONE]\n\n";
    let complete = bytes(&[last(&json!([{"text": "a"}]), "STOP")]) + done;
    assert_eq!(read(&(complete + "data: ignored\n\n")).unwrap().message.text(), "a");
    let incomplete = bytes(&[chunk(&json!([{"text": "a"}]))]) + done;
    let error = read(&incomplete).unwrap_err();
    assert_eq!(error.to_string(), "stream error: the stream ended before the answer was complete");
}

/// Text must not wait for the end of the stream, and the stream must not end without it.
#[test]
fn text_is_emitted_before_the_stream_ends() {
    let event = Bytes::from(bytes(&[last(&json!([{"text": "a"}]), "STOP")]));
    let open = stream::iter([Ok(event)]).chain(stream::pending());
    let mut handle = wire::read_stream(open);
    let first = handle.receiver.recv().now_or_never();
    assert!(matches!(first, Some(Some(StreamEvent::TextDelta(text))) if text == "a"));
    assert!(handle.receiver.recv().now_or_never().is_none());
}

#[test]
fn stream_that_the_server_keeps_open_is_complete_at_the_idle_timeout() {
    let read = |chunk: Value| {
        let timeout = ProviderError::Timeout(std::time::Duration::from_secs(120));
        let pieces = [Ok(Bytes::from(bytes(&[chunk]))), Err(timeout)];
        wire::read_stream(stream::iter(pieces)).into_response().now_or_never().unwrap()
    };
    let text = json!([{"text": "a"}]);
    assert_eq!(read(last(&text, "STOP")).unwrap().message.text(), "a");
    assert_eq!(read(chunk(&text)).unwrap_err().to_string(), "timeout after 120s");
}

#[test]
fn refused_prompt_ends_the_stream() {
    let refused = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let response = read(&bytes(&[refused])).unwrap();
    assert_eq!(
        (response.stop_reason, response.message.has_content()),
        (StopReason::Refusal, false)
    );
    for feedback in [json!({}), json!({"blockReason": "BLOCK_REASON_UNSPECIFIED"})] {
        let error = read(&bytes(&[json!({"promptFeedback": feedback})])).unwrap_err();
        assert_eq!(error.kind(), "StreamError");
    }
}

#[test]
fn error_in_the_stream_keeps_its_class() {
    let error = |code: u16, status: &str| json!({"error": {"code": code, "message": "m", "status": status}});
    for (chunk, kind) in [
        (error(503, "UNAVAILABLE"), "ServiceUnavailable"),
        (error(429, "RESOURCE_EXHAUSTED"), "RateLimit"),
        (error(400, "INVALID_ARGUMENT"), "InvalidRequest"),
        (json!([error(500, "INTERNAL")]), "ServiceUnavailable"),
        (json!({"error": {"message": "m"}}), "StreamError"),
        (json!({"candidates": 1}), "StreamError"),
        (json!(7), "StreamError"),
    ] {
        let bytes = bytes(&[
            json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}),
            chunk.clone(),
        ]);
        assert_eq!(read(&bytes).unwrap_err().kind(), kind, "{chunk}");
    }
}

#[test]
fn empty_events_are_ignored() {
    let bytes = format!(": ping\n\ndata: \n\n{}", bytes(&[last(&json!([{"text": "a"}]), "STOP")]));
    assert_eq!(read(&bytes).unwrap().message.text(), "a");
}

#[test]
fn invalid_arguments_are_not_a_complete_call() {
    let call = json!({"functionCall": {"name": "f", "args": "{\"a\""}});
    let deltas = deltas(&bytes(&[last(&json!([call]), "STOP")]));
    assert_eq!(deltas.len(), 3);
    assert!(deltas[1].contains(r#"delta: "{\"a\"""#), "{}", deltas[1]);
}

/// Vertex AI sends the arguments in fragments if the request asks for it. Regression test. The stream was an error.
#[test]
fn call_in_fragments_has_the_events_of_a_whole_call() {
    let fragment = |call: Value| chunk(&json!([{"functionCall": call}]));
    let city = |text: &str| {
        fragment(json!({
            "partialArgs": [{"jsonPath": "$.city", "stringValue": text, "willContinue": true}],
            "willContinue": true,
        }))
    };
    let end = last(&json!([{"functionCall": {}}]), "STOP");
    let begin = fragment(json!({"name": "f", "id": "x", "willContinue": true}));
    let chunks = [begin, city("Bos"), city("ton"), end];
    let answer = read(&bytes(&chunks)).unwrap();
    assert_eq!(answer.stop_reason, StopReason::ToolUse);
    let call = answer.message.tool_uses().next().unwrap();
    assert_eq!((call.id, call.name, call.input), ("x", "f", &json!({"city": "Boston"})));
    let whole = json!([{"functionCall": {"name": "f", "id": "x", "args": {"city": "Boston"}}}]);
    assert_eq!(deltas(&bytes(&chunks)), deltas(&bytes(&[last(&whole, "STOP")])));

    // The stop reason may arrive although the call has no end.
    for length in 1..chunks.len() {
        let cut = [&chunks[..length], &[last(&json!([]), "STOP")]].concat();
        for chunks in [&chunks[..length], &cut] {
            let error = read(&bytes(chunks)).unwrap_err();
            assert_eq!(error.kind(), "StreamError", "{error}");
            assert!(error.to_string().contains("before the answer was complete"), "{error}");
        }
        let limited = [&chunks[..length], &[last(&json!([]), "MAX_TOKENS")]].concat();
        let answer = read(&bytes(&limited)).unwrap();
        assert_eq!(answer.stop_reason, StopReason::MaxTokens);
        assert_eq!(answer.message.tool_uses().count(), 0, "it must not run");
    }
}
