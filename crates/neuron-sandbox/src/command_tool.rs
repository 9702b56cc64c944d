//! Typed tools that run a program in a sandbox ([`CommandTool`]).

use neuron_types::{
    CommandOutput, SandboxError, ToolCommand, ToolContext, ToolDefinition, ToolDyn, ToolEffect,
    ToolError, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync, read_json,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A tool that describes a program for each call. A sandbox runs the program.
///
/// Wrap the tool in [`Confined`] to register it in a tool registry.
///
/// # Contract
///
/// - [`command`](Self::command) runs in this process, with arguments that the model wrote. It must only describe the
///   program, and must not open or change anything.
/// - Pass text of the model as arguments or standard input, never as part of a shell script. If the program has
///   options, put `--` before arguments with such text.
///
/// # Example
///
/// ```
/// use neuron_sandbox::CommandTool;
/// use neuron_types::{ToolCommand, ToolContext, ToolDefinition, ToolError};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct SearchArgs {
///     /// The text to look for.
///     text: String,
/// }
///
/// struct Search;
///
/// impl CommandTool for Search {
///     const NAME: &'static str = "search";
///     type Args = SearchArgs;
///
///     fn definition(&self) -> ToolDefinition {
///         ToolDefinition {
///             name: Self::NAME.into(),
///             title: None,
///             description: "Looks for a text in all files".into(),
///             input_schema: schemars::schema_for!(SearchArgs).into(),
///             output_schema: None,
///             annotations: None,
///             cache_control: None,
///         }
///     }
///
///     fn command(&self, args: SearchArgs, _ctx: &ToolContext) -> Result<ToolCommand, ToolError> {
///         Ok(ToolCommand::new("grep").args(["-rnF", "--"]).arg(args.text).arg("."))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not a tool that runs a program")]
pub trait CommandTool: WasmCompatSend + WasmCompatSync {
    /// Name of the tool, by which the model calls it.
    const NAME: &'static str;
    /// Type of the arguments, deserialised from the JSON that the model wrote.
    type Args: DeserializeOwned;

    /// Returns the definition of the tool for the model.
    fn definition(&self) -> ToolDefinition;

    /// Returns the program that a call runs, with its arguments and input.
    ///
    /// # Errors
    ///
    /// Any error of the tool. Use [`ToolError::ModelRetry`] if the model can correct its arguments.
    fn command(&self, args: Self::Args, ctx: &ToolContext) -> Result<ToolCommand, ToolError>;

    /// Converts the output of the program into the result for the model. Default: [`CommandOutput::to_tool_output`].
    ///
    /// # Errors
    ///
    /// Any error of the tool, for example if the output has an unexpected form.
    fn output(&self, output: CommandOutput) -> Result<ToolOutput, ToolError> {
        Ok(output.to_tool_output())
    }

    /// Returns the effect of running the program twice. Default: [`ToolEffect::AtMostOnce`].
    fn effect(&self) -> ToolEffect {
        ToolEffect::AtMostOnce
    }

    /// Returns a key that identifies the effect of a call, for example the number of the invoice that the call pays.
    /// Default: `None`, which means that each call has its own effect.
    ///
    /// In one run, calls of the tool with the same key take effect only once. See
    /// [`Tool::effect_key`](neuron_types::Tool::effect_key).
    fn effect_key(&self, args: &Self::Args) -> Option<String> {
        let _ = args;
        None
    }

    /// Returns `true` if no other tool call of the same response may run concurrently. Default: `false`.
    fn runs_alone(&self) -> bool {
        false
    }
}

/// Wraps a [`CommandTool`] as a tool for a registry. Its programs run only in a sandbox.
///
/// A call returns an error and starts no program if there is no sandbox, or if the sandbox runs tools in this process.
/// A forgotten sandbox therefore does not give the model's programs all rights of this process. To run programs without
/// a sandbox, write a tool that starts them itself.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use neuron_sandbox::Confined;
/// # use neuron_sandbox::CommandTool;
/// # use neuron_types::*;
/// # struct Search;
/// # impl CommandTool for Search {
/// #     const NAME: &'static str = "search";
/// #     type Args = String;
/// #     fn definition(&self) -> ToolDefinition {
/// #         ToolDefinition {
/// #             name: Self::NAME.into(), title: None, description: String::new(),
/// #             input_schema: serde_json::json!({}), output_schema: None, annotations: None,
/// #             cache_control: None,
/// #         }
/// #     }
/// #     fn command(&self, text: String, _: &ToolContext) -> Result<ToolCommand, ToolError> {
/// #         Ok(ToolCommand::new("grep").arg(text))
/// #     }
/// # }
/// use neuron_tool::ToolRegistry;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut registry = ToolRegistry::new();
/// registry.register_dyn(Arc::new(Confined(Search)));
///
/// let input = serde_json::json!("fn main");
/// let error = registry.execute("search", input, &ToolContext::default()).await.unwrap_err();
/// assert!(error.to_string().ends_with("`search` runs a program, and there is no sandbox for it"));
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Confined<T>(pub T);

impl<T: CommandTool> ToolDyn for Confined<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn definition(&self) -> ToolDefinition {
        self.0.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        let reason = format!("`{}` runs a program, and there is no sandbox for it", T::NAME);
        Box::pin(async move { Err(SandboxError::SetupFailed(reason).into()) })
    }

    fn effect(&self) -> ToolEffect {
        self.0.effect()
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        self.0.effect_key(&read::<T>(input).ok()?)
    }

    fn runs_alone(&self) -> bool {
        self.0.runs_alone()
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        read::<T>(input).map(drop)
    }

    fn command_dyn(
        &self,
        input: &Value,
        ctx: &ToolContext,
    ) -> Option<Result<ToolCommand, ToolError>> {
        Some(read::<T>(input).and_then(|args| {
            let key = self.0.effect_key(&args);
            let keyed = key.map(|key| ctx.with_effect_key(key));
            self.0.command(args, keyed.as_deref().unwrap_or(ctx))
        }))
    }

    fn runs_program(&self) -> bool {
        true
    }

    fn command_output(&self, output: CommandOutput) -> Result<ToolOutput, ToolError> {
        self.0.output(output)
    }
}

/// Deserialises the arguments of a call. Errors name the tool.
fn read<T: CommandTool>(input: &Value) -> Result<T::Args, ToolError> {
    read_json(input.clone()).map_err(|mismatch| {
        ToolError::InvalidInput(format!("arguments of `{}`: {mismatch}", T::NAME))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Pay;

    impl CommandTool for Pay {
        const NAME: &'static str = "pay";
        type Args = String;

        fn definition(&self) -> ToolDefinition {
            unreachable!("the model is not asked")
        }

        fn command(&self, _: String, ctx: &ToolContext) -> Result<ToolCommand, ToolError> {
            Ok(ToolCommand::new("pay").arg(&ctx.idempotency_key))
        }

        fn effect_key(&self, invoice: &String) -> Option<String> {
            Some(format!("invoice {invoice}"))
        }
    }

    #[test]
    fn command_sees_the_effect_key_as_its_idempotency_key() {
        let (tool, ctx) = (Confined(Pay), ToolContext::default());
        assert_eq!(tool.effect_key(&json!("17")).as_deref(), Some("invoice 17"));
        assert_eq!(tool.effect_key(&json!(17)), None);
        let command = tool.command_dyn(&json!("17"), &ctx).unwrap().unwrap();
        assert_eq!(command.args, ["invoice 17"]);
    }
}
