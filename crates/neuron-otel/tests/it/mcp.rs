//! Agents with tools of an MCP server. The trace extends from the run to the server's spans.

mod requests;
mod runs;
mod served;
mod silence;
mod within;
