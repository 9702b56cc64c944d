//! Tests the chapter of neuron's book on embeddings, with the trait, its types, a custom provider, and errors.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use neuron_types::{
    EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage,
};

async fn call_my_api(input: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    match input {
        [] => Err(EmbeddingError::InvalidRequest("empty input".into())),
        texts => Ok(texts.iter().map(|text| vec![text.len() as f32; 256]).collect()),
    }
}

struct MyEmbeddingProvider {/* ... */}

impl EmbeddingProvider for MyEmbeddingProvider {
    fn embed(
        &self,
        request: EmbeddingRequest,
    ) -> impl Future<Output = Result<EmbeddingResponse, EmbeddingError>> + Send {
        async move {
            // Call your embedding API
            let vectors = call_my_api(&request.input).await?;

            Ok(EmbeddingResponse {
                embeddings: vectors,
                model: request.model,
                usage: EmbeddingUsage { prompt_tokens: 0, total_tokens: 0 },
            })
        }
    }
}

/// An embedding provider whose method `embed` is an `async fn`, as neuron's book prints it.
struct Async;

impl EmbeddingProvider for Async {
    async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
        MyEmbeddingProvider {}.embed(request).await
    }
}

/// Contains the code of the section "Quick Example" of neuron's book.
async fn quick_example(client: impl EmbeddingProvider) -> Result<(), Box<dyn std::error::Error>> {
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
        .await?;

    println!("Got {} embeddings", response.embeddings.len());
    println!("First vector has {} dimensions", response.embeddings[0].len());
    println!("Tokens used: {}", response.usage.total_tokens);

    assert_eq!(response.embeddings.len(), 2);
    Ok(())
}

#[tokio::test]
async fn custom_provider_embeds() {
    quick_example(MyEmbeddingProvider {}).await.unwrap();
    quick_example(Async).await.unwrap();
    let client = Async;

    // The section "Controlling Dimensions" of the book.
    let response = client
        .embed(EmbeddingRequest {
            model: "text-embedding-3-small".to_string(),
            input: vec!["hello".to_string()],
            dimensions: Some(256), // Default is 1536 for this model
            ..Default::default()
        })
        .await
        .unwrap();

    assert_eq!(response.embeddings[0].len(), 256);

    // The section "Provider-Specific Options" of the book.
    let mut extra = HashMap::new();
    extra.insert("user".to_string(), serde_json::json!("user-123"));

    let response = client
        .embed(EmbeddingRequest {
            model: "text-embedding-3-large".to_string(),
            input: vec!["text to embed".to_string()],
            extra,
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!(response.model, "text-embedding-3-large");
}

/// Tests the section "OpenAI Implementation" of neuron's book. Uses the same client for completions and embeddings.
#[tokio::test]
async fn openai_client_completes_and_embeds() {
    use neuron_provider_openai::OpenAi;
    use neuron_testing::{OpenAiServer, ServerReply};
    use neuron_types::{CompletionRequest, Message, Provider};

    let vectors = |count| EmbeddingResponse {
        embeddings: vec![vec![0.5; 256]; count],
        model: "text-embedding-3-small".into(),
        usage: EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 },
    };
    let replies = [ServerReply::from("Hi!"), vectors(1).into(), vectors(2).into()];
    let server = OpenAiServer::start(replies).await.unwrap();
    let client = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
    let completion_request =
        CompletionRequest { messages: vec![Message::user("Hello")], ..Default::default() };

    // Chat completion
    let chat_response = client.complete(completion_request).await.unwrap();
    assert_eq!(chat_response.message.text(), "Hi!");

    // Embedding
    let embed_response = client
        .embed(EmbeddingRequest {
            model: "text-embedding-3-small".to_string(),
            input: vec!["Hello world".to_string()],
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!(embed_response.embeddings[0].len(), 256);

    quick_example(client).await.unwrap();
    server.assert_complete();
}

/// Checks the book's statement "When EmbeddingRequest.model is empty, the OpenAI implementation defaults to
/// text-embedding-3-small".
#[test]
fn default_model_is_text_embedding_3_small() {
    assert_eq!(neuron_provider_openai::DEFAULT_EMBEDDING_MODEL, "text-embedding-3-small");
}

#[test]
fn structs_have_exactly_the_printed_fields() {
    let EmbeddingRequest { model, input, dimensions, extra } = EmbeddingRequest::default();
    let extra: HashMap<String, serde_json::Value> = extra;
    assert!(model.is_empty() && input.is_empty() && dimensions.is_none() && extra.is_empty());
    let EmbeddingResponse {
        embeddings,
        model,
        usage: EmbeddingUsage { prompt_tokens, total_tokens },
    } = EmbeddingResponse::default();
    assert!(embeddings.is_empty() && model.is_empty());
    assert_eq!((prompt_tokens, total_tokens), (0, 0));
}

/// Contains the code of the section "EmbeddingError" of neuron's book.
async fn outcome(client: impl EmbeddingProvider, request: EmbeddingRequest) -> &'static str {
    match client.embed(request).await {
        Ok(response) => {
            /* use embeddings */
            drop(response);
            "embedded"
        }
        Err(e) if e.is_retryable() => {
            /* back off and retry */
            "retry"
        }
        Err(e) => {
            /* terminal error, report to user */
            drop(e);
            "terminal"
        }
    }
}

#[tokio::test]
async fn embedding_errors_are_retryable_as_the_table_says() {
    assert_eq!(outcome(Async, EmbeddingRequest::default()).await, "terminal");
    let retry_after = Some(Duration::from_secs(2));
    for (error, retryable) in [
        (EmbeddingError::Authentication("key".into()), false),
        (EmbeddingError::RateLimit { retry_after }, true),
        (EmbeddingError::InvalidRequest("empty".into()), false),
        (EmbeddingError::Network("reset".into()), true),
        (EmbeddingError::Other("else".into()), false),
    ] {
        assert_eq!(error.is_retryable(), retryable, "{error}");
    }
}
