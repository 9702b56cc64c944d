//! Fetches and starts the third-party programs that the tests of the workspace need.
//!
//! The programs are PostgreSQL, Restate, Temporal, nginx, and MCP's programs for Node.js and Python. This crate
//! supports only Unix.
//!
//! [`fetch`] finds a program on this machine, or downloads it into the target folder. [`server`] starts a server, and
//! stops it when the test process exits. The other modules are for one product each.

#![cfg(unix)]

pub mod command;
pub mod engines;
pub mod fetch;
pub mod mcp;
pub mod nginx;
pub mod postgres;
pub mod server;

mod http;
