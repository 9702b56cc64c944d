//! OpenTelemetry of agents, tried in the ways that users take.

mod support;

mod checker;
mod receiver;
mod runs;
