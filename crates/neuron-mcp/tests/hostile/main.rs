//! Tests of the client with servers that violate the protocol. The client returns a clear error or continues, every
//! operation ends within its time limit, and memory stays bounded.
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
