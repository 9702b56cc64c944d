//! The built-in middleware, each around tools that do what a test says.

mod arguments;
mod cache;
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
