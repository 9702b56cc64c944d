//! Shorter names for tests.

use chrono::NaiveDate;
use neuron_catalog::{Catalog, Money};
use neuron_model::TokenUsage;

/// Returns an amount of dollars.
#[track_caller]
pub(crate) fn usd(text: &str) -> Money {
    text.parse().unwrap()
}

pub(crate) fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

/// Returns the bundled catalogue with the prices of the day of its data.
pub(crate) fn catalog() -> Catalog {
    Catalog::bundled().on(day("2026-11-27"))
}

pub(crate) fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
}
