//! The conformance suite for a [`Provider`](neuron_types::Provider) that uses HTTP.
//!
//! Describe your provider with a [`ProviderHarness`]. The macro [`provider_tests`](crate::provider_tests) generates one
//! test per part, so the test runner shows which part fails. The panic message names the case. You can also call a part
//! directly, or call [`check_provider`], which runs all parts except [`environment`].
//!
//! The suite starts loopback servers and calls your provider. It compares the provider's responses with the script of
//! the server, and the requests that the server received with the calls.
//!
//! | part | checks that |
//! |---|---|
//! | [`text`] | texts of every kind and length arrive, and the events of a stream are in order |
//! | [`tools`] | calls, their arguments and their results arrive unchanged in both directions |
//! | [`thinking`] | reasoning arrives, and is sent back unchanged with the next request |
//! | [`requests`] | every field of a request is in the body, and equal requests have equal bytes |
//! | [`prefixes`] | the conversation in each request begins with the bytes of the previous conversation |
//! | [`usage`] | tokens are counted as [`TokenUsage`](neuron_types::TokenUsage) defines |
//! | [`stop_reasons`] | each stop reason is distinguished from the others |
//! | [`errors`] | each error before the response has the right kind, text and retry delay |
//! | [`stream_errors`] | each error within a stream has the right kind and text |
//! | [`keys`] | a wrong key is rejected, and no error and no `Debug` shows a key |
//! | [`splits`] | a response is decoded correctly wherever its bytes are split into chunks |
//! | [`cuts`] | a response that is cut anywhere is an error, and never a shorter response |
//! | [`dropping`] | a dropped call is cancelled |
//! | [`concurrency`] | concurrent calls do not affect each other |
//! | [`streaming`] | events arrive one by one, at the pace of the reader |
//! | [`connections`] | connections are reused, and replaced if the server closed them |
//! | [`connection_errors`] | connection errors have the right kind, and name the server |
//! | [`redirects`] | redirects are not followed |
//! | [`body_limits`] | an endless body is read only in part |
//! | [`timeouts`] | every wait has a limit |
//! | [`environment`] | a call outside of a tokio runtime fails, and no proxy is used for loopback addresses |
//!
//! The suite compares two responses by [`Message::text`](neuron_types::Message::text), their tool calls, and the
//! standard block (`portable`) inside each [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw). The vendor's
//! own JSON of such a block is not compared.
//!
//! By default all features are required. Turn off the features that the vendor does not have in [`Capabilities`]. A
//! part needs a tokio runtime whose clock is not paused. [`timeouts`] and [`streaming`] pause the clock themselves and
//! need a current-thread runtime, which is the default of `#[tokio::test]`.
//!
//! # Example: a provider of your own
//!
//! This provider wraps another provider and limits the tokens of each request. The loopback server emulates the vendor
//! of the inner provider. For a vendor that `neuron-testing` does not emulate, implement
//! [`Vendor`](neuron_testing::vendor::Vendor) first.
//!
//! ```
//! use neuron_provider_anthropic::Anthropic;
//! use neuron_testing::anthropic::AnthropicApi;
//! use neuron_conformance::provider::{self, Capabilities, ProviderHarness};
//! use neuron_types::*;
//!
//! /// Anthropic's models, and never more than a thousand tokens.
//! #[derive(Debug)]
//! struct Thrifty(Anthropic);
//!
//! impl Thrifty {
//!     fn limited(mut request: CompletionRequest) -> CompletionRequest {
//!         request.max_tokens = Some(request.max_tokens.map_or(1000, |tokens| tokens.min(1000)));
//!         request
//!     }
//! }
//!
//! impl Provider for Thrifty {
//!     async fn complete(&self, request: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
//!         self.0.complete(Self::limited(request)).await
//!     }
//!
//!     async fn complete_stream(&self, request: CompletionRequest) -> Result<StreamHandle, ProviderError> {
//!         self.0.complete_stream(Self::limited(request)).await
//!     }
//! }
//!
//! struct ThriftyHarness;
//!
//! impl ProviderHarness for ThriftyHarness {
//!     type Provider = Thrifty;
//!     type Vendor = AnthropicApi;
//!
//!     fn vendor(&self) -> AnthropicApi {
//!         AnthropicApi::default()
//!     }
//!
//!     fn provider(&self, url: &str, api_key: &str) -> Thrifty {
//!         Thrifty(Anthropic::new(api_key).base_url(url))
//!     }
//!
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities {
//!             request_id_header: Some("request-id"),
//!             // This vendor has no word for one reason and one error.
//!             ..Capabilities::default()
//!                 .without_stop_reasons(&[StopReason::ContentFilter])
//!                 .without_errors(&["ModelLoading"])
//!         }
//!     }
//! }
//!
//! // In your tests: one test per part.
//! neuron_conformance::provider_tests!(ThriftyHarness);
//!
//! // Or some parts.
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! provider::tools(&ThriftyHarness).await;
//! provider::stop_reasons(&ThriftyHarness).await;
//! # }
//! ```

mod capabilities;
mod harness;

mod answers;
mod connections;
mod environment;
mod errors;
mod keys;
mod requests;
mod splits;
mod streaming;
mod text;
mod timeouts;
mod tools;

mod context;
mod events;
mod json;
mod meaning;

pub use capabilities::Capabilities;
pub use harness::{ProviderHarness, Timeouts};

pub use answers::{stop_reasons, thinking, usage};
pub use connections::{concurrency, connections, dropping};
pub use environment::environment;
pub use errors::{body_limits, connection_errors, errors, redirects, stream_errors};
pub use keys::keys;
pub use requests::{prefixes, requests};
pub use splits::{cuts, splits};
pub use streaming::streaming;
pub use text::text;
pub use timeouts::timeouts;
pub use tools::tools;

/// Generates one `#[tokio::test]` per part of the provider suite, named after the part.
///
/// The argument is a [`ProviderHarness`](crate::provider::ProviderHarness). `provider_tests!(Harness, text tools)`
/// generates only the tests of the parts `text` and `tools`. If you have several harnesses, call the macro in a
/// separate module for each harness. The module [`provider`](crate::provider) has an example.
#[macro_export]
macro_rules! provider_tests {
    ($harness:expr) => {
        $crate::provider_tests!($harness,
            text tools thinking requests prefixes usage stop_reasons errors stream_errors keys splits cuts dropping
            concurrency streaming connections connection_errors redirects body_limits timeouts);

        #[tokio::test]
        async fn environment() {
            let test = concat!(module_path!(), "::environment");
            $crate::provider::environment(&$harness, test).await;
        }
    };
    ($harness:expr, $($part:ident)+) => {$(
        #[tokio::test]
        async fn $part() {
            $crate::provider::$part(&$harness).await;
        }
    )+};
}

/// Runs every part of the suite except [`environment`], which must be called from its own test.
///
/// The check takes some seconds, because [`splits`] and [`cuts`] split and cut a response at every byte.
///
/// # Panics
///
/// Panics at the first violation. The message names the part and the case.
pub async fn check_provider(harness: &impl ProviderHarness) {
    macro_rules! check {
        ($($part:ident)*) => {{$($part(harness).await;)*}};
    }
    check! {
        text tools thinking requests prefixes usage stop_reasons errors stream_errors keys splits cuts dropping
        concurrency streaming connections connection_errors redirects body_limits timeouts
    }
}
