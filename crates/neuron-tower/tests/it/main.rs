//! Layers around providers, path by path. One binary, so that it links once.

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
