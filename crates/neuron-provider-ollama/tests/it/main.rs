//! Tests of the provider over real connections. One binary, so that it is linked once.

mod conformance;
mod echo;
mod embeddings;
mod environment;
mod errors;
mod round_trips;
mod sent;
mod support;
