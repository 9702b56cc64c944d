//! tower middleware for model providers, and tower services as providers.
//!
//! Providers do not retry or limit calls. With [`tower`] you can add retries, timeouts, rate limits, concurrency
//! limits, load shedding, buffers, and your own layers. The result is a [`Provider`](neuron_model::Provider) again, for
//! example for an agent.
//!
//! ```
//! use std::time::Duration;
//!
//! use neuron_testing::{Reply, ScriptedProvider};
//! use neuron_tower::{RetryTransient, ServiceProvider};
//! use neuron_model::{CompletionRequest, Provider, ProviderError};
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
//! tower layers wrap a provider. They apply to all agents that share the provider, and do not know the run that makes a
//! call. They are inside the call that a durable engine journals. A `ModelLayer` of the
//! agent loop wraps each model call of one agent. It receives the conversation, and may change the request or reject
//! the response. An agent also retries calls by default. If a tower layer retries, disable the retries of the agent
//! (`LoopConfig::retries`).
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
//! The agent loop passes the conversation to the provider by reference, and so does this crate. Layers receive a
//! [`ModelCall`] that borrows the request, and a retry borrows the request again. Only [`OwnedRequestLayer`] copies the
//! request, once for each call.
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
//! | `timeout` before a limit | the timeout does not include the time in the queue of the limit |
//!
//! A limit queues calls in `poll_ready`. `timeout` starts its timer later, in `call`.
//!
//! # Streams
//!
//! For a layer, a streamed call is complete as soon as the stream starts. Therefore
//!
//! - `timeout` limits only the time until the stream starts. The provider's own timeouts apply to the stream.
//! - `retry` retries only errors before the stream starts.
//! - `concurrency_limit` counts a call only until the stream starts. [`CallLimitLayer`] counts it until the stream
//!   ends.
//!
//! # Features and platforms
//!
//! This crate uses tower 0.5 without its optional limits. Depend on `tower` with the features of the layers that you
//! need (`limit`, `buffer`). `retry`, `timeout` and `load-shed` are already enabled. The layers use tokio's timers, so
//! a tokio runtime with an enabled timer is required. This crate cannot be used on `wasm32-unknown-unknown`, which has
//! no such timer.

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
