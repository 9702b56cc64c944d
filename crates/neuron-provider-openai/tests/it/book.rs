//! Tests that run the examples of neuron's book against a test server.

use neuron_model::*;
use neuron_provider_openai::OpenAi;
use neuron_testing::{RawServer, ServerReply};
use serde_json::json;

use crate::support::{soon, start};

/// The client must work with a mock server that sends only the required fields, like a typical HTTP mock.
#[tokio::test]
async fn client_works_with_mocked_endpoint() {
    let server = RawServer::bind().await;
    let body = json!({
        "id": "chatcmpl-123",
        "model": "gpt-4o",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": "Hello!" },
            "finish_reason": "stop"
        }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }
    })
    .to_string();
    let client = OpenAi::new("test-key").base_url(server.url());
    let asked = client.complete(CompletionRequest {
        model: "gpt-4o".to_string(),
        messages: vec![Message::user("Hi")],
        ..Default::default()
    });
    let serve = server.respond(200, "application/json", body.len(), &body);
    let (response, _open) = soon(async { tokio::join!(asked, serve) }).await;
    let response = response.unwrap();
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    assert_eq!(response.id, "chatcmpl-123");
    assert_eq!(response.message, Message::assistant("Hello!"));
    assert_eq!((response.usage.input_tokens, response.usage.output_tokens), (10, 5));
}

#[tokio::test]
async fn embeddings_of_two_sentences_are_returned() {
    let vectors = EmbeddingResponse {
        embeddings: vec![vec![0.1, 0.2], vec![0.3, 0.4]],
        model: "text-embedding-3-small".into(),
        usage: EmbeddingUsage { prompt_tokens: 14, total_tokens: 14 },
    };
    let server = start([ServerReply::from(vectors)]).await;
    let client = OpenAi::new("test-key").base_url(server.url());
    let response = client
        .embed(EmbeddingRequest {
            model: "text-embedding-3-small".to_string(),
            input: vec![
                "Rust is a systems programming language.".to_string(),
                "Python is great for scripting.".to_string(),
            ],
            dimensions: None,
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!(response.embeddings.len(), 2);
    assert_eq!(response.embeddings[0].len(), 2);
    assert_eq!(response.usage.total_tokens, 14);
}
