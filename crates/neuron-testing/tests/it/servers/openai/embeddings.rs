//! Tests of embeddings as numbers and as base64, and in reverse order.

use neuron_testing::openai::Dialect;
use neuron_testing::{OpenAiServer, ServerReply};
use neuron_types::{EmbeddingResponse, EmbeddingUsage};
use serde_json::{Value, json};

use super::{CHAT, EMBEDDINGS, post, start};

fn embeddings() -> EmbeddingResponse {
    EmbeddingResponse {
        embeddings: vec![vec![0.5, -1.0], vec![2.0]],
        model: String::new(),
        usage: EmbeddingUsage { prompt_tokens: 2, total_tokens: 2 },
    }
}

fn expected(first: Value, second: Value) -> Value {
    json!([
        {"object": "embedding", "index": 0, "embedding": first},
        {"object": "embedding", "index": 1, "embedding": second},
    ])
}

#[tokio::test]
async fn embeddings_are_numbers_unless_base64_is_requested() {
    let server = start([embeddings(), embeddings()]).await;
    let body = post(&server, EMBEDDINGS, json!({})).await.json();
    assert_eq!(body["data"], expected(json!([0.5, -1.0]), json!([2.0])));
    assert_eq!(
        (&body["object"], &body["model"]),
        (&json!("list"), &json!("text-embedding-3-small"))
    );
    assert_eq!(body["usage"], json!({"prompt_tokens": 2, "total_tokens": 2}));
    let body = post(&server, EMBEDDINGS, json!({"encoding_format": "base64"})).await.json();
    assert_eq!(body["data"], expected(json!("AAAAPwAAgL8="), json!("AAAAQA==")));
}

#[tokio::test]
async fn dialect_shuffles_embeddings_and_ignores_base64() {
    let dialect = Dialect::default().shuffled_embeddings().floats_only();
    let server = OpenAiServer::builder().dialect(dialect).start([embeddings()]).await.unwrap();
    let body = post(&server, EMBEDDINGS, json!({"encoding_format": "base64"})).await.json();
    let data = expected(json!([0.5, -1.0]), json!([2.0]));
    assert_eq!(body["data"], json!([data[1], data[0]]));
}

#[tokio::test]
async fn reply_of_the_wrong_kind_is_an_error() {
    let server = start([ServerReply::from("hello"), embeddings().into()]).await;
    let answer = post(&server, EMBEDDINGS, json!({})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json()["error"]["message"],
        "the script's reply holds a message, and this request asks for embeddings"
    );
    let answer = post(&server, CHAT, json!({"stream": true})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json()["error"]["message"],
        "the script's reply holds embeddings, and this request asks for a message"
    );
}
