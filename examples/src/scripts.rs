//! The replies of the servers, for each example.

mod comparison;
mod connect;
mod control;
mod conversations;
mod durable;
mod providers;
mod start;

use neuron::types::TokenUsage;

use crate::{Example, Script};

/// Creates the [`Example`] of a program, from its name, its script and the lines that a test enters.
macro_rules! example {
    ($name:literal, $script:expr) => {
        example!($name, $script, "")
    };
    ($name:literal, $script:expr, $input:expr) => {
        crate::Example { name: $name, script: $script, input: $input }
    };
}
use example;

/// Returns the examples of all parts of the book.
pub(crate) fn all() -> Vec<Example> {
    [
        start::examples(),
        conversations::examples(),
        control::examples(),
        connect::examples(),
        providers::examples(),
        durable::examples(),
        comparison::examples(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the usage that a reply reports.
fn tokens(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
}
