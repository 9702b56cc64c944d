//! The trait that a struct with `#[derive(Tool)]` implements to run the tool.

use std::future::Future;

use neuron_types::{ToolContext, WasmCompatSend};

/// Runs a tool whose arguments are a struct with [`#[derive(Tool)]`](derive@crate::Tool).
///
/// The struct contains the arguments of one call. Store state that outlives a call in [`ToolContext::extensions`], or
/// implement [`Tool`](trait@crate::Tool) for a struct with the state.
///
/// # Contract
///
/// The contract of [`Tool`](trait@crate::Tool) applies. The future may be dropped at any await. A
/// [`ToolError`](neuron_types::ToolError) is returned unchanged, and any other error becomes the source of
/// [`ToolError::ExecutionFailed`](neuron_types::ToolError::ExecutionFailed).
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
    /// The type of the result, serialised to JSON for the model.
    type Output;
    /// The type of the error that a failed call returns.
    type Error;

    /// Returns a key that identifies the effect of the call. See [`Tool::effect_key`](neuron_types::Tool::effect_key).
    /// The default is `None`, which means that each call has its own effect.
    fn effect_key(&self) -> Option<String> {
        None
    }

    /// Runs the tool with the arguments in `self`.
    ///
    /// # Errors
    ///
    /// Errors of the tool. See the contract of the trait.
    fn run(
        self,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + WasmCompatSend;
}
