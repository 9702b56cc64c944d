//! Tools for models, with a registry and middleware.
//!
//! ```
//! use neuron_tool::{ToolRegistry, neuron_tool, tool_middleware_fn};
//! use neuron_types::{ToolContext, ToolError};
//!
//! /// Greets someone
//! #[neuron_tool]
//! async fn greet(
//!     /// Whom to greet
//!     name: String,
//! ) -> Result<String, ToolError> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ToolError> {
//! let mut registry = ToolRegistry::new();
//! registry.register(GreetTool);
//! registry.add_middleware(tool_middleware_fn(|call, ctx, next| {
//!     Box::pin(async move {
//!         if call.input["name"] == "" {
//!             return Err(ToolError::ModelRetry("the name must not be empty".into()));
//!         }
//!         next.run(call, ctx).await
//!     })
//! }));
//!
//! let input = serde_json::json!({ "name": "Ada" });
//! let output = registry.execute("greet", input, &ToolContext::default()).await?;
//! assert_eq!(output.content[0].to_string(), "Hello, Ada!");
//! # Ok(())
//! # }
//! ```
//!
//! # Four ways to write a tool
//!
//! | way | for |
//! |---|---|
//! | [`macro@neuron_tool`] on an async function | most tools; its page shows the generated code |
//! | [`derive@Tool`] on a struct of arguments, with [`RunTool`] | arguments that are used elsewhere too |
//! | [`trait@Tool`] by hand | a tool with state, or with a result that is more than JSON |
//! | [`ToolDyn`](neuron_types::ToolDyn) by hand | names and schemas that are known only at run time |
//!
//! A function has no state. The caller of the run inserts shared resources, such as a database or a client, into
//! [`ToolContext::extensions`](neuron_types::ToolContext::extensions). The function reads them from the context:
//!
//! ```
//! use neuron_tool::{ToolRegistry, neuron_tool};
//! use neuron_types::{ToolContext, ToolError};
//!
//! struct Prices(Vec<(String, f64)>);
//!
//! /// Returns the price of an article
//! #[neuron_tool(effect = Pure)]
//! async fn price(article: String, ctx: &ToolContext) -> Result<f64, ToolError> {
//!     let prices = ctx.extensions.get::<Prices>().ok_or_else(|| {
//!         ToolError::ExecutionFailed("there are no prices in the context".into())
//!     })?;
//!     let found = prices.0.iter().find(|(name, _)| *name == article);
//!     let hint = || ToolError::ModelRetry(format!("there is no article `{article}`"));
//!     found.map(|(_, price)| *price).ok_or_else(hint)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ToolError> {
//! let mut ctx = ToolContext::default();
//! ctx.extensions.insert(Prices(vec![("pen".into(), 2.5)]));
//!
//! let mut registry = ToolRegistry::new();
//! registry.register(PriceTool);
//! let output = registry.execute("price", serde_json::json!({ "article": "pen" }), &ctx).await?;
//! assert_eq!(output.content[0].to_string(), "2.5");
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! [`ToolError::ModelRetry`](neuron_types::ToolError::ModelRetry) is a hint for the model, which then calls the tool
//! again. For any other error, the [`ToolErrorPolicy`](neuron_types::ToolErrorPolicy) of the run decides. With
//! `Agent::builder`, the model receives the error as the result of the call. With `LoopConfig::default()`, the run
//! ends. Arguments of the wrong type are such an error, unless [`RetryInvalidInput`](builtin::RetryInvalidInput)
//! converts the error to a hint.
//!
//! For a failure that the model must see with every policy, return
//! [`ToolOutput::error`](neuron_types::ToolOutput::error).
//!
//! # Middleware
//!
//! A call passes through the [global middleware](ToolRegistry::add_middleware), then through the [middleware of the
//! tool](ToolRegistry::add_tool_middleware), and then reaches the tool. Middleware that was added earlier receives the
//! call earlier. See [`middleware`] for writing middleware, and [`builtin`] for the existing middleware.
//!
//! # Features
//!
//! | feature | enables | default |
//! |---|---|---|
//! | `macros` | `#[neuron_tool]` and `#[derive(Tool)]` | yes |
//! | `validation` | validation of arguments against their JSON Schema | no |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod builtin;
mod json_path;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod macro_support;
mod merged;
pub mod middleware;
mod output_store;
mod panic;
mod registry;
#[cfg(feature = "macros")]
mod run_tool;
mod text;
mod tool_search;

pub use middleware::{Next, ToolCall, ToolMiddleware, tool_middleware_fn};
pub use neuron_types::Tool;
pub use output_store::{MemoryOutputStore, OutputPiece, OutputStore};
pub use panic::panic_output;
pub use registry::ToolRegistry;
#[cfg(feature = "macros")]
pub use run_tool::RunTool;
pub use tool_search::ToolSearch;

#[cfg(feature = "macros")]
pub use neuron_tool_macros::{Tool, neuron_tool};
