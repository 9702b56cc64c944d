//! OpenTelemetry traces and metrics of agents, by the GenAI semantic conventions.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod capture;
mod conventions;
mod embeddings;
mod hook;
mod provider;
mod trace_context;

mod config;
mod content;
mod environment;
mod failure;
mod metrics;
mod record;
mod run_state;
mod span_scope;
mod spans;

pub use capture::{ContentCapture, ContentKind};
pub use conventions::SemanticConventions;
pub use embeddings::OtelEmbeddings;
pub use hook::OtelHook;
pub use provider::OtelProvider;
pub use trace_context::{current_trace_context, set_trace_parent};
