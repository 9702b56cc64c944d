//! Valid inputs in the vendors' forms.

use neuron_testing::{Wire, anthropic, ollama, openai};
use neuron_types::{
    CompletionResponse, ContentBlock, EmbeddingResponse, EmbeddingUsage, Message, Role, StopReason,
    TokenUsage,
};
use serde_json::{Value, json};

/// Streams of the Messages API, each cut in some way.
#[must_use]
pub fn anthropic_streams() -> Vec<Vec<u8>> {
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    streams(error, anthropic::sse_bytes)
}

/// Streams of Chat Completions, each cut in some way.
#[must_use]
pub fn chat_streams() -> Vec<Vec<u8>> {
    let error = "data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n";
    let dialect = openai::Dialect::default;
    let mut all =
        streams(error, |answer, chars, wire| openai::chat_bytes(answer, chars, wire, &dialect()));
    all.extend(streams(error, |answer, chars, wire| {
        let odd = dialect().without_call_index().later_ids_empty().without_done();
        openai::chat_bytes(answer, chars, wire, &odd)
    }));
    all
}

/// Streams of the Responses API, each cut in some way.
#[must_use]
pub fn responses_streams() -> Vec<Vec<u8>> {
    let error = "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"no\",\"param\":null}\n\n";
    streams(error, openai::responses_bytes)
}

/// Streams of Ollama's, each cut in some way.
#[must_use]
pub fn ollama_streams() -> Vec<Vec<u8>> {
    streams("{\"error\":\"server busy\"}\n", |answer, chars, wire| {
        ollama::chat_bytes(answer, chars, wire, &ollama::Dialect::default())
    })
}

/// Those of all.
#[must_use]
pub fn all_streams() -> Vec<Vec<u8>> {
    [anthropic_streams(), chat_streams(), responses_streams(), ollama_streams()].concat()
}

fn streams(
    error: &str,
    write: impl Fn(&CompletionResponse, usize, &Wire) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let wires =
        [Wire::default(), Wire::default().crlf().padded(), Wire::default().no_space().comments()];
    let mut all = Vec::new();
    for (number, answer) in answers().iter().enumerate() {
        for (cut, wire) in wires.iter().enumerate() {
            let mut stream = vec![u8::try_from(number * 4 + cut).unwrap_or_default()];
            stream.extend(write(answer, 3 + number, wire));
            all.push(stream);
        }
        let mut broken = vec![3];
        broken.extend(write(answer, 5, &Wire::default()));
        broken.truncate(broken.len() / 2);
        broken.extend(error.as_bytes());
        all.push(broken);
    }
    all
}

/// Answers of the Messages API.
#[must_use]
pub fn anthropic_bodies() -> Vec<Vec<u8>> {
    bodies(anthropic::json_body)
}

/// Answers of Chat Completions.
#[must_use]
pub fn chat_bodies() -> Vec<Vec<u8>> {
    bodies(|answer| openai::chat_body(answer, &openai::Dialect::default()))
}

/// Answers of the Responses API.
#[must_use]
pub fn responses_bodies() -> Vec<Vec<u8>> {
    bodies(openai::responses_body)
}

/// Answers of Ollama's.
#[must_use]
pub fn ollama_bodies() -> Vec<Vec<u8>> {
    bodies(|answer| ollama::chat_body(answer, &ollama::Dialect::default()))
}

fn bodies(write: impl Fn(&CompletionResponse) -> Value) -> Vec<Vec<u8>> {
    let mut all: Vec<_> =
        answers().iter().map(|answer| write(answer).to_string().into_bytes()).collect();
    // No answer of anybody's, and nothing that an error should show whole.
    let long = "long ".repeat(8_000);
    all.push(
        json!({"content": long, "choices": long, "output": long, "message": long})
            .to_string()
            .into_bytes(),
    );
    all
}

/// Errors of all vendors, as `rejection` reads them.
#[must_use]
pub fn errors() -> Vec<Vec<u8>> {
    let bodies = [
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down", "details": {"error_code": "enforced_spend_limit_reached"}}, "request_id": "req_1"}),
        json!({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}),
        json!({"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}}),
        json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
        json!({"error": "model 'x' not found"}),
        json!({"error": "unauthorized", "signin_url": "https://ollama.com/connect"}),
    ];
    let long = json!({"error": {"type": "api_error", "message": "long ".repeat(8_000)}});
    let bodies = bodies.into_iter().chain([long]).collect::<Vec<_>>();
    let statuses = [307_u16, 400, 401, 402, 404, 429, 499, 503, 504, 529];
    let mut all = Vec::new();
    for status in statuses {
        for body in &bodies {
            let mut error = status.to_be_bytes().to_vec();
            error.extend([2, b'3', b'0']);
            error.extend(body.to_string().into_bytes());
            all.push(error);
        }
    }
    all
}

/// Vectors in the vendors' forms, as `embeddings` reads them.
#[must_use]
pub fn embeddings() -> Vec<Vec<u8>> {
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
    .map(|body| [&[2], body.to_string().as_bytes()].concat())
    .to_vec()
}

/// Answers with all that a message may hold.
fn answers() -> Vec<CompletionResponse> {
    let text = |text: &str| ContentBlock::Text(text.into());
    let thinking = |signature: &str| ContentBlock::Thinking {
        thinking: "Let me see…\nA tool, then.".into(),
        signature: signature.into(),
    };
    let call = |id: &str, input: Value| ContentBlock::ToolUse {
        id: id.into(),
        name: "get_weather".into(),
        input,
    };
    let raw = |provider: &str, json: Value, portable: Option<ContentBlock>| ContentBlock::Raw {
        provider: provider.into(),
        json,
        portable: portable.map(Box::new),
    };
    let cited = json!({"type": "text", "text": "cited", "citations": [{"type": "char_location", "cited_text": "c"}]});
    let searched = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}});
    let spoken = json!({"type": "message", "audio": {"id": "audio_1", "data": "AAAA", "expires_at": 1, "transcript": "Hello."}});
    let refused = json!({"type": "message", "refusal": "I can't."});
    [
        (vec![text("Hello, \"world\"\\\n日本 🦀 é")], StopReason::EndTurn),
        (
            vec![
                thinking("c2ln"),
                text("Two calls. "),
                call("call_1", json!({"city": "San Francisco", "days": [1, 2.5, null]})),
                call("call_2", json!({})),
            ],
            StopReason::ToolUse,
        ),
        (vec![thinking("")], StopReason::MaxTokens),
        (vec![call("toolu_3", json!({"invalid_json": "{\"city\": \"San"}))], StopReason::MaxTokens),
        (
            vec![raw("anthropic", searched, None), raw("anthropic", cited, Some(text("cited")))],
            StopReason::PauseTurn,
        ),
        (vec![text("No: "), raw("openai", refused, Some(text("I can't.")))], StopReason::Refusal),
        (vec![raw("openai", spoken, Some(text("Hello.")))], StopReason::EndTurn),
        (
            vec![ContentBlock::Compaction { content: "The user wants rain.".into() }, text("ok")],
            StopReason::EndTurn,
        ),
        (vec![], StopReason::EndTurn),
    ]
    .into_iter()
    .map(|(content, stop_reason)| CompletionResponse {
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
    })
    .collect()
}
