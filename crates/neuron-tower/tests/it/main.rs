//! Tests of layers around providers, in one binary, which is linked only once.

mod agent;
mod buffer;
mod calls;
mod cancellation;
mod embedding;
mod errors;
mod limits;
mod retry;
mod send;
mod share;
mod support;
