//! Tests of the code that the macros of `neuron-tool-macros` generate, and of the compiler's errors.
//!
//! They are in this package, because cargo would build `neuron-tool` twice for tests of a crate of macros.

mod compile;
mod function;
// Public, because the lint `missing_docs` checks only public items.
pub mod strict;
mod structure;
