//! Integration tests of the client, the server and the tool bridge. The modules `conformance` and `peers` run programs
//! of other projects.

mod bridge;
mod client;
#[cfg(unix)]
mod conformance;
mod durable_tasks;
mod fake_server;
#[cfg(unix)]
mod hostile;
mod hosting;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(unix)]
mod peers;
mod provider_sampling;
mod script;
mod server;
mod spans;
mod toolset;
