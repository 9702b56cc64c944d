//! The provider over real connections. One binary, so that it links once.

mod breaks;
mod conformance;
mod connections;
mod embeddings;
mod errors;
mod round_trips;
mod secrets;
mod sent;
mod streaming;
mod support;
mod surroundings;
mod timeouts;
