//! The trait of tools with `#[derive(Tool)]`.

use std::future::Future;

use neuron_types::{ToolContext, WasmCompatSend};

/// The implementation of a tool with [`#[derive(Tool)]`](derive@crate::Tool).
///
/// The struct holds the arguments of one call. State that outlives a call is in [`ToolContext::extensions`], or in a
/// struct that implements [`Tool`](trait@crate::Tool) itself.
///
/// # Contract
///
/// The contract of [`Tool`](trait@crate::Tool) applies. The future may be dropped at any await. Errors are a
/// [`ToolError`](neuron_types::ToolError), or become the source of one.
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
    /// The result, serialised to JSON for the model.
    type Output;
    /// The error.
    type Error;

    /// Returns a key for the effect of the call. See [`Tool::effect_key`](neuron_types::Tool::effect_key). The default
    /// is `None`.
    fn effect_key(&self) -> Option<String> {
        None
    }

    /// Runs the tool with these arguments.
    ///
    /// # Errors
    ///
    /// Errors of the tool. See the contract of the trait.
    fn run(
        self,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + WasmCompatSend;
}
