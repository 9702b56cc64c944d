//! Servers that do what they must not: the client gets a clear error or goes on, nothing hangs beyond its time
//! limit, and memory stays bounded.
#![cfg(unix)]

mod agent;
mod alone;
mod calls;
mod ends;
mod environment;
mod floods;
mod frames;
mod http;
mod server;
mod sizes;
