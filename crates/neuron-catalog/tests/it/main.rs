//! Tests of the catalogue, in one binary, which is linked only once.

mod budget;
mod known_prices;
mod list;
mod names;
mod own_prices;
mod properties;
mod routed_budget;
mod support;
