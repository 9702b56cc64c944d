//! Provider for [Amazon Bedrock](https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference.html).

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
mod credentials;
mod event_stream;
#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
mod sigv4;

pub use neuron_http::KeySource;
/// The crate `neuron-types`, with the messages, requests, traits and errors in this crate's API. The crate `neuron` has
/// the same items under the same names. The whole crate is re-exported, because a list of names would miss items of
/// later versions.
pub use neuron_types as types;
