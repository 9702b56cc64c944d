//! Tests of the client with servers that violate the protocol. They check three properties of the client:
//!
//! - It returns a clear error or continues.
//! - Every operation ends within its time limit.
//! - Its memory stays bounded.

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
