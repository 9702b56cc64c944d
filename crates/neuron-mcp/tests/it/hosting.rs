//! Tests of access, limits, sessions and shutdown of a server over HTTP, over a pair of streams, and over stdio.

mod accept;
mod authentication;
mod authorization;
mod endpoint;
mod limits;
mod lines;
mod names;
mod raw;
mod server;
mod service;
mod sessions;
mod shutdown;
mod standard;
mod tasks;
