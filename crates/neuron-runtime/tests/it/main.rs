//! Tests of the crate's public API with real agents, and of the session storages.

mod cache_miss_detector;
mod guardrails;
mod loop_detector;
mod permissions;
mod sessions;
mod support;
mod tracing_hook;
mod tracing_records;
