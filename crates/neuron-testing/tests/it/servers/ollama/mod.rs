//! Tests of the Ollama server, for its responses, its errors, its broken streams and its dialects.

use std::time::Duration;

use neuron_testing::ollama::{Dialect, chat_bytes};
use neuron_testing::{OllamaServer, Reply, ServerReply, Wire};
use neuron_types::{
    CompletionResponse, ContentBlock, EmbeddingResponse, EmbeddingUsage, Message, ProviderError,
    Role, StopReason, TokenUsage, ToolCall,
};
use serde_json::{Value, json};

use crate::servers::http::{Answer, Client, exchange};

const CHAT: &str = "POST /api/chat";
const EMBED: &str = "POST /api/embed";

async fn start<R: Into<ServerReply>>(replies: impl IntoIterator<Item = R>) -> OllamaServer {
    OllamaServer::start(replies).await.unwrap()
}

fn ask(fields: Value) -> Value {
    let mut body = json!({"model": "llama3.2", "messages": [{"role": "user", "content": "hi"}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

async fn post(server: &OllamaServer, fields: Value) -> Answer {
    exchange(&server.url(), CHAT, &[], &ask(fields)).await
}

async fn embed(server: &OllamaServer, input: Value) -> Answer {
    exchange(&server.url(), EMBED, &[], &json!({"model": "all-minilm", "input": input})).await
}

fn everything() -> CompletionResponse {
    let call = |id: &str, name: &str, input| ContentBlock::ToolUse {
        id: id.into(),
        name: name.into(),
        input,
    };
    CompletionResponse {
        id: String::new(),
        model: "m".into(),
        message: Message {
            role: Role::Assistant,
            content: vec![
                ContentBlock::Thinking { thinking: "hmm".into(), signature: "lost".into() },
                ContentBlock::Text("añ🦀".into()),
                call("call_a1b2c3d4", "f", json!({"a": 1})),
                call("", "g", json!({})),
            ],
        },
        usage: TokenUsage { input_tokens: 50, output_tokens: 9, ..Default::default() },
        stop_reason: StopReason::ToolUse,
    }
}

fn calls() -> Value {
    json!([
        {"id": "call_a1b2c3d4", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}},
        {"id": "call_00000001", "function": {"index": 1, "name": "g", "arguments": {}}},
    ])
}

fn messages(answer: &Answer) -> Vec<Value> {
    answer.lines().iter().map(|line| line["message"].clone()).collect()
}

#[tokio::test]
async fn chat_is_streamed_as_lines_by_default() {
    let server = start([Reply::from(everything()).chunk_chars(2)]).await;
    let answer = post(&server, json!({})).await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let says = |content: &str| json!({"role": "assistant", "content": content});
    let thinks = |text: &str| json!({"role": "assistant", "content": "", "thinking": text});
    assert_eq!(
        messages(&answer),
        [
            thinks("hm"),
            thinks("m"),
            says("añ"),
            says("🦀"),
            json!({"role": "assistant", "content": "", "tool_calls": calls()}),
            says(""),
        ]
    );
    assert_eq!(answer.chunks.len(), 6, "one chunk for each line");
    let lines = answer.lines();
    let (last, rest) = lines.split_last().unwrap();
    assert!(rest.iter().all(|line| line["done"] == false && line.get("eval_count").is_none()));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(50), &json!(9)));
    for key in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"] {
        assert!(last[key].as_u64() > Some(0), "{key}");
    }
    let bytes = chat_bytes(&everything(), 2, &Wire::default(), &Dialect::default());
    assert_eq!(answer.bytes(), bytes);
}

#[tokio::test]
async fn chat_without_stream_returns_one_body() {
    let server =
        start([Reply::from(everything()), Reply::text("cut").stop_reason(StopReason::MaxTokens)])
            .await;
    let answer = post(&server, json!({"stream": false})).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(
        body["message"],
        json!({
            "role": "assistant",
            "content": "añ🦀",
            "thinking": "hmm",
            "tool_calls": calls(),
        })
    );
    assert_eq!((&body["model"], &body["done"]), (&json!("m"), &json!(true)));
    let body = post(&server, json!({"stream": false})).await.json();
    assert_eq!((&body["model"], &body["done_reason"]), (&json!("llama3.2"), &json!("length")));
    server.assert_complete();
}

#[tokio::test]
async fn counts_of_zero_are_left_out() {
    let usage = TokenUsage::default();
    let server = start([Reply::text("hello").usage(usage)]).await;
    let body = post(&server, json!({"stream": false})).await.json();
    assert_eq!((body.get("prompt_eval_count"), body.get("eval_count")), (None, None));
}

#[tokio::test]
async fn invalid_arguments_are_sent_as_text() {
    let broken = ToolCall::invalid_json_input("{\"a\": ");
    let server = start([Reply::tool_call("c1", "f", broken)]).await;
    let body = post(&server, json!({"stream": false})).await.json();
    assert_eq!(body["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\": ");
}

#[tokio::test]
async fn dialect_removes_call_ids_and_moves_calls() {
    let stream = async |dialect: Dialect| {
        let builder = OllamaServer::builder().dialect(dialect);
        let server = builder.start([everything()]).await.unwrap();
        post(&server, json!({})).await
    };
    let apart = messages(&stream(Dialect::default().calls_apart()).await);
    let with_calls = apart.iter().filter_map(|message| message.get("tool_calls"));
    let [first, second] = [&calls()[0], &calls()[1]].map(|call| json!([call]));
    assert_eq!(with_calls.collect::<Vec<_>>(), [&first, &second]);

    let old = Dialect::default().without_call_ids().calls_in_last_line().without_prompt_count();
    let lines = stream(old).await.lines();
    let (last, rest) = lines.split_last().unwrap();
    assert!(rest.iter().all(|line| line["message"].get("tool_calls").is_none()));
    assert_eq!(last["done"], true);
    assert_eq!(last.get("prompt_eval_count"), None);
    assert_eq!(
        last["message"]["tool_calls"][0],
        json!({"function": {"name": "f", "arguments": {"a": 1}}})
    );
}

#[tokio::test]
async fn embed_returns_scripted_embeddings() {
    let embeddings = |model: &str| EmbeddingResponse {
        embeddings: vec![vec![0.5, -1.0], vec![2.0]],
        model: model.into(),
        usage: EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 },
    };
    let server = start([
        ServerReply::from(embeddings("")),
        EmbeddingResponse::default().into(),
        "hello".into(),
        embeddings("").into(),
    ])
    .await;
    let body = embed(&server, json!(["a", "b"])).await.json();
    assert_eq!(body["model"], "all-minilm");
    assert_eq!(body["embeddings"], json!([[0.5, -1.0], [2.0]]));
    assert_eq!(body["prompt_eval_count"], 3);
    let body = embed(&server, json!([])).await.json();
    assert_eq!((&body["embeddings"], body.get("prompt_eval_count")), (&json!([]), None));

    let answer = embed(&server, json!("a")).await;
    let wrong = "the script's reply holds a message, and this request asks for embeddings";
    assert_eq!((answer.status, answer.json()), (400, json!({"error": wrong})));
    let answer = post(&server, json!({})).await;
    let wrong = "the script's reply holds embeddings, and this request asks for a message";
    assert_eq!((answer.status, answer.json()), (400, json!({"error": wrong})));
}

#[tokio::test]
async fn invalid_requests_are_rejected_like_ollama() {
    let server = OllamaServer::builder().models(["llama3.2"]).start(["hello"]).await.unwrap();
    let check = async |path: &str, body: Value, status: u16, message: &str| {
        let answer = exchange(&server.url(), path, &[], &body).await;
        assert_eq!((answer.status, answer.json()), (status, json!({"error": message})));
    };
    check("POST /api/chats", ask(json!({})), 404, "404 page not found").await;
    check("GET /api/chat", ask(json!({})), 405, "405 method not allowed").await;
    check(CHAT, ask(json!({"model": "x"})), 404, "model 'x' not found").await;
    check(EMBED, json!({"model": "x", "input": "a"}), 404, "model 'x' not found").await;
    check(CHAT, json!({}), 400, "model is required").await;
    check(EMBED, json!({"model": "x", "input": 1}), 400, "invalid input type").await;

    let mut client = Client::connect(&server.url()).await.unwrap();
    for (body, message) in [("", "missing request body"), ("{", "the request body is no JSON")] {
        client.send(CHAT, &[], body.as_bytes()).await.unwrap();
        let answer = client.receive().await.unwrap();
        assert_eq!((answer.status, answer.json()), (400, json!({"error": message})));
    }
    assert_eq!(server.remaining(), 1);
    assert_eq!(post(&server, json!({})).await.status, 200);
}

#[tokio::test]
async fn key_is_required_only_if_set() {
    let server = OllamaServer::builder().api_key("secret").start(["hello"]).await.unwrap();
    for headers in [&[][..], &[("authorization", "Bearer other")]] {
        let answer = exchange(&server.url(), CHAT, headers, &ask(json!({}))).await;
        assert_eq!((answer.status, answer.json()), (401, json!({"error": "unauthorized"})));
    }
    let key = [("authorization", "Bearer secret")];
    assert_eq!(exchange(&server.url(), CHAT, &key, &ask(json!({}))).await.status, 200);
}

#[tokio::test]
async fn errors_have_a_status_only_before_the_first_line() {
    let busy = || ProviderError::ServiceUnavailable("server busy, please try again.".into());
    let reply = Reply::text("hello").chunk_chars(2);
    // The stream has four lines: "he", "ll", "o", and the last line with `done`.
    let server = start([
        ServerReply::from(busy()),
        ProviderError::RateLimit { retry_after: Some(Duration::from_secs(2)) }.into(),
        reply.clone().fail_after(2, busy()).into(),
        reply.clone().end_early_after(3).into(),
        reply.clone().fail_after(1, ProviderError::Network("reset".into())).into(),
        reply.clone().fail_after(3, busy()).into(),
        reply.over(Wire::default().cut_at(30)),
    ])
    .await;
    let error = json!({"error": "server busy, please try again."});
    let answer = post(&server, json!({})).await;
    assert_eq!((answer.status, answer.json()), (503, error.clone()));
    let answer = post(&server, json!({})).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("2")));

    let failed = post(&server, json!({})).await;
    let lines = failed.lines();
    assert_eq!((failed.status, lines.len(), &lines[2]), (200, 3, &error));
    let ended = post(&server, json!({})).await;
    assert_eq!((ended.lines().len(), ended.complete), (3, true));
    let aborted = post(&server, json!({})).await;
    assert_eq!((aborted.lines().len(), aborted.complete), (1, false));
    assert_eq!(post(&server, json!({"stream": false})).await.status, 503);
    let cut = post(&server, json!({})).await;
    assert_eq!((cut.bytes().len(), cut.complete), (30, false));
}
