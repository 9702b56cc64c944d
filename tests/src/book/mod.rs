//! Checks that the snippets of neuron's book compile as printed, and behave as the book says. Each chapter has a
//! module.
//!
//! An incomplete snippet is in a function that supplies the missing variables. Tests check what the book states, such
//! as defaults, tables and error texts. Comments name the section of the book to which a snippet or a test belongs.

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
