//! Tests of the public types, in one binary, which is linked only once.

mod boxed;
mod call_scope;
mod durable;
mod durable_provider;
mod hook;
mod layer;
mod loop_error;
mod main_error;
mod money_budget;
mod permission;
mod scope;
mod serde_form;
mod stream_error;
mod tool;
