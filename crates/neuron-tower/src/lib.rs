//! tower's middleware around a model provider, and a tower service as a provider.
//!
//! Providers retry nothing and limit nothing. Here is how they get that from [`tower`]: retries,
//! time limits, rate and concurrency limits, load shedding, buffers, and layers of your own. What
//! comes out is a [`Provider`](neuron_types::Provider) again, which an agent takes.
//!
//! ```
//! use std::time::Duration;
//!
//! use neuron_testing::{Reply, ScriptedProvider};
//! use neuron_tower::{RetryTransient, ServiceProvider};
//! use neuron_types::{CompletionRequest, Provider, ProviderError};
//! use tower::ServiceBuilder;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), ProviderError> {
//! let provider = ScriptedProvider::new([
//!     Reply::error(ProviderError::ServiceUnavailable("529 overloaded".into())),
//!     Reply::error(ProviderError::RateLimit { retry_after: Some(Duration::from_secs(3)) }),
//!     Reply::text("Here I am."),
//! ]);
//! let layers = ServiceBuilder::new()
//!     .concurrency_limit(4)
//!     .retry(RetryTransient::new())
//!     .timeout(Duration::from_secs(60));
//! let provider = ServiceProvider::layered(layers, provider);
//!
//! let response = provider.complete(CompletionRequest::default()).await?;
//! assert_eq!(response.message.text(), "Here I am.");
//! # Ok(())
//! # }
//! ```
//!
//! # Layers of a run
//!
//! These layers stand around a provider. They know nothing of the run that calls it, lie inside the call that a durable
//! engine journals, and hold for all agents that share the provider. A
//! [`ModelLayer`](neuron_types::ModelLayer) of the agent loop stands around each call of one agent's runs: it sees the
//! conversation, and may change the request or reject the answer. An agent has retries of its own by default, so one of
//! both should be turned off (`LoopConfig::retries`).
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | a provider with layers around it | [`ServiceProvider`] |
//! | what to retry, when, and how often | [`RetryTransient`], [`RetryableError`] |
//! | a layer of your own | [`ModelCall`], [`ModelAnswer`], [`ProviderService`] |
//! | a limit on open calls that counts streams until they end | [`CallLimitLayer`] |
//! | `rate_limit`, and whatever else cannot be cloned | [`ShareLayer`] |
//! | `buffer`, and whatever else needs `'static` requests | [`OwnRequestLayer`] |
//! | embeddings | [`EmbeddingService`] |
//!
//! # No copies
//!
//! The agent loop lends the conversation to the provider, and so does this crate: layers see a
//! [`ModelCall`] that borrows the request, and every retry borrows it again. Only
//! [`OwnRequestLayer`] copies it, once for each call that comes through.
//!
//! # The order of layers
//!
//! A [`ServiceBuilder`](tower::ServiceBuilder) lists layers from the outside in, and the order has
//! a meaning:
//!
//! | order | means |
//! |---|---|
//! | `retry` before `timeout` | the time limit is that of one attempt |
//! | `timeout` before `retry` | the time limit is that of all attempts and the waits between them |
//! | `concurrency_limit` before `retry` | a call keeps its place while it waits for a retry |
//! | `retry` before `concurrency_limit` | a call that waits for a retry lets others pass |
//! | `retry` before `rate_limit` | retries count against the rate |
//! | `timeout` before a limit | the time in the queue does not count: a service is called when it is ready, and timed from then |
//!
//! # Streams
//!
//! To a layer, a streamed answer is there as soon as it begins. So `timeout` limits the time to the
//! beginning (the provider's own limits guard the rest), `retry` retries only until then, and
//! `concurrency_limit` counts a call only until then: [`CallLimitLayer`] counts it until it ends.
//!
//! # Features and platforms
//!
//! This crate uses tower 0.5 and none of its optional limits: depend on `tower` with the features
//! whose layers you want (`limit`, `buffer`; `retry`, `timeout` and `load-shed` are on already).
//! Timers are tokio's: there must be a tokio runtime with its time enabled, and on
//! `wasm32-unknown-unknown`, where there is none, this crate is of no use.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answer;
mod call;

mod provider_service;
mod service_provider;

mod embedding;

mod retry;

mod call_limit;
mod own_request;
mod share;

mod error;

pub use answer::ModelAnswer;
pub use call::ModelCall;
pub use call_limit::{CallLimit, CallLimitFuture, CallLimitLayer};
pub use embedding::EmbeddingService;
pub use error::RetryableError;
pub use own_request::{OwnRequest, OwnRequestLayer};
pub use provider_service::ProviderService;
pub use retry::RetryTransient;
pub use service_provider::ServiceProvider;
pub use share::{Share, ShareLayer};
