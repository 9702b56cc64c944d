//! Tests of the client and the server with the official MCP conformance suite.

#[cfg(feature = "oauth")]
mod client;
mod report;
mod server;
