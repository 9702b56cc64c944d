//! Runs the conformance suite, which every provider of neuron must pass. It runs for Chat Completions, for the
//! Responses API, and for servers that are not fully compatible.

use neuron_conformance::provider::{Capabilities, ProviderHarness, Timeouts};
use neuron_conformance::provider_tests;
use neuron_model::StopReason;
use neuron_provider_openai::{OpenAi, SystemRole};
use neuron_testing::openai::{Dialect, OpenAiApi};

/// Stop reasons that neither Chat Completions nor the Responses API can express.
const UNKNOWN: [StopReason; 4] = [
    StopReason::StopSequence,
    StopReason::Compaction,
    StopReason::PauseTurn,
    StopReason::ContextWindowExceeded,
];

pub(crate) fn chat_capabilities() -> Capabilities {
    Capabilities {
        // Two frames, the usage and `[DONE]`, follow the chunk with the finish reason and may be missing.
        optional_frames: 2,
        // OpenAI has no field for reasoning, and compatible servers do not sign it.
        thinking_returns: false,
        signatures: false,
        request_id_header: Some("x-request-id"),
        ..Capabilities::default().without_stop_reasons(&UNKNOWN)
    }
}

fn with_timeouts(provider: OpenAi, timeouts: Timeouts) -> OpenAi {
    let Timeouts { connect, whole, idle } = timeouts;
    provider.connect_timeout(connect).timeout(whole).idle_timeout(idle)
}

struct Chat;

impl ProviderHarness for Chat {
    type Provider = OpenAi;
    type Vendor = OpenAiApi;

    fn vendor(&self) -> OpenAiApi {
        OpenAiApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> OpenAi {
        OpenAi::new(api_key).base_url(url)
    }

    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<OpenAi> {
        Some(with_timeouts(self.provider(url, api_key), timeouts))
    }

    fn capabilities(&self) -> Capabilities {
        chat_capabilities()
    }
}

struct Responses;

impl ProviderHarness for Responses {
    type Provider = OpenAi;
    type Vendor = OpenAiApi;

    fn vendor(&self) -> OpenAiApi {
        OpenAiApi::default()
    }

    fn provider(&self, url: &str, api_key: &str) -> OpenAi {
        OpenAi::new(api_key).base_url(url).responses_api()
    }

    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<OpenAi> {
        Some(with_timeouts(self.provider(url, api_key), timeouts))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            conversation_field: "input",
            stop_sequences: false,
            request_id_header: Some("x-request-id"),
            ..Capabilities::default().without_stop_reasons(&UNKNOWN)
        }
    }
}

/// The test setup for a server whose stream errors have the format in OpenAI's own client types, without a nested
/// object.
struct ResponsesWithFlatErrors;

impl ProviderHarness for ResponsesWithFlatErrors {
    type Provider = OpenAi;
    type Vendor = OpenAiApi;

    fn vendor(&self) -> OpenAiApi {
        OpenAiApi::new(Dialect::default().flat_stream_errors())
    }

    fn provider(&self, url: &str, api_key: &str) -> OpenAi {
        Responses.provider(url, api_key)
    }

    fn capabilities(&self) -> Capabilities {
        Responses.capabilities()
    }
}

/// The test setup for a compatible server whose responses differ from OpenAI's by certain quirks.
struct Compatible {
    quirks: fn(Dialect) -> Dialect,
    has_numeric_codes: bool,
}

/// A server with the quirks of llama.cpp and similar servers.
const PLAIN: Compatible = Compatible {
    quirks: |dialect| {
        dialect.later_ids_null().usage_on_last_choice().without_done().numeric_codes()
    },
    has_numeric_codes: true,
};

/// A server with the quirks of proxies that offer OpenAI's API for models of other vendors.
const PROXY: Compatible = Compatible {
    quirks: |dialect| dialect.later_ids_empty().stop_with_calls().reasoning_field().numeric_codes(),
    has_numeric_codes: true,
};

/// A server that sends each tool call in a single chunk and without an index.
const WHOLE_CALLS: Compatible = Compatible {
    quirks: |dialect| dialect.without_call_index().whole_arguments().stop_with_calls(),
    has_numeric_codes: false,
};

/// A server that sends tool calls in fragments and without an index.
const CALLS_WITHOUT_PLACE: Compatible = Compatible {
    quirks: |dialect| dialect.without_call_index().without_done(),
    has_numeric_codes: false,
};

impl ProviderHarness for Compatible {
    type Provider = OpenAi;
    type Vendor = OpenAiApi;

    fn vendor(&self) -> OpenAiApi {
        OpenAiApi::new((self.quirks)(Dialect::default()).lenient())
    }

    fn provider(&self, url: &str, api_key: &str) -> OpenAi {
        let provider = OpenAi::new(api_key).base_url(url).model("local");
        provider.system_role(SystemRole::System).echo_reasoning()
    }

    fn capabilities(&self) -> Capabilities {
        let chat = Capabilities { thinking_returns: true, ..chat_capabilities() };
        match self.has_numeric_codes {
            // These servers send the failure in a stream with the code 500, which makes the error retryable.
            true => chat.without_stream_errors(&["StreamError"]),
            false => chat,
        }
    }
}

mod chat {
    super::provider_tests!(super::Chat);
}

mod responses {
    super::provider_tests!(super::Responses);
}

mod responses_with_flat_errors {
    super::provider_tests!(super::ResponsesWithFlatErrors, errors stream_errors);
}

// The truncation tests take long, and their result rarely depends on a server's quirks, so they run only once.
mod plain {
    super::provider_tests!(super::PLAIN,
        text tools thinking requests prefixes usage stop_reasons errors stream_errors splits);
}

mod proxy {
    super::provider_tests!(super::PROXY,
        text tools thinking requests prefixes usage stop_reasons errors stream_errors splits);
}

mod whole_calls {
    super::provider_tests!(super::WHOLE_CALLS, text tools requests stop_reasons splits);
}

// These streams have no `[DONE]`, and only the order of fragments distinguishes the calls.
mod calls_without_place {
    super::provider_tests!(super::CALLS_WITHOUT_PLACE, text tools splits cuts);
}
