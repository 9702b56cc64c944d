//! Tests of the built-in middleware and of sandboxes, with the tools in `support`.

mod arguments;
mod cache;
mod deferred;
mod limits;
mod outputs;
mod panics;
mod permissions;
mod retries;
mod sandboxes;
mod secrets;
mod spilling;
mod support;
mod timeouts;
#[cfg(feature = "validation")]
mod validation;
