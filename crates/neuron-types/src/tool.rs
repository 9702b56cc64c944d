//! Tools: what a model can call. The typed trait, its erased form, and the data of both.

use std::future::Future;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentTool, CacheControl, CommandOutput, ContentItem, ToolCommand, ToolContext, ToolError,
    ToolFailure, ToolUseRef, WasmBoxedFuture, WasmCompatSend, WasmCompatSync, tool_arguments,
};

/// A function that the model can call, with typed arguments and a typed result.
///
/// # Contract
///
/// - `NAME` and [`definition`](Self::definition)`().name` are the same; the definition is read
///   once, when the tool is registered.
/// - Return [`ToolError::ModelRetry`] (as `Self::Error`, or from
///   [`map_error`](Self::map_error)) for what the model can mend; every other error ends the run.
/// - The future may be dropped at any await, and is when the run is cancelled: what must be cleaned
///   up belongs into a `Drop`. Work that outlives the call should watch
///   [`ToolContext::cancellation_token`].
/// - Under a durable engine a call may be started again after a crash, as
///   [`effect`](Self::effect) allows.
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
    /// The arguments, made from the model's JSON.
    type Args: DeserializeOwned + schemars::JsonSchema + WasmCompatSend;
    /// The result, turned into JSON for the model.
    type Output: Serialize;
    /// What can go wrong. [`ToolError`] itself is passed on unchanged.
    type Error: std::error::Error + WasmCompatSend + 'static;

    /// Describes the tool to the model.
    fn definition(&self) -> ToolDefinition;

    /// Runs the tool.
    ///
    /// # Errors
    ///
    /// The tool's own; see the trait's contract.
    fn call(
        &self,
        args: Self::Args,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + WasmCompatSend;

    /// What running the tool twice would do. Durable engines decide by it what happens to a call
    /// that a crash interrupted. Provided: [`ToolEffect::AtMostOnce`].
    fn effect(&self) -> ToolEffect {
        ToolEffect::AtMostOnce
    }

    /// Returns a key for the effect of a call, such as the number of an invoice that it pays. Calls of a run with the same
    /// key are one effect, also if the model plans the same payment again in another call. Provided: `None`, each call has
    /// an effect of its own.
    ///
    /// The tool finds the key in [`ToolContext::idempotency_key`], for a service that compares such keys. That holds for
    /// all runs, so the key must name the effect for the service and not only within the run.
    ///
    /// The key follows from the arguments alone. A tool whose keys change is a changed agent for the runs in flight.
    ///
    /// In a run with a journal, a later call has the result of the first one and does not run. If the first call failed,
    /// the later call runs. So a failure means that there was no effect. If the outcome of the first call is unknown, the later call does not run, unless it may run
    /// [twice](Self::effect). An agent inside a tool call is a run of its own.
    fn effect_key(&self, args: &Self::Args) -> Option<String> {
        let _ = args;
        None
    }

    /// Whether no other call of the same answer may run beside this tool's. Provided: `false`.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Turns the tool's error into the one that the loop sees. Provided: a [`ToolError`] is passed
    /// on unchanged, any other becomes the source of [`ToolError::ExecutionFailed`].
    fn map_error(&self, error: Self::Error) -> ToolError {
        ToolFailure::tool_error(error)
    }

    /// Turns the tool's result into what the model sees. Provided: JSON text (a string as it is),
    /// with objects and arrays in [`ToolOutput::structured_content`] too. Override it to return
    /// images.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] when the result cannot be serialised.
    fn map_output(&self, output: Self::Output) -> Result<ToolOutput, ToolError> {
        let value = serde_json::to_value(output)
            .map_err(|error| ToolError::ExecutionFailed(Box::new(error)))?;
        Ok(match value {
            Value::String(text) => ToolOutput::text(text),
            Value::Object(_) | Value::Array(_) => ToolOutput {
                structured_content: Some(value.clone()),
                ..ToolOutput::text(value.to_string())
            },
            scalar => ToolOutput::text(scalar.to_string()),
        })
    }
}

/// A [`Tool`] behind a pointer: arguments and results are JSON.
///
/// Every `Tool` is one. Implement it directly for tools whose names or schemas are known only at
/// run time.
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
    /// The name by which the model calls the tool.
    fn name(&self) -> &str;

    /// Describes the tool to the model.
    fn definition(&self) -> ToolDefinition;

    /// Runs the tool.
    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;

    /// [`call_dyn`](Self::call_dyn) with arguments that are lent. Provided: copies them.
    fn call_ref_dyn<'a>(
        &'a self,
        input: &'a Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.call_dyn(input.clone(), ctx)
    }

    /// What running the tool twice would do. Provided: [`ToolEffect::AtMostOnce`].
    fn effect(&self) -> ToolEffect {
        ToolEffect::AtMostOnce
    }

    /// Returns a key for the effect of a call, as [`Tool::effect_key`] does. The tool itself takes it for its idempotency
    /// key. Provided: `None`.
    fn effect_key(&self, input: &Value) -> Option<String> {
        let _ = input;
        None
    }

    /// Returns the agent that the tool is. Durable contexts journal its steps one by one. Provided: `None`.
    fn agent(&self) -> Option<&dyn AgentTool> {
        None
    }

    /// Whether no other call of the same answer may run beside this tool's. Provided: `false`.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Returns `true` for a tool whose name and definition come from others, such as a server's. A registry does not let
    /// it replace another tool. Provided: `false`.
    fn is_foreign(&self) -> bool {
        false
    }

    /// Checks arguments without running the tool, before a person is asked about them. Provided:
    /// takes any; a [`Tool`] takes what its arguments can be read from.
    ///
    /// # Errors
    ///
    /// [`ToolError::InvalidInput`], which says what is wrong.
    fn check_input(&self, _input: &Value) -> Result<(), ToolError> {
        Ok(())
    }

    /// Says which program a call would run, if that is all that the tool does: a
    /// [`Sandbox`](crate::Sandbox) can then run it elsewhere, and gives what became of it to
    /// [`command_output`](Self::command_output). Provided: `None`, the tool's own code runs in this
    /// process.
    ///
    /// # Errors
    ///
    /// The tool's own, for arguments that it does not take for instance.
    fn command_dyn(
        &self,
        _input: &Value,
        _ctx: &ToolContext,
    ) -> Option<Result<ToolCommand, ToolError>> {
        None
    }

    /// Returns `true` for a tool that only runs a program, and says which by [`command_dyn`](Self::command_dyn). Such a tool
    /// needs a sandbox. Provided: `false`.
    fn runs_program(&self) -> bool {
        false
    }

    /// Turns what became of the program into what the model sees. Provided:
    /// [`CommandOutput::to_tool_output`].
    ///
    /// # Errors
    ///
    /// The tool's own.
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

/// What running a tool twice would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolEffect {
    /// It only reads: run it as often as needed.
    Pure,
    /// It changes something, but twice with the same
    /// [`idempotency_key`](ToolContext::idempotency_key) is as once.
    Idempotent,
    /// It must not run twice.
    #[default]
    AtMostOnce,
}

impl ToolEffect {
    /// Returns the effect of the two that allows less.
    #[must_use]
    pub fn more_careful(self, other: Self) -> Self {
        match (self, other) {
            (Self::Pure, effect) | (effect, Self::Pure) => effect,
            (Self::Idempotent, Self::Idempotent) => Self::Idempotent,
            _ => Self::AtMostOnce,
        }
    }
}

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name by which the model calls the tool.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does and when to use it.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// The JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints on what the tool does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Ends a cached prefix after this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// Hints on what a tool does, in MCP's terms. From a foreign server they are claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolAnnotations {
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it twice with the same arguments is as calling it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches beyond the program, to the web for instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// What a tool returned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// What the model sees.
    pub content: Vec<ContentItem>,
    /// The result as JSON, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the tool failed in a way that the model should see.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolOutput {
    /// Builds a result with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentItem::Text(text.into())],
            structured_content: None,
            is_error: false,
        }
    }

    /// Builds an error that the model sees.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// A tool call as the registry and its middleware see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Identifies the call within its message; empty for a call that no model made.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub input: Value,
}

/// The one key of arguments that are no JSON.
const INVALID_JSON: &str = "invalid_json";

impl ToolUseRef<'_> {
    /// Clones the call.
    #[must_use]
    pub fn to_call(self) -> ToolCall {
        ToolCall { id: self.id.to_owned(), name: self.name.to_owned(), input: self.input.clone() }
    }
}

impl ToolCall {
    /// Returns a borrowed view of the call.
    #[must_use]
    pub fn view(&self) -> ToolUseRef<'_> {
        ToolUseRef { id: &self.id, name: &self.name, input: &self.input }
    }

    /// Returns the raw text of arguments that were not JSON, because the model erred or its answer
    /// was cut off.
    ///
    /// Providers keep such arguments as `{"invalid_json": "<raw text>"}`, so that nothing is lost;
    /// the loop never runs such a call.
    #[must_use]
    pub fn invalid_json(input: &Value) -> Option<&str> {
        let fields = input.as_object().filter(|fields| fields.len() == 1)?;
        fields.get(INVALID_JSON)?.as_str()
    }

    /// Reads arguments from their JSON text; no text means none. What is not JSON is kept as text,
    /// see [`invalid_json`](Self::invalid_json).
    #[must_use]
    pub fn parse_input(text: &str) -> Value {
        if text.trim().is_empty() {
            return Value::Object(serde_json::Map::new());
        }
        serde_json::from_str(text).unwrap_or_else(|_| Self::invalid_json_input(text))
    }

    /// Builds the form in which a provider keeps arguments that are not JSON.
    #[must_use]
    pub fn invalid_json_input(raw: impl Into<String>) -> Value {
        Value::Object([(INVALID_JSON.to_owned(), Value::String(raw.into()))].into_iter().collect())
    }
}
