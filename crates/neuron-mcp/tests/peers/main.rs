//! Our client before real servers, and our server before a real client.
#![cfg(unix)]

mod everything;
mod filesystem;
mod python;
