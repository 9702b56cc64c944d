//! What the tests share: a receiver of OTLP, an application's pipeline to it, the spans as a tree, and a
//! checker that holds what arrived against OpenTelemetry's definitions.

pub(crate) mod attributes;
pub(crate) mod checker;
mod client;
pub(crate) mod conventions;
pub(crate) mod receiver;
pub(crate) mod telemetry;
pub(crate) mod tree;
