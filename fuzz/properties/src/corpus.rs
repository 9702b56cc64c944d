//! Valid inputs of all targets, in the formats of the vendors. The mutations of the fuzzers start from them.

use neuron_testing::{Wire, ollama, openai};
use neuron_types::{
    CompletionResponse, ContentBlock, EmbeddingResponse, EmbeddingUsage, Message, Role, StopReason,
    TokenUsage,
};
use serde_json::{Value, json};

use crate::vendor::{ANTHROPIC, BEDROCK, CHAT, OLLAMA, RESPONSES, Vendor};

/// Responses that together contain every kind of content. JSON pairs of the content blocks and the stop reason.
const ANSWERS: &str = include_str!("../answers.json");

/// Returns valid and broken streams of all vendors. Each input starts with a byte that defines how it is cut.
pub(crate) fn all_streams() -> Vec<Vec<u8>> {
    [ANTHROPIC, CHAT, RESPONSES, OLLAMA].iter().flat_map(streams).collect()
}

/// Returns streams of a vendor, in several notations and with several ways to cut them. Some streams break in the
/// middle and end with an error event.
pub(crate) fn streams(vendor: &Vendor) -> Vec<Vec<u8>> {
    let wires =
        [Wire::default(), Wire::default().crlf().padded(), Wire::default().no_space().comments()];
    let mut all = Vec::new();
    for write in vendor.write_stream {
        // The first byte of each input selects the cut (see `pieces.rs`).
        for (number, answer) in answers().iter().enumerate() {
            for (cut, wire) in wires.iter().enumerate() {
                let mut stream = vec![u8::try_from(number * 4 + cut).unwrap_or_default()];
                stream.extend(write(answer, 3 + number, wire));
                all.push(stream);
            }
            let mut broken = vec![3];
            broken.extend(write(answer, 5, &Wire::default()));
            broken.truncate(broken.len() / 2);
            broken.extend((vendor.stream_error)());
            all.push(broken);
        }
    }
    all
}

/// Returns streams of Bedrock as lines with the name and the JSON of each event, as
/// [`bedrock_events`](crate::stream::bedrock_events) expects.
pub(crate) fn bedrock_events() -> Vec<Vec<u8>> {
    let streams = streams(&BEDROCK).into_iter();
    let whole = streams.filter_map(|stream| {
        let (cut, mut rest) = stream.split_first()?;
        let mut lines = vec![*cut];
        while !rest.is_empty() {
            let number = |at: usize| -> Option<usize> {
                u32::from_be_bytes(rest.get(at..at + 4)?.try_into().ok()?).try_into().ok()
            };
            let (length, headers) = (number(0)?, number(4)?);
            let (frame, after) = rest.split_at_checked(length)?;
            // The first header is `:event-type`, and its value begins after the length of two bytes.
            let name = frame.get(12 + 13..)?;
            let name = name.get(2..2 + usize::from(*name.get(1)?))?;
            let payload = frame.get(12 + headers..length - 4)?;
            lines.extend([name, b" ", payload, b"\n"].concat());
            rest = after;
        }
        Some(lines)
    });
    whole.collect()
}

/// Returns whole responses of a vendor, and a JSON body with very long texts.
pub(crate) fn bodies(vendor: &Vendor) -> Vec<Vec<u8>> {
    // A body that is not a response of any vendor. The text of the error must not contain the whole body.
    let long = "long ".repeat(8_000);
    let long = json!({"content": long, "choices": long, "output": long, "message": long});
    let bodies = answers().iter().map(vendor.write_response).chain([long]).collect::<Vec<_>>();
    bodies.iter().map(|body| body.to_string().into_bytes()).collect()
}

/// Returns error responses of all vendors with various statuses, encoded as [`rejection`](crate::rejection) expects.
pub(crate) fn errors() -> Vec<Vec<u8>> {
    let bodies = [
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down", "details": {"error_code": "enforced_spend_limit_reached"}}, "request_id": "req_1"}),
        json!({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}),
        json!({"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}}),
        json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
        json!({"error": "model 'x' not found"}),
        json!({"error": "unauthorized", "signin_url": "https://ollama.com/connect"}),
        json!({"error": {"type": "api_error", "message": "long ".repeat(8_000)}}),
    ];
    let statuses = [307_u16, 400, 401, 402, 404, 429, 499, 503, 504, 529];
    let errors = statuses.iter().flat_map(|status| {
        let [high, low] = status.to_be_bytes();
        bodies.iter().map(move |body| prefixed(&[high, low, 2, b'3', b'0'], body))
    });
    errors.collect()
}

/// Returns embedding responses of all vendors, encoded as [`embeddings`](crate::embeddings) expects.
pub(crate) fn embeddings() -> Vec<Vec<u8>> {
    let response = EmbeddingResponse {
        embeddings: vec![vec![0.5, -1.0], vec![1e-3, 2.0]],
        model: "text-embedding-3-small".into(),
        usage: EmbeddingUsage { prompt_tokens: 4, total_tokens: 4 },
    };
    [
        openai::embeddings_body(&response, true),
        openai::embeddings_body(&response, false),
        ollama::embeddings_body(&response),
    ]
    .iter()
    .map(|body| prefixed(&[2], body))
    .collect()
}

/// Returns the JSON text of a body behind a prefix.
fn prefixed(prefix: &[u8], body: &Value) -> Vec<u8> {
    [prefix, body.to_string().as_bytes()].concat()
}

/// Parses [`ANSWERS`] into responses with an id, a model and usage.
fn answers() -> Vec<CompletionResponse> {
    let answers: Vec<(Vec<ContentBlock>, StopReason)> =
        serde_json::from_str(ANSWERS).expect("the stored form");
    let answers = answers.into_iter().map(|(content, stop_reason)| CompletionResponse {
        id: "msg_1".into(),
        model: "model-1".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage {
            input_tokens: 25,
            output_tokens: 7,
            cache_read_tokens: Some(5),
            ..Default::default()
        },
        stop_reason,
    });
    answers.collect()
}
