//! Tests of the provider over real connections. They form one binary, so that the dependencies are linked only once.

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
