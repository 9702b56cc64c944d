//! Tests of the client with servers of other projects, and of the server with clients of other projects.

mod authorization;
mod clients;
mod everything;
mod filesystem;
mod legacy_http;
mod newest;
mod servers;
mod support;
