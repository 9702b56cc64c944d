//! The provider over real connections. One binary, so that it links once.

mod conformance;
mod environment;
mod errors;
mod properties;
mod round_trips;
mod sent;
mod support;
