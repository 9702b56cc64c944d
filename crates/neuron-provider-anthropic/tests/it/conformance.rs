//! The suite that every provider passes.

use neuron_conformance::provider::{self, Capabilities, ProviderHarness};
use neuron_provider_anthropic::Anthropic;
use neuron_testing::anthropic::AnthropicApi;
use neuron_types::StopReason;

struct Harness;

impl ProviderHarness for Harness {
    type Provider = Anthropic;
    type Vendor = AnthropicApi;

    fn vendor(&self) -> AnthropicApi {
        AnthropicApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> Anthropic {
        Anthropic::new(api_key).base_url(url)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            request_id_header: Some("request-id"),
            // The API says `refusal` for a filter, and has no word for a model that loads.
            ..Capabilities::default()
                .without_stop_reasons(&[StopReason::ContentFilter])
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
