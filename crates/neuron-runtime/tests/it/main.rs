//! The crate from outside, with real agents.

mod guardrails;
mod local_durable;
mod permissions;
mod support;
mod tracing_hook;
mod tracing_records;
