//! Neuron on wasm32, for JavaScript. [`chat`] is the agent of the page `www/index.html`. [`cases`] are the tests, which
//! `tests/node.rs` runs under Node.js. The crate is empty on other targets.

#![cfg(target_family = "wasm")]

pub mod cases;
pub mod chat;
