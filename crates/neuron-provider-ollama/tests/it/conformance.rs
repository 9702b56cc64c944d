//! Tests that run the conformance suite, which every provider of neuron must pass.

use neuron_conformance::provider::{Capabilities, ProviderHarness, Timeouts};
use neuron_model::StopReason;
use neuron_provider_ollama::Ollama;
use neuron_testing::ollama::OllamaApi;

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

    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<Ollama> {
        let Timeouts { connect, whole, idle } = timeouts;
        let provider = self.provider(url, api_key).connect_timeout(connect);
        Some(provider.timeout(whole).idle_timeout(idle))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The API has none of the following features.
            response_ids: false,
            signatures: false,
            invalid_arguments: false,
            tool_choice: false,
            image_urls: false,
            documents: false,
            cache_read_tokens: false,
            cache_creation_tokens: false,
            reasoning_tokens: false,
            // An error in a stream is a text without a class.
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
                // The server responds only after it has loaded the model, so it has no error for a model that is
                // loading.
                .without_errors(&["ModelLoading"])
        }
    }
}

neuron_conformance::provider_tests!(Harness);
