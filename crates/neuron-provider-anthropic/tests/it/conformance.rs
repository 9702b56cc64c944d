//! Tests that run the conformance suite, which every provider of neuron must pass.

use neuron_conformance::provider::{Capabilities, ProviderHarness, Timeouts};
use neuron_model::StopReason;
use neuron_provider_anthropic::Anthropic;
use neuron_testing::anthropic::AnthropicApi;

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

    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<Anthropic> {
        let Timeouts { connect, whole, idle } = timeouts;
        let provider = self.provider(url, api_key).connect_timeout(connect);
        Some(provider.timeout(whole).idle_timeout(idle))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            request_id_header: Some("request-id"),
            // One frame, `message_stop`, follows the stop reason and may be missing, because it has no content.
            optional_frames: 1,
            // The API sends the stop reason `refusal` for a content filter. It has no error for a model that is
            // loading.
            ..Capabilities::default()
                .without_stop_reasons(&[StopReason::ContentFilter])
                .without_errors(&["ModelLoading"])
        }
    }
}

neuron_conformance::provider_tests!(Harness);
