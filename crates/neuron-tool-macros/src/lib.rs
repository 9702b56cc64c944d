//! The macros [`macro@neuron_tool`] and [`macro@Tool`], which turn functions and structs into tools for AI agents.
//!
//! Use them through `neuron-tool`, which re-exports both by default.
//!
// `neuron-tests` runs the examples, which need `neuron-tool`.
#![cfg_attr(not(doctest), doc = include_str!("docs/overview.md"))]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod arguments;
mod attributes;
mod diagnostics;
mod documentation;
mod function;
mod names;
mod options;
mod structure;
mod tool;

use proc_macro::TokenStream;
use quote::quote;

/// Turns an async function into a tool.
///
#[cfg_attr(not(doctest), doc = include_str!("docs/neuron_tool.md"))]
#[proc_macro_attribute]
pub fn neuron_tool(options: TokenStream, function: TokenStream) -> TokenStream {
    function::expand(quote!(::neuron_tool), options.into(), function.into()).into()
}

/// The macro [`macro@neuron_tool`] of the crate `neuron`, for crates that do not depend on `neuron-tool`.
#[proc_macro_attribute]
pub fn umbrella_neuron_tool(options: TokenStream, function: TokenStream) -> TokenStream {
    function::expand(quote!(::neuron::tool), options.into(), function.into()).into()
}

/// Turns a struct into a tool whose arguments are the fields.
///
#[cfg_attr(not(doctest), doc = include_str!("docs/tool.md"))]
#[proc_macro_derive(Tool, attributes(tool, serde, schemars))]
pub fn derive_tool(structure: TokenStream) -> TokenStream {
    structure::expand(quote!(::neuron_tool), structure.into()).into()
}

/// The macro [`macro@Tool`] of the crate `neuron`, for crates that do not depend on `neuron-tool`.
#[proc_macro_derive(UmbrellaTool, attributes(tool, serde, schemars))]
pub fn derive_umbrella_tool(structure: TokenStream) -> TokenStream {
    structure::expand(quote!(::neuron::tool), structure.into()).into()
}
