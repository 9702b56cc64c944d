//! A registry of tools that a model can call, with middleware around every call.
//!
//! ```
//! use neuron_tool::{ToolRegistry, tool_middleware_fn};
//! use neuron_types::{Tool, ToolContext, ToolDefinition, ToolError};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct GreetArgs {
//!     /// Whom to greet
//!     name: String,
//! }
//!
//! struct Greet;
//!
//! impl Tool for Greet {
//!     const NAME: &'static str = "greet";
//!     type Args = GreetArgs;
//!     type Output = String;
//!     type Error = ToolError;
//!
//!     fn definition(&self) -> ToolDefinition {
//!         ToolDefinition {
//!             name: Self::NAME.into(),
//!             title: None,
//!             description: "Greets someone".into(),
//!             input_schema: schemars::schema_for!(GreetArgs).into(),
//!             output_schema: None,
//!             annotations: None,
//!             cache_control: None,
//!         }
//!     }
//!
//!     async fn call(&self, args: GreetArgs, _ctx: &ToolContext) -> Result<String, ToolError> {
//!         Ok(format!("Hello, {}!", args.name))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ToolError> {
//! let mut registry = ToolRegistry::new();
//! registry.register(Greet);
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
//! A tool like this one is shorter as a function: see [`macro@neuron_tool`], or
//! [`derive@Tool`] for a struct of arguments.
//!
//! ```
//! # use neuron_tool::neuron_tool;
//! # use neuron_types::ToolError;
//! /// Greets someone
//! #[neuron_tool]
//! async fn greet(
//!     /// Whom to greet
//!     name: String,
//! ) -> Result<String, ToolError> {
//!     Ok(format!("Hello, {name}!"))
//! }
//! # neuron_tool::ToolRegistry::new().register(GreetTool);
//! ```
//!
//! A call goes through the [global middleware](ToolRegistry::add_middleware), then the
//! [tool's own](ToolRegistry::add_tool_middleware), then the tool; each in the order in which it
//! was added. See [`middleware`], and [`builtin`] for what is there already.
//!
//! # Features
//!
//! | feature | enables | default |
//! |---|---|---|
//! | `macros` | `#[neuron_tool]` and `#[derive(Tool)]` | yes |
//! | `validation` | checks of arguments against their JSON Schema | no |

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

pub use middleware::{Next, ToolCall, ToolMiddleware, tool_middleware_fn};
pub use neuron_types::Tool;
pub use output_store::{MemoryOutputStore, OutputPiece, OutputStore};
pub use registry::ToolRegistry;
#[cfg(feature = "macros")]
pub use run_tool::RunTool;

#[cfg(feature = "macros")]
pub use neuron_tool_macros::{Tool, neuron_tool};
