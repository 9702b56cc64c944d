//! The suite that every provider passes.

use neuron_conformance::provider::{self, Capabilities, ProviderHarness};
use neuron_provider_ollama::Ollama;
use neuron_testing::ollama::OllamaApi;
use neuron_types::StopReason;

struct Harness;

impl ProviderHarness for Harness {
    type Provider = Ollama;
    type Vendor = OllamaApi;

    fn vendor(&self) -> OllamaApi {
        OllamaApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> Ollama {
        Ollama::new().api_key(api_key).base_url(url)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The wire has none of these.
            response_ids: false,
            signatures: false,
            invalid_arguments: false,
            tool_choice: false,
            image_urls: false,
            documents: false,
            cache_read_tokens: false,
            cache_creation_tokens: false,
            reasoning_tokens: false,
            // An error within a stream is a text alone.
            stream_errors: vec!["StreamError"],
            ..Capabilities::default()
                .without_stop_reasons(&[
                    StopReason::StopSequence,
                    StopReason::ContentFilter,
                    StopReason::Compaction,
                    StopReason::PauseTurn,
                    StopReason::Refusal,
                    StopReason::ContextWindowExceeded,
                ])
                // A request waits until its model is there.
                .without_errors(&["ModelLoading"])
        }
    }
}

#[tokio::test]
async fn text() {
    provider::text(&Harness).await;
}

#[tokio::test]
async fn tools() {
    provider::tools(&Harness).await;
}

#[tokio::test]
async fn thinking() {
    provider::thinking(&Harness).await;
}

#[tokio::test]
async fn requests() {
    provider::requests(&Harness).await;
}

#[tokio::test]
async fn prefixes() {
    provider::prefixes(&Harness).await;
}

#[tokio::test]
async fn usage() {
    provider::usage(&Harness).await;
}

#[tokio::test]
async fn stop_reasons() {
    provider::stop_reasons(&Harness).await;
}

#[tokio::test]
async fn errors() {
    provider::errors(&Harness).await;
}

#[tokio::test]
async fn stream_errors() {
    provider::stream_errors(&Harness).await;
}

#[tokio::test]
async fn keys() {
    provider::keys(&Harness).await;
}

#[tokio::test]
async fn splits() {
    provider::splits(&Harness).await;
}

#[tokio::test]
async fn cuts() {
    provider::cuts(&Harness).await;
}

#[tokio::test]
async fn dropping() {
    provider::dropping(&Harness).await;
}

#[tokio::test]
async fn concurrency() {
    provider::concurrency(&Harness).await;
}
