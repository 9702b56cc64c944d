//! Fetches and starts the third-party programs that the tests of the workspace need.
//!
//! They are PostgreSQL, Restate, Temporal, and MCP's programs for Node.js and Python. This crate supports only Unix.
//!
//! [`fetch`] finds a program on this machine, or fetches it into the target folder. [`server`] starts a server and ends
//! it with the test process. The other modules are for one product each.

#![cfg(unix)]

pub mod command;
pub mod engines;
pub mod fetch;
pub mod mcp;
pub mod postgres;
pub mod server;

mod http;
