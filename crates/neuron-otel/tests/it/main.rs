//! OpenTelemetry of agents, tried in the ways that users take.

mod support;

mod checker;
mod embedded;
mod exporting;
mod measured;
mod over_http;
mod receiver;
mod runs;
mod secrets;
