//! Our client before real servers, and our server before a real client.
#![cfg(unix)]

mod authorization;
mod everything;
mod filesystem;
mod legacy_http;
mod python;
