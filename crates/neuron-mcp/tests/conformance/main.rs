//! The official conformance suite judges our client and our server.
#![cfg(unix)]

#[cfg(feature = "oauth")]
mod client;
mod report;
mod server;
