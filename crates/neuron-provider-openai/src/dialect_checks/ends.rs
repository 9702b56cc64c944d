//! Tests of streams that end after the finish reason without `[DONE]`.

use bytes::Bytes;

use super::*;

/// Decodes a stream that ends after `bytes`. The connection then breaks if `breaks` is `true`, and is closed cleanly
/// otherwise.
fn read_cut(bytes: &[u8], breaks: bool) -> Vec<StreamEvent> {
    let mut pieces = vec![Ok(Bytes::copy_from_slice(bytes))];
    if breaks {
        pieces.push(Err(ProviderError::StreamError("reset".into())));
    }
    read::<ChatDecoder>(pieces)
}

/// A stream that ends inside the event with the token counts must be an error. Regression test. The response was
/// reported as complete, without the counts.
#[test]
fn stream_truncated_before_usage_is_an_error() {
    let answer = sse(&[chunk(json!({"content": "a"})), last_chunk("stop")]);
    let usage =
        sse(&[json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})]);
    let done = b"data: [DONE]\n\n";
    let bytes = [answer.as_slice(), &usage, done].concat();
    let (with_reason, with_usage) = (answer.len(), answer.len() + usage.len());
    for at in 0..=bytes.len() {
        let (events, broken) = (read_cut(&bytes[..at], false), read_cut(&bytes[..at], true));
        if at < bytes.len() {
            check_error(&broken, "StreamError");
        }
        // The blank line after an event may be missing, and so may the end of the last line.
        let ends = [with_reason, with_usage, bytes.len()];
        let is_success = ends.contains(&at) || ends.contains(&(at + 1)) || at + 2 == bytes.len();
        if !is_success {
            check_error(&events, "StreamError");
            continue;
        }
        let expected = if at >= with_usage - 1 { (5, 2) } else { (0, 0) };
        let usage = &response_of(&events).usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), expected, "cut at {at}");
    }
}

/// A stream must be complete without `[DONE]`, which Perplexity omits in recorded streams. It must also be complete
/// without the usage, which older servers omit.
#[test]
fn stream_without_done_or_usage_is_complete() {
    let answer = [chunk(json!({"content": "a"})), last_chunk("stop")];
    let events = read_bytes::<ChatDecoder>(&sse(&answer));
    let response = response_of(&events);
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    assert_eq!(response.usage, neuron_model::TokenUsage::default());
    for done in ["data: [DONE]", "data: [DONE]\n", "data: [DONE]\r\n", ": bye\n", "\n\n"] {
        let bytes = [sse(&answer), done.as_bytes().to_vec()].concat();
        assert_eq!(response_of(&read_bytes::<ChatDecoder>(&bytes)).message.content, [text("a")]);
    }
}
