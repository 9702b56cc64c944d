//! Tests of embedding calls over HTTP, and of model calls outside of an agent's loop.

use neuron_provider_openai::OpenAi;
use neuron_testing::{OpenAiServer, Reply};
use neuron_types::{
    CompletionRequest, EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse,
    EmbeddingUsage, Message, Provider, ProviderError,
};

use crate::support::conventions::Version;
use crate::support::setup::{Case, Vendor, cases};
use crate::support::telemetry::Telemetry;

fn request() -> EmbeddingRequest {
    EmbeddingRequest {
        model: "text-embedding-3-small".to_owned(),
        input: vec!["the sea".to_owned()],
        ..EmbeddingRequest::default()
    }
}

#[tokio::test]
async fn embedding_call_has_span_and_metrics() {
    for version in Version::ALL {
        let case = Case { vendor: Vendor::OpenAi, version };
        let response = EmbeddingResponse {
            model: "text-embedding-3-small".to_owned(),
            embeddings: vec![vec![0.5, 0.25]],
            usage: EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 },
        };
        let server = OpenAiServer::start([response]).await.unwrap();
        let telemetry = Telemetry::start();
        let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
        let embeddings = case.hook(&telemetry).embeddings(provider);
        embeddings.embed(request()).await.unwrap();
        let exported = telemetry.finish();
        case.checker().assert_holds(&exported);
        let forest = exported.forest();
        forest.assert_outline("embeddings text-embedding-3-small CLIENT");
        assert_eq!(forest.root().attributes.int("gen_ai.usage.input_tokens"), Some(3));
        assert!(exported.metric_names().contains(&"gen_ai.client.operation.duration"));
    }
}

#[tokio::test]
async fn failed_embedding_call_has_error_type() {
    for version in Version::ALL {
        let case = Case { vendor: Vendor::OpenAi, version };
        let server =
            OpenAiServer::start([ProviderError::RateLimit { retry_after: None }]).await.unwrap();
        let telemetry = Telemetry::start();
        let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
        let embeddings = case.hook(&telemetry).embeddings(provider);
        let error = embeddings.embed(request()).await.unwrap_err();
        assert!(matches!(error, EmbeddingError::RateLimit { .. }), "{error:?}");
        let exported = telemetry.finish();
        case.checker().assert_holds(&exported);
        let forest = exported.forest();
        forest.assert_outline("embeddings text-embedding-3-small CLIENT ERROR RateLimit");
    }
}

#[tokio::test]
async fn model_call_outside_of_loop_has_span() {
    for case in cases() {
        let setup = case.start([Reply::text("Blue.")]).await;
        let provider = setup.hook().provider(setup.provider());
        let request = CompletionRequest {
            messages: vec![Message::user("What is it like?")],
            max_tokens: Some(64),
            ..CompletionRequest::default()
        };
        provider.complete(request).await.unwrap();
        let exported = setup.finish();
        exported.forest().assert_outline(&format!("chat {} CLIENT", case.vendor.model()));
    }
}
