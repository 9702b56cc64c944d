//! Tests of the code that the macros generate, and of the compiler's errors.

mod compile;
mod function;
mod names;
// Public, because the lint `missing_docs` checks only public items.
pub mod strict;
mod structure;
