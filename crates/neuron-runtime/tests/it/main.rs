//! Tests of the crate's public API with real agents, of the session storages, and of the process sandbox.

mod cache_miss_detector;
mod guardrails;
mod local_durable;
mod loop_detector;
mod permissions;
#[cfg(all(target_os = "linux", feature = "process-sandbox"))]
mod sandbox;
mod sessions;
mod support;
mod tracing_hook;
mod tracing_records;
