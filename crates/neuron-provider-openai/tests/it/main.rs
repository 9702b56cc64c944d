//! Tests of the provider over real connections. One binary, so that it is linked once.

mod book;
mod conformance;
mod dialects;
mod embeddings;
mod errors;
mod responses_properties;
mod round_trips;
mod sent;
mod support;
mod switching;
