//! Fetches and starts the programs of others that the workspace is tested with: PostgreSQL, Restate, Temporal, and
//! the MCP programs that run on Node.js and Python. Unix only.

#![cfg(unix)]

pub mod engines;
pub mod mcp;
pub mod postgres;

mod fetched;
mod server_process;
