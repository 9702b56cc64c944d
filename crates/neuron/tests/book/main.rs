//! The book's snippets, chapter by chapter: they compile as they are printed, and do what the book
//! says.
//!
//! A fragment stands in a function that supplies the variables it leaves out. Where a chapter states
//! a behaviour (a table, a default, a text), a test of that chapter checks it.

mod agent_loop;
mod concepts;
mod context;
mod design_decisions;
mod embeddings;
mod errors;
mod mcp;
mod observability;
mod providers;
#[rustfmt::skip]
mod quickstart;
mod runtime;
mod testing;
mod tool_macros;
mod tool_middleware;
mod tools;
