//! Tests of cassettes, evals, the scripted provider and the loopback servers.

mod cassette;
mod evals;
mod scripted_provider;
mod servers;
