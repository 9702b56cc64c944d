//! Tests of the crate's public API with real agents.

mod local_durable;
mod support;
