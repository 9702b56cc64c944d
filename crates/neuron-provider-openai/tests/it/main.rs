//! The provider over real connections. One binary, so that it links once.

mod book;
mod breaks;
mod conformance;
mod connections;
mod embeddings;
mod errors;
mod round_trips;
mod secrets;
mod sent;
mod support;
mod switching;
mod timeouts;
