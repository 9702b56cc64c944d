//! Integration tests of the client, the server and the tool bridge, without external programs or services.

mod bridge;
mod client;
mod fake_server;
mod hosting;
#[cfg(feature = "oauth")]
mod oauth;
mod provider_sampling;
mod script;
mod server;
mod spans;
mod toolset;
