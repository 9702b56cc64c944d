//! Tests that run the conformance suite, which every provider of neuron must pass, on both platforms.

use neuron_conformance::provider::{Capabilities, ProviderHarness, Timeouts};
use neuron_model::StopReason;
use neuron_provider_gemini::{Gemini, KeySource};
use neuron_testing::gemini::GeminiApi;

fn capabilities() -> Capabilities {
    Capabilities {
        conversation_field: "contents",
        // A chunk with a finish reason may be followed by others.
        last_event: false,
        // The arguments of a call are an object.
        invalid_arguments: false,
        // The signatures belong to texts and calls, and not to the summaries of thoughts.
        signatures: false,
        cache_creation_tokens: false,
        ..Capabilities::default()
            .without_stop_reasons(&[
                // The API reports a stop sequence as the end of the turn.
                StopReason::StopSequence,
                StopReason::Compaction,
                StopReason::PauseTurn,
                StopReason::ContextWindowExceeded,
            ])
            .without_errors(&["ModelLoading"])
            // Each error in a stream has a code, which decides about its class.
            .without_stream_errors(&["StreamError"])
    }
}

/// Creates the provider of a platform from the base URL and the key.
struct Harness(fn(&str, &str) -> Gemini);

impl ProviderHarness for Harness {
    type Provider = Gemini;
    type Vendor = GeminiApi;

    fn vendor(&self) -> GeminiApi {
        GeminiApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> Gemini {
        (self.0)(url, api_key)
    }

    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<Gemini> {
        let Timeouts { connect, whole, idle } = timeouts;
        let provider = self.provider(url, api_key);
        Some(provider.connect_timeout(connect).timeout(whole).idle_timeout(idle))
    }

    fn capabilities(&self) -> Capabilities {
        capabilities()
    }
}

mod google_ai {
    use super::*;

    neuron_conformance::provider_tests!(Harness(|url, key| Gemini::new(key).base_url(url)));
}

mod vertex {
    use super::*;

    fn provider(url: &str, key: &str) -> Gemini {
        let token = key.to_owned();
        let source = KeySource::new(move || {
            let token = token.clone();
            async move { Ok(token) }
        });
        Gemini::vertex("p", "global", source).base_url(url)
    }

    neuron_conformance::provider_tests!(Harness(provider));
}
