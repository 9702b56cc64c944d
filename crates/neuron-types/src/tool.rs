//! The trait of tools, its object-safe form, and the context of a call.

mod command;
mod run_tools;
mod tool_arguments;
mod tool_context;
mod tool_failure;
mod usage_meter;
mod wasm;

use std::future::Future;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentTool, ToolDefinition, ToolError, ToolOutput, WasmBoxedFuture, WasmCompatSend,
    WasmCompatSync,
};

pub use command::{CommandOutput, CommandStatus, ToolCommand};
pub use run_tools::RunTools;
pub use tool_context::{Extensions, ProgressReporter, ToolContext};
pub use tool_failure::ToolFailure;
pub use usage_meter::UsageMeter;

/// A function that the model can call, with typed arguments and a typed result.
///
/// # Contract
///
/// - `NAME` equals the name in [`definition`](Self::definition). A registry calls `definition` once, when the tool is
///   registered.
/// - For an error that the model can correct, return [`ToolError::ModelRetry`], as `Self::Error` or from
///   [`map_error`](Self::map_error). For any other error, the [`ToolErrorPolicy`](crate::ToolErrorPolicy) of the run
///   decides. With `Agent::builder`, the model receives the error by default. With `LoopConfig::default()`, the run
///   ends.
/// - The future may be dropped at any await, for example when the run is cancelled. Put cleanup in a `Drop`
///   implementation. Background work that outlives the call should observe [`ToolContext::cancellation_token`].
/// - After a crash, a durable engine may repeat a call if [`effect`](Self::effect) allows it.
///
/// # Example
///
/// ```
/// use neuron_types::{Tool, ToolContext, ToolDefinition, ToolError};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct DivideArgs {
///     dividend: f64,
///     divisor: f64,
/// }
///
/// struct Divide;
///
/// impl Tool for Divide {
///     const NAME: &'static str = "divide";
///     type Args = DivideArgs;
///     type Output = f64;
///     type Error = ToolError;
///
///     fn definition(&self) -> ToolDefinition {
///         ToolDefinition {
///             name: Self::NAME.into(),
///             title: None,
///             description: "Divides one number by another".into(),
///             input_schema: schemars::schema_for!(DivideArgs).into(),
///             output_schema: None,
///             annotations: None,
///             cache_control: None,
///         }
///     }
///
///     async fn call(&self, args: DivideArgs, _ctx: &ToolContext) -> Result<f64, ToolError> {
///         if args.divisor == 0.0 {
///             return Err(ToolError::ModelRetry("the divisor must not be zero".into()));
///         }
///         Ok(args.dividend / args.divisor)
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let args = DivideArgs { dividend: 6.0, divisor: 2.0 };
/// assert_eq!(Divide.call(args, &ToolContext::default()).await?, 3.0);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    note = "implement `Tool`, or register an `Arc<dyn ToolDyn>` with `register_dyn`",
    note = "of a function `search` the macro `#[neuron_tool]` makes the tool `SearchTool`, of a struct \
            `Search` the macro `#[derive(Tool)]` as well"
)]
pub trait Tool: WasmCompatSend + WasmCompatSync {
    /// The name by which the model calls the tool.
    const NAME: &'static str;
    /// The type of the arguments, deserialised from the model's JSON.
    type Args: DeserializeOwned + schemars::JsonSchema + WasmCompatSend;
    /// The type of the result, serialised to JSON for the model.
    type Output: Serialize;
    /// The type of errors. [`map_error`](Self::map_error) converts an error to a [`ToolError`].
    type Error: std::error::Error + WasmCompatSend + 'static;

    /// Returns the name, the description and the schemas of the tool, for the model.
    fn definition(&self) -> ToolDefinition;

    /// Runs one call of the tool.
    ///
    /// # Errors
    ///
    /// Errors of the tool. See the contract of the trait.
    fn call(
        &self,
        args: Self::Args,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + WasmCompatSend;

    /// Returns the effect of running the same call twice. The default is [`ToolEffect::AtMostOnce`].
    ///
    /// With this value, a durable engine decides whether it repeats a call that a crash interrupted.
    fn effect(&self) -> ToolEffect {
        ToolEffect::AtMostOnce
    }

    /// Returns a key that identifies the effect of a call, for example the number of the invoice that the call pays.
    ///
    /// In one run, calls of the tool with the same key take effect only once. For example, the model may request the
    /// same payment twice. The default is `None`, which means that each call has its own effect.
    ///
    /// The tool receives the key as [`ToolContext::idempotency_key`] and can send it to a service that deduplicates
    /// requests. Such a service compares the keys of all runs, so the key must be unique across runs.
    ///
    /// The key must depend only on the arguments. A new release of the tool must return the same keys as the old
    /// release, as long as workflows of the old release are in progress.
    ///
    /// In a run with a journal, the outcome of the first call determines whether a later call with the same key runs:
    ///
    /// - If the first call succeeded, the later call returns the same result.
    /// - If the first call failed, the later call runs. A failure must therefore mean that there was no effect.
    /// - If the outcome of the first call is unknown, the later call runs only if [`effect`](Self::effect) allows the
    ///   tool to run twice.
    /// - While the first call runs, the later call waits for it.
    ///
    /// Agents inside tool calls share the keys of the outermost run. Calls in different runs do not share keys.
    fn effect_key(&self, args: &Self::Args) -> Option<String> {
        let _ = args;
        None
    }

    /// Returns `true` if the tool must not run in parallel with other calls of the same response. The default is
    /// `false`.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Converts an error of the tool to a [`ToolError`]. The default returns a [`ToolError`] unchanged. Any other error
    /// becomes the source of [`ToolError::ExecutionFailed`].
    fn map_error(&self, error: Self::Error) -> ToolError {
        ToolFailure::tool_error(error)
    }

    /// Converts the tool's result for the model.
    ///
    /// The default returns a string as plain text, and any other result as JSON text. Objects and arrays are also
    /// stored in [`ToolOutput::structured_content`]. Override this method to return images.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] if the result cannot be serialised.
    fn map_output(&self, output: Self::Output) -> Result<ToolOutput, ToolError> {
        let value = serde_json::to_value(output)
            .map_err(|error| ToolError::ExecutionFailed(Box::new(error)))?;
        Ok(match value {
            // As JSON, the text would have quotes and escape sequences.
            Value::String(text) => ToolOutput::text(text),
            Value::Object(_) | Value::Array(_) => ToolOutput {
                structured_content: Some(value.clone()),
                ..ToolOutput::text(value.to_string())
            },
            scalar => ToolOutput::text(scalar.to_string()),
        })
    }
}

/// Object-safe form of [`Tool`], with JSON arguments and results.
///
/// Every [`Tool`] implements this trait. Implement it directly for tools whose names or schemas are only known at run
/// time.
///
/// # Example
///
/// ```
/// use neuron_types::*;
///
/// struct Remote {
///     definition: ToolDefinition,
/// }
///
/// impl ToolDyn for Remote {
///     fn name(&self) -> &str {
///         &self.definition.name
///     }
///
///     fn definition(&self) -> ToolDefinition {
///         self.definition.clone()
///     }
///
///     fn call_dyn<'a>(
///         &'a self,
///         input: serde_json::Value,
///         _ctx: &'a ToolContext,
///     ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
///         Box::pin(async move { Ok(ToolOutput::text(format!("sent {input}"))) })
///     }
/// }
/// ```
pub trait ToolDyn: WasmCompatSend + WasmCompatSync {
    /// Returns the name by which the model calls the tool.
    fn name(&self) -> &str;

    /// Returns the name, the description and the schemas of the tool, for the model.
    fn definition(&self) -> ToolDefinition;

    /// Runs one call of the tool.
    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;

    /// Runs one call of the tool with borrowed arguments. The default copies the arguments and calls
    /// [`call_dyn`](Self::call_dyn).
    fn call_ref_dyn<'a>(
        &'a self,
        input: &'a Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.call_dyn(input.clone(), ctx)
    }

    /// Returns the effect of running the same call twice. The default is [`ToolEffect::AtMostOnce`].
    fn effect(&self) -> ToolEffect {
        ToolEffect::AtMostOnce
    }

    /// Returns a key that identifies the effect of a call. See [`Tool::effect_key`]. The default is `None`.
    ///
    /// [`call_dyn`](Self::call_dyn) does not receive this key. Its [`ToolContext`] has a different idempotency key. An
    /// implementation must therefore call this method itself and use the key as the idempotency key.
    fn effect_key(&self, input: &Value) -> Option<String> {
        let _ = input;
        None
    }

    /// Returns the agent that the tool runs. The default is `None`, for a tool that runs no agent.
    ///
    /// A durable context journals each model and tool call of the agent.
    fn agent(&self) -> Option<&dyn AgentTool> {
        None
    }

    /// Returns `true` if the tool must not run in parallel with other calls of the same response. The default is
    /// `false`.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Returns `true` if a third party, such as an MCP server, chose the name and the definition. The default is
    /// `false`.
    ///
    /// In a registry, such a tool cannot replace another tool with the same name.
    fn is_foreign(&self) -> bool {
        false
    }

    /// Validates the arguments of a call without running the tool. The default accepts all arguments.
    ///
    /// The loop calls this method before it asks a person for approval. A type that implements [`Tool`] accepts all
    /// arguments that can be deserialised to [`Tool::Args`].
    ///
    /// # Errors
    ///
    /// [`ToolError::InvalidInput`] with the reason.
    fn check_input(&self, _input: &Value) -> Result<(), ToolError> {
        Ok(())
    }

    /// Returns the program that a call would run. The default is `None`, for a tool whose code runs in this process.
    ///
    /// If a program is returned, the call must consist only of running this program. A [`Sandbox`](crate::Sandbox) can
    /// then run it in isolation, and pass its output to [`command_output`](Self::command_output).
    ///
    /// # Errors
    ///
    /// Errors of the tool, for example for invalid arguments.
    fn command_dyn(
        &self,
        _input: &Value,
        _ctx: &ToolContext,
    ) -> Option<Result<ToolCommand, ToolError>> {
        None
    }

    /// Returns `true` if [`command_dyn`](Self::command_dyn) returns a program for every call. The tool then requires a
    /// sandbox. The default is `false`.
    fn runs_program(&self) -> bool {
        false
    }

    /// Converts the output of the program from [`command_dyn`](Self::command_dyn) for the model. The default calls
    /// [`CommandOutput::to_tool_output`].
    ///
    /// # Errors
    ///
    /// Errors of the tool.
    fn command_output(&self, output: CommandOutput) -> Result<ToolOutput, ToolError> {
        Ok(output.to_tool_output())
    }
}

impl<T: Tool> ToolDyn for T {
    fn name(&self) -> &str {
        T::NAME
    }

    fn definition(&self) -> ToolDefinition {
        Tool::definition(self)
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.call_ref_dyn(&input, ctx).await })
    }

    fn call_ref_dyn<'a>(
        &'a self,
        input: &'a Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: T::Args = tool_arguments::read(T::NAME, input)?;
            let key = Tool::effect_key(self, &args);
            // Set the idempotency key here and not in the registry, because a tool may be called without a registry.
            let keyed = key.map(|key| ctx.with_effect_key(key));
            match self.call(args, keyed.as_deref().unwrap_or(ctx)).await {
                Ok(output) => self.map_output(output),
                Err(error) => Err(self.map_error(error)),
            }
        })
    }

    fn effect(&self) -> ToolEffect {
        Tool::effect(self)
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        Tool::effect_key(self, &tool_arguments::read(T::NAME, input).ok()?)
    }

    fn runs_alone(&self) -> bool {
        Tool::runs_alone(self)
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        tool_arguments::read::<T::Args>(T::NAME, input).map(drop)
    }
}

/// The effect of running the same tool call twice, for example after a crash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolEffect {
    /// The tool has no effect, because it only reads. A call may run any number of times.
    Pure,
    /// The tool changes something, and repeated calls with the same [`idempotency_key`](ToolContext::idempotency_key)
    /// take effect only once. A call may run again.
    Idempotent,
    /// A call must not run twice. This is the default.
    #[default]
    AtMostOnce,
}

impl ToolEffect {
    /// Returns `true` if a call may run again after its outcome was lost, so for `Pure` and `Idempotent`.
    #[must_use]
    pub fn may_repeat(self) -> bool {
        matches!(self, Self::Pure | Self::Idempotent)
    }

    /// Returns the more restrictive of two effects. `AtMostOnce` is the most restrictive, and `Pure` the least.
    #[must_use]
    pub fn more_careful(self, other: Self) -> Self {
        match (self, other) {
            (Self::Pure, effect) | (effect, Self::Pure) => effect,
            (Self::Idempotent, Self::Idempotent) => Self::Idempotent,
            _ => Self::AtMostOnce,
        }
    }
}
