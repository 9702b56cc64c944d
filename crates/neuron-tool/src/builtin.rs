//! Ready-made middleware.
//!
//! | middleware | effect |
//! |---|---|
//! | [`PermissionChecker`] | checks each call with a policy |
//! | [`OutputFormatter`] | truncates long outputs and errors |
//! | [`SecretRedactor`] | redacts secrets in the results of tools |
//! | [`OutputSpiller`] | stores long outputs, which the model reads in pieces with an [`OutputReader`] |
//! | [`ToolCache`] | returns the cached output for a repeated call |
//! | [`TimeoutMiddleware`] | limits the duration of calls |
//! | [`ConcurrencyLimit`] | limits the number of concurrent calls |
//! | [`RateLimit`] | limits the number of calls per period |
//! | [`RetryLimit`] | ends a run with [`ToolErrorPolicy::EndRun`] after too many consecutive invalid calls |
//! | [`ArgumentLimits`] | rejects arguments that are nested too deeply or too large |
//! | [`RetryInvalidInput`] | lets the model correct invalid arguments in a run with [`ToolErrorPolicy::EndRun`] |
//! | `SchemaValidator` | validates arguments and structured results against the tools' schemas |
//! | `StructuredOutputValidator` | validates arguments against one schema, and lets the model retry |
//! | `RetryLimitedValidator` | like `StructuredOutputValidator`, with a limit on retries |
//!
//! The validators need the feature `validation`.
//!
//! `Agent::builder` sets [`ToolErrorPolicy::ReturnToModel`]. The model then receives the error for invalid arguments
//! without [`RetryInvalidInput`]. To limit the retries, set [`LoopConfig::tool_retry_limit`] instead of adding
//! [`RetryLimit`].
//!
//! [`ToolErrorPolicy::EndRun`]: neuron_types::ToolErrorPolicy::EndRun
//! [`ToolErrorPolicy::ReturnToModel`]: neuron_types::ToolErrorPolicy::ReturnToModel
//! [`LoopConfig::tool_retry_limit`]: neuron_types::LoopConfig::tool_retry_limit
//!
//! # Recommended order
//!
//! The middleware that is added first is outermost. Add the middleware that you need in this order:
//!
//! 1. [`OutputSpiller`] or [`OutputFormatter`], so that the results of all other middleware are shortened too.
//! 2. [`SecretRedactor`], so that secrets are redacted before an output is shortened. A secret that was cut in two is
//!    not found.
//! 3. [`RetryInvalidInput`], around all validation of arguments.
//! 4. [`ArgumentLimits`], then `SchemaValidator`, because `ArgumentLimits` is the cheaper check.
//! 5. [`PermissionChecker`], which then decides only on calls with valid arguments.
//! 6. [`ToolCache`], before the limits, because a cached output must not count for the limits.
//! 7. [`ConcurrencyLimit`] and [`RateLimit`], then [`TimeoutMiddleware`], so that the timeout does not include the time
//!    in a queue.
//!
//! # Example: truncate outputs and deny some calls
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
//! registry.add_middleware(OutputFormatter::new(10_000));
//! registry.add_middleware(PermissionChecker::new(ReadOnly));
//! ```

mod argument_limits;
mod concurrency_limit;
mod output_formatter;
mod output_reader;
mod output_spiller;
mod permission_checker;
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
mod timeout;
mod timer;
mod tool_cache;

pub use argument_limits::ArgumentLimits;
pub use concurrency_limit::ConcurrencyLimit;
pub use output_formatter::OutputFormatter;
pub use output_reader::OutputReader;
pub use output_spiller::OutputSpiller;
pub use permission_checker::PermissionChecker;
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
pub use timeout::TimeoutMiddleware;
pub use tool_cache::ToolCache;
