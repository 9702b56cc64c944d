//! Tests of the telemetry of agents, in typical setups. They form one binary, so that the dependencies are linked only
//! once.

mod support;

mod book_mode;
mod checker;
mod dropped;
mod embedded;
mod endings;
mod ends;
mod exporting;
mod mcp;
mod measured;
mod over_http;
mod parallel;
mod privacy;
mod receiver;
mod replay;
mod routed;
mod runs;
mod sampling;
mod secrets;
mod several_hooks;
mod wrappers;
