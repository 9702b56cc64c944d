//! Chooses the provider and the model of each call.
//!
//! A [`Router`] is a [`Provider`](neuron_model::Provider) over several others. It falls back to another route after an
//! outage, avoids routes that failed, and prefers routes by their order, price, latency or weight.
//!
//! ```
//! use std::time::Duration;
//!
//! use neuron_router::{Order, Route, Router};
//! use neuron_testing::{Reply, ScriptedProvider};
//! use neuron_model::{CompletionRequest, Provider, ProviderError};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ProviderError> {
//! # let claude = ScriptedProvider::new([Reply::error(ProviderError::RateLimit { retry_after: None })]);
//! # let gpt = ScriptedProvider::new([Reply::text("Here I am.")]);
//! let router = Router::builder()
//!     .route(Route::new("claude", claude).price(3.0))
//!     .route(Route::new("gpt", gpt).model("gpt-5.4-mini").price(0.75))
//!     .order(Order::Listed)
//!     .deadline(Duration::from_secs(120))
//!     .sticky(1_000)
//!     .build()?;
//!
//! let response = router.complete(CompletionRequest::default()).await?;
//! assert_eq!(response.message.text(), "Here I am.");
//! # Ok(())
//! # }
//! ```
//!
//! # Overview
//!
//! | task | item |
//! |---|---|
//! | a provider with a name, a model and changes of the request | [`Route`] |
//! | the model name and the `extra` fields of a request | [the request of a route](Route#the-request-of-a-route) |
//! | the preferred route by list, price, latency or chance | [`Order`] |
//! | the same route for a conversation, for the vendor's prompt cache | [`RouterBuilder::sticky`] |
//! | a time limit of the whole call | [`RouterBuilder::deadline`] |
//! | a second call if the first is slow | [`RouterBuilder::hedge_after`] |
//! | a comparison with another model in production | `Shadow` |
//! | the name of the route that answered | [`AnswerMetadata::route`](neuron_model::AnswerMetadata::route) |
//!
//! # Fallback
//!
//! | error | next route | pause of the route |
//! |---|---|---|
//! | `Network`, `RateLimit`, `ModelLoading`, `Timeout`, `ServiceUnavailable` | yes | yes |
//! | `InsufficientResources`, `StreamError` | yes | yes |
//! | `ContextWindowExceeded` | those with a larger [`context_window`](Route::context_window) | no |
//! | `ModelNotFound` | yes | no |
//! | `Authentication` | after [`RouterBuilder::fall_back_on_authentication`] | yes |
//! | `InvalidRequest`, `Other` | no | no |
//!
//! - A route is called at most once in a call. Retries are the task of the caller, for example of an agent.
//! - After an error without a next route, no further route is called. If another call is open at the same time, because
//!   of [`RouterBuilder::hedge_after`], it continues, and its answer is returned.
//! - A stream falls back until its first content. The router returns the stream only then, so nothing is repeated to
//!   the reader. The error of a stream that breaks later is one of its events. The route is paused, so that a retry of
//!   the caller prefers another route.
//! - If the vendor requested a delay, the route is not called during this delay. Otherwise a route cools off for
//!   [`RouterBuilder::cooling_off`], during which it is called only after all others.
//! - Dropping the future or the stream cancels all calls that are open.
//! - The usage of a response is that of its route. The tokens of failed and cancelled calls are unknown.
//!
//! # Errors
//!
//! The error of a call lists the routes that were called, with their errors. It also lists the routes that were not
//! called, with the reason, unless an error without a next route ended the call.
//!
//! - If a retry may succeed, the error is retryable. It is a `ServiceUnavailable` with the shortest delay that the
//!   vendors requested. If a call may have used tokens, it is a `Network` error, whose source is a [`RoutesFailed`].
//! - Otherwise the variant is that of the last error that may have used tokens, such as a `StreamError`. If there is
//!   none, the variant is that of the last error. If a request exceeds the context window, an agent can therefore
//!   compact its history.
//! - The error of a durable engine inside `Other` is returned unchanged.
//!
//! # Durable runs
//!
//! A router is inside the call that a durable engine journals. The journal has the response with its route. A replay
//! calls no route, so the order may depend on the clock and on random numbers.
//!
//! # Telemetry
//!
//! Each call of a route has a span `route` of `tracing`, with the target `neuron_router` and the fields `route.name`,
//! `gen_ai.provider.name`, `gen_ai.request.model` and `error.type`. It is a child of the current span, and ends with
//! the stream. OpenTelemetry exports it as `route {name}`. The span of a failed call has the status ERROR and contains
//! a warning. A call that was cancelled because another route answered first is not a failure.
//!
//! [`Provider::info`](neuron_model::Provider::info) names the first route, because it is the same for all calls. The
//! span of a model call in `neuron-otel` names the provider and the model of the route that answered.
//!
//! # Platforms
//!
//! Everything except `Shadow` works on wasm32. Without a timer, see [`clock`](neuron_model::clock), there is no deadline
//! and no hedging.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod router;

mod builder;
mod order;
mod route;
#[cfg(not(target_family = "wasm"))]
mod shadow;

mod call;
mod failure;
mod health;
mod open_stream;
mod routed_stream;
mod shared;
mod sticky;

mod clock;
mod random;

pub use builder::RouterBuilder;
pub use failure::RoutesFailed;
pub use order::{Order, PriceFunction};
pub use route::Route;
pub use router::Router;
#[cfg(not(target_family = "wasm"))]
pub use shadow::{Shadow, ShadowAnswer};
