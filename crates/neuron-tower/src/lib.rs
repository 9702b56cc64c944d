//! tower middleware for model providers, and tower services as providers.
//!
//! Providers do not retry or limit calls. [`tower`] adds retries, timeouts, rate and concurrency limits, load shedding,
//! buffers, and your own layers. The result is a [`Provider`](neuron_types::Provider) again, for example for an agent.
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
//! # Model layers of a run
//!
//! tower layers wrap a provider. They do not know the run that calls it, are inside the call that a durable engine
//! journals, and apply to all agents that share the provider. A [`ModelLayer`](neuron_types::ModelLayer) of the agent
//! loop wraps each model call of one agent. It receives the conversation, and may change the request or reject the
//! response. Agents retry by default, so disable the retries in one of both places (`LoopConfig::retries`).
//!
//! # Overview
//!
//! | task | types |
//! |---|---|
//! | a provider with layers around it | [`ServiceProvider`] |
//! | a retry policy | [`RetryTransient`], [`RetryableError`] |
//! | a layer of your own | [`ModelCall`], [`ModelResponseFuture`], [`ProviderService`] |
//! | a limit on open calls that counts streams until they end | [`CallLimitLayer`] |
//! | `rate_limit` and other services that cannot be cloned | [`SharedServiceLayer`] |
//! | `buffer` and other layers that need `'static` requests | [`OwnedRequestLayer`] |
//! | embeddings | [`EmbeddingService`] |
//!
//! # No copies
//!
//! The agent loop lends the conversation to the provider, and this crate preserves that. Layers receive a [`ModelCall`]
//! that borrows the request, and every retry borrows it again. Only [`OwnedRequestLayer`] copies the request, once for
//! each call.
//!
//! # The order of layers
//!
//! A [`ServiceBuilder`](tower::ServiceBuilder) lists layers from the outermost to the innermost. Their order matters:
//!
//! | order | effect |
//! |---|---|
//! | `retry` before `timeout` | the timeout applies to each attempt |
//! | `timeout` before `retry` | the timeout applies to all attempts and the delays between them |
//! | `concurrency_limit` before `retry` | a call holds its permit while it waits for a retry |
//! | `retry` before `concurrency_limit` | a call releases its permit while it waits for a retry |
//! | `retry` before `rate_limit` | retries count against the rate |
//! | `timeout` before a limit | the time in the queue does not count, because a service is called, and timed, when it is ready |
//!
//! # Streams
//!
//! For a layer, a streamed response is complete as soon as the stream begins. So `timeout` limits the time to the
//! beginning (the provider's own timeouts cover the rest), `retry` retries only until then, and `concurrency_limit`
//! counts a call only until then. [`CallLimitLayer`] counts it until it ends.
//!
//! # Features and platforms
//!
//! This crate uses tower 0.5 without its optional limits. Depend on `tower` with the features of the layers that you
//! need (`limit`, `buffer`). `retry`, `timeout` and `load-shed` are already enabled. Timers are tokio's, so a tokio
//! runtime with time enabled is required. On `wasm32-unknown-unknown` there is none, and this crate cannot be used.

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

pub use answer::ModelResponseFuture;
pub use call::ModelCall;
pub use call_limit::{CallLimit, CallLimitFuture, CallLimitLayer};
pub use embedding::EmbeddingService;
pub use error::RetryableError;
pub use own_request::{OwnRequest, OwnedRequestLayer};
pub use provider_service::ProviderService;
pub use retry::RetryTransient;
pub use service_provider::ServiceProvider;
pub use share::{SharedService, SharedServiceLayer};
