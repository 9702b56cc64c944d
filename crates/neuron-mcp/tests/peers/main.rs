//! Tests of the client with servers of other projects, and of the server with clients of other projects.
#![cfg(unix)]

mod authorization;
mod everything;
mod filesystem;
mod legacy_http;
mod python;
