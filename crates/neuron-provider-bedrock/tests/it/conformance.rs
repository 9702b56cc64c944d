//! Tests that run the conformance suite, which every provider of neuron must pass.

use neuron_conformance::provider::{Capabilities, ProviderHarness, Timeouts};
use neuron_model::StopReason;
use neuron_provider_bedrock::Bedrock;
use neuron_testing::bedrock::BedrockApi;

fn capabilities() -> Capabilities {
    Capabilities {
        // The last event has the token counts.
        optional_frames: 1,
        // The id of a response is the id of the request, which differs between two equal requests.
        response_ids: false,
        response_models: false,
        image_urls: false,
        // The schema is a text in the body.
        structured_output: false,
        reasoning_tokens: false,
        request_id_header: Some("x-amzn-requestid"),
        ..Capabilities::default()
            .without_stop_reasons(&[
                StopReason::Compaction,
                StopReason::PauseTurn,
                StopReason::Refusal,
            ])
            // Each exception in a stream has a name, which decides about its class.
            .without_stream_errors(&["StreamError"])
    }
}

/// Creates the provider from the base URL and the key. `has_key` is `false` if the provider does not use the key.
struct Harness {
    provider: fn(&str, &str) -> Bedrock,
    has_key: bool,
}

impl ProviderHarness for Harness {
    type Provider = Bedrock;
    type Vendor = BedrockApi;

    fn vendor(&self) -> BedrockApi {
        BedrockApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> Bedrock {
        (self.provider)(url, api_key)
    }

    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<Bedrock> {
        let Timeouts { connect, whole, idle } = timeouts;
        let provider = self.provider(url, api_key);
        Some(provider.connect_timeout(connect).timeout(whole).idle_timeout(idle))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { api_key: self.has_key, ..capabilities() }
    }
}

mod bearer {
    use super::*;

    neuron_conformance::provider_tests!(Harness {
        provider: |url, key| Bedrock::new("us-east-1", key).base_url(url),
        has_key: true,
    });
}

#[cfg(feature = "sigv4")]
mod signed {
    use aws_credential_types::Credentials;
    use neuron_testing::BedrockServer;

    use super::*;

    fn provider(url: &str, _key: &str) -> Bedrock {
        let (id, secret) = (BedrockServer::ACCESS_KEY_ID, BedrockServer::SECRET_ACCESS_KEY);
        let credentials = Credentials::new(id, secret, None, None, "test");
        Bedrock::with_credentials("eu-central-1", credentials).base_url(url)
    }

    neuron_conformance::provider_tests!(Harness { provider, has_key: false });
}
