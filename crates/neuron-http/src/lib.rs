//! What every provider over HTTP needs and none should write again: a client with time limits, bodies
//! that arrive in pieces, server-sent events, keys that never show, and what headers say.
//!
//! Nothing in it knows a vendor. [`reqwest`] stands in its public surface.
//!
//! | for | see |
//! |---|---|
//! | sending a request | [`Http`], [`Timeouts`], [`Deadline`], [`BaseUrl`] |
//! | reading the response | [`read_body`], [`read_beginning`], [`Body`] |
//! | server-sent events | [`SseDecoder`] |
//! | keys | [`Secret`] |
//! | when to try again | [`retry_after`], [`header`] |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod base_url;
mod client;
mod deadline;
mod transport;

mod body;
mod headers;
mod sse;

mod secret;

pub use base_url::BaseUrl;
pub use body::{Body, read_beginning, read_body};
pub use client::{Http, Timeouts};
pub use deadline::Deadline;
pub use headers::{header, retry_after};
pub use reqwest;
pub use secret::Secret;
pub use sse::{SseDecoder, TooLarge};
