//! Tests of the public types, in one binary, which is linked only once.

mod boxed;
mod call_scope;
mod durable;
mod durable_provider;
mod embedding_error;
mod error_record;
mod hook;
mod layer;
mod loop_error;
mod main_error;
mod message;
mod money_budget;
mod permission;
mod provider;
mod provider_error;
mod scope;
mod serde_form;
mod stream;
mod stream_error;
mod tool;
mod usage;
