//! The suite that every provider passes: both APIs, and servers that are compatible but not quite.

use neuron_conformance::provider::{Capabilities, ProviderHarness, Timeouts};
use neuron_conformance::provider_tests;
use neuron_provider_openai::{OpenAi, SystemRole};
use neuron_testing::openai::{Dialect, OpenAiApi};
use neuron_types::StopReason;

/// Reasons to stop for which neither API has a word.
const UNKNOWN: [StopReason; 4] = [
    StopReason::StopSequence,
    StopReason::Compaction,
    StopReason::PauseTurn,
    StopReason::ContextWindowExceeded,
];

pub(crate) fn chat_capabilities() -> Capabilities {
    Capabilities {
        // The usage and `[DONE]` follow the chunk that says why the model stopped.
        optional_frames: 2,
        // The vendor has no field for reasoning, and compatible ones do not sign it.
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

/// A server that breaks a stream of the Responses API as the vendor's own client types have it.
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

/// A compatible server with the quirks of one kind.
struct Compatible {
    quirks: fn(Dialect) -> Dialect,
    has_numeric_codes: bool,
}

/// As llama.cpp and its like answer.
const PLAIN: Compatible = Compatible {
    quirks: |dialect| {
        dialect.later_ids_null().usage_on_last_choice().without_done().numeric_codes()
    },
    has_numeric_codes: true,
};

/// As proxies in front of other vendors answer.
const PROXY: Compatible = Compatible {
    quirks: |dialect| dialect.later_ids_empty().stop_with_calls().reasoning_field().numeric_codes(),
    has_numeric_codes: true,
};

/// Calls that come whole and without their place.
const WHOLE_CALLS: Compatible = Compatible {
    quirks: |dialect| dialect.without_call_index().whole_arguments().stop_with_calls(),
    has_numeric_codes: false,
};

/// Calls that come in pieces and without their place.
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
            // A failure is a 500 there, which can be tried again.
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

// Cuts take long, and what they find seldom depends on a server's quirks.
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

// Without `[DONE]`, and with calls that nothing but their order tells apart.
mod calls_without_place {
    super::provider_tests!(super::CALLS_WITHOUT_PLACE, text tools splits cuts);
}
