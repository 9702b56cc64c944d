//! OpenTelemetry of agents, tried in the ways that users take.

mod runs;
mod support;
