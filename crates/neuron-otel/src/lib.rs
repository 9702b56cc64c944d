//! OpenTelemetry traces and metrics of agents, by the GenAI semantic conventions.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod capture;
mod content;
mod environment;

pub use capture::{ContentCapture, ContentKind};
