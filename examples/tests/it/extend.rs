//! Checks a provider of one's own with the conformance suite, as the book's page on extensions shows.

use neuron::anthropic::Anthropic;
use neuron::types::*;
use neuron_conformance::provider::{Capabilities, ProviderHarness};
use neuron_testing::anthropic::AnthropicApi;

// ANCHOR: provider
/// Limits each response of Anthropic's models to 1000 tokens.
#[derive(Debug)]
struct Thrifty(Anthropic);

impl Thrifty {
    fn limited(request: RequestRef<'_>) -> RequestRef<'_> {
        let limit = request.max_tokens.map_or(1000, |tokens| tokens.min(1000));
        RequestRef { max_tokens: Some(limit), ..request }
    }
}

impl Provider for Thrifty {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.0.complete_ref(Self::limited(request)).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.0.complete_stream_ref(Self::limited(request)).await
    }
}
// ANCHOR_END: provider

// ANCHOR: harness
struct ThriftyHarness;

impl ProviderHarness for ThriftyHarness {
    type Provider = Thrifty;
    type Vendor = AnthropicApi; // The API that the loopback servers emulate.

    fn vendor(&self) -> AnthropicApi {
        AnthropicApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> Thrifty {
        Thrifty(Anthropic::new(api_key).base_url(url))
    }

    // The default has all features. Turn off those that the vendor does not have.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            request_id_header: Some("request-id"),
            ..Capabilities::default()
                .without_stop_reasons(&[StopReason::ContentFilter])
                .without_errors(&["ModelLoading"])
        }
    }
}

// One test for each part. Without names of parts, the macro makes the tests of all parts.
neuron_conformance::provider_tests!(ThriftyHarness, text tools stop_reasons);
// ANCHOR_END: harness
