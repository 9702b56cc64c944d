//! Tests of the provider over real connections. They form one binary, so that the dependencies are linked only once.

mod conformance;
mod embeddings;
mod environment;
mod errors;
mod round_trips;
mod sent;
mod support;
mod switching;
mod vertex;
mod vertex_embeddings;
