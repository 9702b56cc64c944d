//! A server over HTTP and over a pair of streams: who is let in, what limits hold, how it ends.

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
