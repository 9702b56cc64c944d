//! Tests of agents with tools of an MCP server. A trace must extend from the agent's run to the server's spans.

mod requests;
mod runs;
mod served;
mod silence;
mod within;
