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
