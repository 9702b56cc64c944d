//! What a tool made by `#[derive(Tool)]` does.

use std::future::Future;

use neuron_types::{ToolContext, WasmCompatSend};

/// What a struct of arguments does when the model calls its tool.
///
/// Implement it beside [`#[derive(Tool)]`](derive@crate::Tool). The struct is one call's arguments;
/// what lives longer than a call comes in [`ToolContext::extensions`], or belongs into a struct that
/// implements [`Tool`](trait@crate::Tool) itself.
///
/// # Contract
///
/// That of [`Tool`](trait@crate::Tool): the future may be dropped at any await; errors are
/// [`ToolError`](neuron_types::ToolError) itself, or become the source of one.
///
/// # Example
///
/// ```
/// use neuron_tool::{RunTool, Tool};
/// use neuron_types::{ToolContext, ToolError};
///
/// /// Divides one number by another
/// #[derive(Tool, schemars::JsonSchema)]
/// struct Divide {
///     dividend: f64,
///     divisor: f64,
/// }
///
/// impl RunTool for Divide {
///     type Output = f64;
///     type Error = ToolError;
///
///     async fn run(self, _ctx: &ToolContext) -> Result<f64, ToolError> {
///         if self.divisor == 0.0 {
///             return Err(ToolError::ModelRetry("the divisor must not be zero".into()));
///         }
///         Ok(self.dividend / self.divisor)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let divide = Divide { dividend: 6.0, divisor: 2.0 };
/// assert_eq!(divide.run(&ToolContext::default()).await?, 3.0);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "nothing says what the tool `{Self}` does",
    label = "a struct that derives `Tool` implements `RunTool`"
)]
pub trait RunTool: Sized {
    /// The result, turned into JSON for the model.
    type Output;
    /// What can go wrong.
    type Error;

    /// Returns a key for the effect of the call: see [`Tool::effect_key`](neuron_types::Tool::effect_key). Provided:
    /// `None`.
    fn effect_key(&self) -> Option<String> {
        None
    }

    /// Runs the tool with these arguments.
    ///
    /// # Errors
    ///
    /// The tool's own; see the trait's contract.
    fn run(
        self,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + WasmCompatSend;
}
