//! Tests of the crate `neuron`, outside of it, so that its examples need few dependencies.
//!
//! The code on this page of its documentation is compiled here, because it needs `reqwest`:
//!
#![doc = include_str!("../../crates/neuron/corporate-proxy.md")]

#[cfg(test)]
mod book;
#[cfg(test)]
mod e2e;
#[cfg(test)]
mod typed;

/// The examples of `neuron-tool-macros`, which cannot depend on `neuron-tool`.
#[cfg(doctest)]
mod macros {
    #[doc = include_str!("../../crates/neuron-tool-macros/src/docs/neuron_tool.md")]
    mod neuron_tool {}
    #[doc = include_str!("../../crates/neuron-tool-macros/src/docs/overview.md")]
    mod overview {}
    #[doc = include_str!("../../crates/neuron-tool-macros/src/docs/tool.md")]
    mod tool {}
}
