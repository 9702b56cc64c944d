//! Agents whose tools are those of an MCP server: one trace, from the run to what the server does.

mod requests;
mod runs;
mod served;
mod silence;
mod within;
