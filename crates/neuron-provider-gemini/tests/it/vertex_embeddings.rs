//! Tests of embeddings on Vertex AI, against a server with the rules of the real one.

use neuron_model::{
    EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage,
    ProviderError,
};
use neuron_provider_gemini::{Gemini, KeySource};
use neuron_testing::{GeminiServer, ServerReply, Wire};
use serde_json::{Value, json};

use crate::support::*;

const OLDER: &str = "text-embedding-005";
const OPEN: &str = "multilingual-e5-small-maas";
const NEWER: &str = "gemini-embedding-2";

fn vertex(url: impl Into<String>) -> Gemini {
    let source = KeySource::new(|| async { Ok(GeminiServer::API_KEY.to_owned()) });
    Gemini::vertex("p", "eu", source).base_url(url)
}

fn numbers(model: &str, count: usize) -> EmbeddingRequest {
    let input = (0..count).map(|text| text.to_string()).collect();
    EmbeddingRequest { input, model: model.to_owned(), ..Default::default() }
}

/// Returns the vectors of these texts, and a token per text.
fn vectors_of(texts: std::ops::Range<usize>) -> EmbeddingResponse {
    let tokens = texts.len();
    EmbeddingResponse {
        embeddings: texts.map(|text| vec![text as f32]).collect(),
        usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
        ..Default::default()
    }
}

/// Returns the texts of a request of any method.
fn texts_of(body: &Value) -> Vec<&str> {
    let list = |key: &str| body[key].as_array().into_iter().flatten();
    let batch = list("requests").map(|item| &item["content"]["parts"][0]["text"]);
    let instances = list("instances").map(|instance| &instance["content"]);
    let single = body.get("content").map(|content| &content["parts"][0]["text"]);
    batch.chain(instances).chain(single).map(|text| text.as_str().unwrap()).collect()
}

#[tokio::test]
async fn texts_are_sent_in_the_batches_of_the_model() {
    for (model, count, batches) in [
        (NEWER, 1, &[("embedContent", 1)][..]),
        (NEWER, 2, &[("batchEmbedContents", 2)]),
        (NEWER, 101, &[("batchEmbedContents", 100), ("embedContent", 1)]),
        ("gemini-embedding-001", 1, &[("embedContent", 1)]),
        ("gemini-embedding-001", 2, &[("batchEmbedContents", 2)]),
        (OPEN, 2, &[("embedContent", 1), ("embedContent", 1)]),
        (OLDER, 1, &[("predict", 1)]),
        (OLDER, 251, &[("predict", 250), ("predict", 1)]),
    ] {
        let mut start = 0;
        let replies = batches.iter().map(|(_, size)| {
            start += size;
            ServerReply::from(vectors_of(start - size..start))
        });
        let server = GeminiServer::start(replies.collect::<Vec<_>>()).await.unwrap();
        let mut request = numbers(model, count);
        request.dimensions = Some(1);
        for (key, value) in [
            ("taskType", json!("RETRIEVAL_DOCUMENT")),
            ("title", json!("a title")),
            ("autoTruncate", json!(false)),
        ] {
            request.extra.insert(key.to_owned(), value);
        }
        let response = vertex(server.url()).embed(request).await.unwrap();
        let expected = EmbeddingResponse { model: model.to_owned(), ..vectors_of(0..count) };
        assert_eq!(response, expected);

        let requests = server.requests();
        let paths: Vec<_> = requests.iter().map(|sent| sent.path.as_str()).collect();
        let base = "/v1beta1/projects/p/locations/eu/publishers/google/models";
        let expected: Vec<_> =
            batches.iter().map(|(method, _)| format!("{base}/{model}:{method}")).collect();
        assert_eq!(paths, expected);
        let bodies: Vec<_> = server.bodies();
        let sizes: Vec<_> = bodies.iter().map(|body| texts_of(body).len()).collect();
        assert!(sizes.iter().eq(batches.iter().map(|(_, size)| size)), "{sizes:?}");
        let sent: Vec<_> = bodies.iter().flat_map(texts_of).collect();
        assert!(sent.into_iter().eq(numbers(model, count).input.iter()), "{model}");
    }
}

#[tokio::test]
async fn request_without_texts_is_not_sent() {
    let server = GeminiServer::start(Vec::<ServerReply>::new()).await.unwrap();
    for model in [NEWER, OPEN, OLDER] {
        let response = vertex(server.url()).embed(numbers(model, 0)).await.unwrap();
        let expected = EmbeddingResponse { model: model.to_owned(), ..Default::default() };
        assert_eq!(response, expected);
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn error_in_a_later_batch_is_the_error_of_the_call() {
    let busy = || ProviderError::ServiceUnavailable("busy".into());
    for (model, count, size) in [(NEWER, 102, 100), (OPEN, 2, 1), (OLDER, 251, 250)] {
        let first = || ServerReply::from(vectors_of(0..size));
        let server = GeminiServer::start([first(), busy().into()]).await.unwrap();
        let error = vertex(server.url()).embed(numbers(model, count)).await.unwrap_err();
        let expected = "service unavailable: 503 UNAVAILABLE: busy";
        assert_eq!((error.to_string().as_str(), server.requests().len()), (expected, 2));
    }
}

#[tokio::test]
async fn wrong_number_of_vectors_is_an_error() {
    for (model, count) in [(NEWER, 2), (OLDER, 1), (OLDER, 2)] {
        for vectors in [0, count - 1, count + 1] {
            let reply = ServerReply::from(vectors_of(0..vectors));
            let server = GeminiServer::start([reply]).await.unwrap();
            let error = vertex(server.url()).embed(numbers(model, count)).await.unwrap_err();
            let expected = format!("the response has {vectors} embeddings for {count} texts");
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
    }
}

/// The server rejects a request with a wrong setting, and the error has the server's text.
#[tokio::test]
async fn rejected_setting_is_an_invalid_request() {
    let server = GeminiServer::start(Vec::<ServerReply>::new()).await.unwrap();
    for (model, count) in [(NEWER, 1), (NEWER, 2), (OPEN, 1), (OLDER, 2)] {
        let mut request = numbers(model, count);
        request.extra.insert("taskType".into(), json!("NO_SUCH_TASK"));
        let error = vertex(server.url()).embed(request).await.unwrap_err();
        assert!(matches!(error, EmbeddingError::InvalidRequest(_)), "{error}");
        assert!(error.to_string().contains("NO_SUCH_TASK"), "{error}");
    }
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn cut_response_is_an_error() {
    for (model, count) in [(NEWER, 1), (NEWER, 2), (OPEN, 1), (OLDER, 2)] {
        for bytes in [0, 1, 20, 40] {
            let wire = Wire::default().cut_at(bytes);
            let reply = ServerReply::from(vectors_of(0..count)).over(wire);
            let server = GeminiServer::start([reply]).await.unwrap();
            let result = soon(vertex(server.url()).embed(numbers(model, count))).await;
            assert!(result.is_err(), "{model} cut at {bytes}");
        }
    }
}

#[tokio::test]
async fn each_batch_has_the_current_token_which_errors_hide() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let source = KeySource::new(move || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        async move { Ok(format!("access-token-{number}")) }
    });
    let first = json!({"embedding": {"values": [1]}});
    let error = json!({"error": {"code": 401, "message": "bad access-token-2", "status": "UNAUTHENTICATED"}});
    let server = start([json_reply(200, &first), json_reply(401, &error)]).await;
    let provider = Gemini::vertex("p", "eu", source).base_url(server.url());
    let error = provider.embed(numbers(OPEN, 3)).await.unwrap_err();
    assert!(error.to_string().ends_with("401 UNAUTHENTICATED: bad [redacted]"), "{error}");
    let requests = server.requests();
    let tokens: Vec<_> = requests.iter().map(|sent| sent.bearer()).collect();
    assert_eq!(tokens, [Some("access-token-1"), Some("access-token-2")]);
}

#[tokio::test]
async fn failing_source_sends_no_request() {
    let server = start([]).await;
    let source =
        KeySource::new(|| async { Err(ProviderError::Authentication("no token".to_owned())) });
    let provider = Gemini::vertex("p", "eu", source).base_url(server.url());
    let error = provider.embed(numbers(NEWER, 1)).await.unwrap_err();
    assert!(error.to_string().ends_with("no token"), "{error}");
    assert_eq!(server.connections(), 0);
}
