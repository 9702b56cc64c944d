//! Tests of the registry, its log, the built-in middleware and sandboxes.

mod arguments;
mod cache;
mod deferred;
mod limits;
mod log;
mod outputs;
mod panics;
mod permissions;
mod registry;
mod retries;
mod sandboxes;
mod secrets;
mod spilling;
mod support;
mod timeouts;
#[cfg(feature = "validation")]
mod validation;
