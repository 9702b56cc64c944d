//! Shared code of the tests.
//!
//! It consists of agents with tools, an exporter to memory, a receiver of OTLP, an application's export pipeline, trees
//! of spans, and a checker against OpenTelemetry's definitions.

pub(crate) mod agents;
pub(crate) mod checks;
pub(crate) mod memory;
pub(crate) mod open_spans;
pub(crate) mod polls;
pub(crate) mod tools;

pub(crate) mod attributes;
pub(crate) mod checker;
mod client;
pub(crate) mod conventions;
pub(crate) mod look;
pub(crate) mod receiver;
pub(crate) mod setup;
pub(crate) mod telemetry;
pub(crate) mod tree;
