//! Tests of the provider over real connections. One binary, so that it is linked once.

mod conformance;
mod environment;
mod errors;
mod properties;
mod round_trips;
mod sent;
mod support;
