//! Middleware that is ready to use.
//!
//! | middleware | what it does |
//! |---|---|
//! | [`PermissionChecker`] | asks a policy before each call |
//! | [`OutputFormatter`] | cuts long outputs |
//! | [`SecretRedactor`] | hides secrets in what tools return |
//! | [`OutputSpiller`] | stores long outputs, which the model reads in pieces by an [`OutputReader`] |
//! | [`ToolCache`] | answers a repeated call without running the tool again |
//! | [`TimeoutMiddleware`] | ends calls that take too long |
//! | [`ConcurrencyLimit`] | lets so many calls run at the same time |
//! | [`RateLimit`] | lets so many calls start in a period |
//! | [`RetryLimit`] | ends the run when the model keeps getting a tool's arguments wrong |
//! | [`ArgumentLimits`] | refuses arguments that are nested too deep or too large |
//! | [`RetryInvalidInput`] | lets the model correct arguments that do not fit |
//! | `SchemaValidator` | checks arguments against the tools' schemas |
//! | `StructuredOutputValidator` | checks arguments against one schema, and lets the model try again |
//! | `RetryLimitedValidator` | the same, so many times |
//!
//! The validators need the feature `validation`. What needs a clock is not there on wasm.
//!
//! # An order that works
//!
//! What is added first is outermost. Of these, add what you need in this order:
//!
//! 1. [`OutputSpiller`] or [`OutputFormatter`]: they cut what everything else returns;
//! 2. [`SecretRedactor`], inside these, because it does not find a secret that was cut in two;
//! 3. [`RetryInvalidInput`], around all that checks arguments;
//! 4. [`ArgumentLimits`], then `SchemaValidator`: the cheap check first;
//! 5. [`PermissionChecker`], which then decides about calls that could run;
//! 6. [`ToolCache`], before what waits: an answer from it costs no turn;
//! 7. [`ConcurrencyLimit`] and [`RateLimit`], then [`TimeoutMiddleware`], so that a call's time does not
//!    run while it waits for its turn.
//!
//! # Example: cut outputs, refuse some calls
//!
//! ```
//! use neuron_tool::ToolRegistry;
//! use neuron_tool::builtin::{OutputFormatter, PermissionChecker};
//! use neuron_types::{PermissionDecision, PermissionPolicy};
//!
//! struct ReadOnly;
//!
//! impl PermissionPolicy for ReadOnly {
//!     fn check(&self, tool_name: &str, _input: &serde_json::Value) -> PermissionDecision {
//!         match tool_name {
//!             "read_file" => PermissionDecision::Allow,
//!             _ => PermissionDecision::Deny(format!("{tool_name} writes")),
//!         }
//!     }
//! }
//!
//! let mut registry = ToolRegistry::new();
//! registry.add_middleware(PermissionChecker::new(ReadOnly));
//! registry.add_middleware(OutputFormatter::new(10_000));
//! ```

mod argument_limits;
mod concurrency_limit;
mod output_formatter;
mod output_reader;
mod output_spiller;
mod permission_checker;
#[cfg(not(target_family = "wasm"))]
mod rate_limit;
mod retry_invalid_input;
mod retry_limit;
#[cfg(feature = "validation")]
mod retry_limited_validator;
#[cfg(feature = "validation")]
mod schema;
#[cfg(feature = "validation")]
mod schema_validator;
mod secret_redactor;
#[cfg(feature = "validation")]
mod structured_output_validator;
#[cfg(not(target_family = "wasm"))]
mod timeout;
#[cfg(not(target_family = "wasm"))]
mod tool_cache;

pub use argument_limits::ArgumentLimits;
pub use concurrency_limit::ConcurrencyLimit;
pub use output_formatter::OutputFormatter;
pub use output_reader::OutputReader;
pub use output_spiller::OutputSpiller;
pub use permission_checker::PermissionChecker;
#[cfg(not(target_family = "wasm"))]
pub use rate_limit::RateLimit;
pub use retry_invalid_input::RetryInvalidInput;
pub use retry_limit::RetryLimit;
#[cfg(feature = "validation")]
pub use retry_limited_validator::RetryLimitedValidator;
#[cfg(feature = "validation")]
pub use schema_validator::SchemaValidator;
pub use secret_redactor::SecretRedactor;
#[cfg(feature = "validation")]
pub use structured_output_validator::StructuredOutputValidator;
#[cfg(not(target_family = "wasm"))]
pub use timeout::TimeoutMiddleware;
#[cfg(not(target_family = "wasm"))]
pub use tool_cache::ToolCache;
