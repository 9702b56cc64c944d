//! Fetches and starts the programs of others that the workspace is tested with.
//!
//! They are PostgreSQL, Restate, Temporal, and MCP's programs for Node.js and Python. Unix only.
//!
//! [`fetch`] finds a program on this machine, or fetches it into the target folder. [`server`] starts a program
//! that serves, and ends it with the test process. The other modules are about one product each.

#![cfg(unix)]

pub mod command;
pub mod engines;
pub mod fetch;
pub mod mcp;
pub mod postgres;
pub mod server;

mod http;
