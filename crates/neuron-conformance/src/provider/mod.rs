//! Whether a provider over HTTP holds the contract of [`Provider`](neuron_types::Provider).
//!
//! Describe your provider with a [`ProviderHarness`]. [`provider_tests`](crate::provider_tests) writes one test per
//! part: the test runner then shows which part fails, and the panic message names the case. A part can also be called
//! alone, and [`check_provider`] calls all parts but [`environment`]. The suite starts the loopback servers, asks through your provider, and compares what it
//! gives with what the server was told to say, and what the server received with what was asked.
//!
//! | part | what has to hold |
//! |---|---|
//! | [`text`] | texts of every kind and length arrive, and the events of a stream are in order |
//! | [`tools`] | calls, their arguments and their results survive both ways |
//! | [`thinking`] | reasoning arrives, and goes back as it came |
//! | [`requests`] | whatever a request has is in the body, and equal requests have equal bytes |
//! | [`prefixes`] | the conversation of a turn begins with the bytes of the turn before |
//! | [`usage`] | tokens are counted in neuron's terms |
//! | [`stop_reasons`] | each reason is told from the others |
//! | [`errors`] | each error before the answer has its class, its text and its delay |
//! | [`stream_errors`] | each error within a stream too |
//! | [`keys`] | a wrong key is refused, and no key shows in an error or in `Debug` |
//! | [`splits`] | bytes may be split anywhere |
//! | [`cuts`] | an answer that is cut anywhere is an error, and never a shorter answer |
//! | [`dropping`] | what is dropped is cancelled |
//! | [`concurrency`] | calls do not disturb each other |
//! | [`streaming`] | events arrive one by one, at the pace of the reader |
//! | [`connections`] | connections are reused, and replaced when the server closed them |
//! | [`connection_errors`] | a server that cannot be reached, or goes away, is an error that names it |
//! | [`redirects`] | redirects are not followed |
//! | [`body_limits`] | bodies without an end are not read for ever |
//! | [`timeouts`] | every wait has a limit |
//! | [`environment`] | proxies and runtimes of the process do no harm |
//!
//! Answers are compared by their meaning ([`Message::text`](neuron_types::Message::text), the tool
//! calls, the portable form of raw blocks), so that a provider may keep what it likes in
//! [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw).
//!
//! What the vendor cannot express is said in [`Capabilities`]. The default demands everything. A part
//! needs a tokio runtime with a clock that is not paused, and [`timeouts`] and [`streaming`] need one of the
//! current-thread flavour, because they pause the clock.
//!
//! # Example: a provider of your own
//!
//! This one puts a company's rules in front of a vendor. The server plays that vendor; for a vendor
//! of your own, implement [`Vendor`](neuron_testing::vendor::Vendor) first.
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

mod body_limits;
mod concurrency;
mod connection_errors;
mod connections;
mod cuts;
mod dropping;
mod environment;
mod errors;
mod keys;
mod prefixes;
mod redirects;
mod requests;
mod splits;
mod stop_reasons;
mod stream_errors;
mod streaming;
mod text;
mod thinking;
mod timeouts;
mod tools;
mod usage;

mod context;
mod events;
mod json;
mod meaning;

pub use capabilities::Capabilities;
pub use harness::{ProviderHarness, Timeouts};

pub use body_limits::body_limits;
pub use concurrency::concurrency;
pub use connection_errors::connection_errors;
pub use connections::connections;
pub use cuts::cuts;
pub use dropping::dropping;
pub use environment::environment;
pub use errors::errors;
pub use keys::keys;
pub use prefixes::prefixes;
pub use redirects::redirects;
pub use requests::requests;
pub use splits::splits;
pub use stop_reasons::stop_reasons;
pub use stream_errors::stream_errors;
pub use streaming::streaming;
pub use text::text;
pub use thinking::thinking;
pub use timeouts::timeouts;
pub use tools::tools;
pub use usage::usage;

/// Writes one `#[tokio::test]` per part of the provider suite, named after the part.
///
/// The first argument is a [`ProviderHarness`]. All parts are tested, or those that follow it. Put several harnesses in
/// modules of their own.
///
/// # Example
///
/// ```
/// # /*
/// neuron_conformance::provider_tests!(Harness);
///
/// mod other_server {
///     neuron_conformance::provider_tests!(super::OtherServer, text tools errors);
/// }
/// # */
/// ```
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

/// Checks every part but [`environment`], which needs a test of its own.
///
/// It takes some seconds: bytes are split and cut at every position.
///
/// # Panics
///
/// At the first thing that does not hold; the text names the part and the case.
pub async fn check_provider(harness: &impl ProviderHarness) {
    text(harness).await;
    tools(harness).await;
    thinking(harness).await;
    requests(harness).await;
    prefixes(harness).await;
    usage(harness).await;
    stop_reasons(harness).await;
    errors(harness).await;
    stream_errors(harness).await;
    keys(harness).await;
    splits(harness).await;
    cuts(harness).await;
    dropping(harness).await;
    concurrency(harness).await;
    streaming(harness).await;
    connections(harness).await;
    connection_errors(harness).await;
    redirects(harness).await;
    body_limits(harness).await;
    timeouts(harness).await;
}
