//! Our client with servers of other vendors, and our server with their clients.
#![cfg(unix)]

mod authorization;
mod clients;
mod everything;
mod filesystem;
mod legacy_http;
mod servers;
