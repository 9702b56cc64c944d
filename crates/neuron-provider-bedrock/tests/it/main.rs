//! Tests of the provider over real connections. They form one binary, so that the dependencies are linked only once.

mod conformance;
mod environment;
mod errors;
mod round_trips;
mod sent;
#[cfg(feature = "sigv4")]
mod sigv4;
mod support;
mod switching;
