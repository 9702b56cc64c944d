//! Tests of layers around providers. One binary, so that it is linked once.

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
