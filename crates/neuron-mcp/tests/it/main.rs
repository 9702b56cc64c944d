//! What holds across the parts of the crate.

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
