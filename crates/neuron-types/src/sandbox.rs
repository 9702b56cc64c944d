//! The trait of sandboxes for tools, its boxed form, and the limits that a sandbox reports.

mod sandbox_error;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::{ToolContext, ToolDyn, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync};

pub use sandbox_error::SandboxError;

/// Runs tools in isolation, with restricted files, network, time or memory.
///
/// # Contract
///
/// - If [`ToolDyn::command_dyn`] returns a program, run the program in isolation, or return
///   [`SandboxError::SetupFailed`]. The code of all other tools runs in this process and cannot be isolated. Run such a
///   tool without isolation, or refuse it.
/// - Return a tool's own error unchanged in [`SandboxError::Tool`], because the error may contain a hint for the model
///   or a pending approval.
/// - If the tool exceeds a limit, stop all its processes and return [`SandboxError::LimitExceeded`].
///
/// # Example
///
/// ```
/// use neuron_types::*;
///
/// /// Isolates nothing.
/// struct PassThrough;
///
/// impl Sandbox for PassThrough {
///     async fn execute_tool(
///         &self,
///         tool: &dyn ToolDyn,
///         input: serde_json::Value,
///         ctx: &ToolContext,
///     ) -> Result<ToolOutput, SandboxError> {
///         Ok(tool.call_dyn(input, ctx).await?)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not a sandbox", note = "implement `Sandbox`")]
pub trait Sandbox: WasmCompatSend + WasmCompatSync {
    /// Runs a tool call.
    ///
    /// # Errors
    ///
    /// - [`SandboxError::Tool`] if the tool fails.
    /// - [`SandboxError::LimitExceeded`] if the tool was stopped at a limit.
    /// - [`SandboxError::SetupFailed`] if the sandbox fails or refuses the tool.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the tool.
    fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, SandboxError>> + WasmCompatSend;

    /// Checks that the sandbox accepts a tool. The default accepts every tool.
    ///
    /// The check is made when an agent with the tool and the sandbox is built, so a refused tool is reported before the
    /// first run.
    ///
    /// # Errors
    ///
    /// [`SandboxError::SetupFailed`] if the sandbox would refuse every call of the tool.
    fn check_tool(&self, _tool: &dyn ToolDyn) -> Result<(), SandboxError> {
        Ok(())
    }
}

/// A boxed sandbox of any type, for a choice at run time. Clones of the box share the sandbox.
#[derive(Clone)]
pub struct BoxedSandbox(Arc<dyn SandboxDyn>);

impl BoxedSandbox {
    /// Creates a box for a sandbox of any type.
    pub fn new(sandbox: impl Sandbox + 'static) -> Self {
        Self(Arc::new(sandbox))
    }
}

impl fmt::Debug for BoxedSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedSandbox").finish_non_exhaustive()
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
impl Sandbox for BoxedSandbox {
    fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, SandboxError>> + WasmCompatSend {
        async move { self.0.execute_tool_dyn(tool, input, ctx).await }
    }

    fn check_tool(&self, tool: &dyn ToolDyn) -> Result<(), SandboxError> {
        self.0.check_tool_dyn(tool)
    }
}

/// Object-safe form of [`Sandbox`].
trait SandboxDyn: WasmCompatSend + WasmCompatSync {
    fn execute_tool_dyn<'a>(
        &'a self,
        tool: &'a dyn ToolDyn,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, SandboxError>>;

    fn check_tool_dyn(&self, tool: &dyn ToolDyn) -> Result<(), SandboxError>;
}

impl<S: Sandbox> SandboxDyn for S {
    fn execute_tool_dyn<'a>(
        &'a self,
        tool: &'a dyn ToolDyn,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, SandboxError>> {
        Box::pin(self.execute_tool(tool, input, ctx))
    }

    fn check_tool_dyn(&self, tool: &dyn ToolDyn) -> Result<(), SandboxError> {
        self.check_tool(tool)
    }
}

/// A limit of a sandbox, with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SandboxLimit {
    /// Maximum wall-clock time.
    Time(Duration),
    /// Maximum CPU time of all processes of the tool together.
    CpuTime(Duration),
    /// Maximum memory of all processes of the tool together, in bytes.
    Memory(u64),
    /// Maximum number of concurrent processes and threads.
    Processes(u64),
    /// Maximum size of one written file, in bytes.
    FileSize(u64),
    /// Minimum disk space that must stay free, in bytes.
    DiskReserve(u64),
}

impl fmt::Display for SandboxLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(limit) => write!(f, "{limit:?} of time"),
            Self::CpuTime(limit) => write!(f, "{limit:?} of processor time"),
            Self::Memory(bytes) => write!(f, "{bytes} bytes of memory"),
            Self::Processes(count) => write!(f, "{count} processes and threads"),
            Self::FileSize(bytes) => write!(f, "{bytes} bytes in one file"),
            Self::DiskReserve(bytes) => {
                write!(f, "the disk has while {bytes} bytes of it stay free")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandOutput, ToolError};

    #[test]
    fn limit_error_names_limit_and_value() {
        let text = |limit| {
            SandboxError::LimitExceeded { limit, output: Box::<CommandOutput>::default() }
                .to_string()
        };
        let after = |limit: &str| format!("stopped: it needed more than {limit}");
        assert_eq!(text(SandboxLimit::Time(Duration::from_millis(1500))), after("1.5s of time"));
        let cpu = SandboxLimit::CpuTime(Duration::from_secs(2));
        assert_eq!(text(cpu), after("2s of processor time"));
        assert_eq!(text(SandboxLimit::Memory(1024)), after("1024 bytes of memory"));
        let reserve = SandboxLimit::DiskReserve(1024);
        assert_eq!(text(reserve), after("the disk has while 1024 bytes of it stay free"));
        assert_eq!(text(SandboxLimit::Processes(3)), after("3 processes and threads"));
        assert_eq!(text(SandboxLimit::FileSize(5)), after("5 bytes in one file"));
    }

    #[test]
    fn tool_error_is_unchanged_and_others_become_the_source() {
        let own = SandboxError::from(ToolError::ModelRetry("again".into()));
        assert_eq!(own.to_string(), "again");
        assert!(matches!(ToolError::from(own), ToolError::ModelRetry(hint) if hint == "again"));

        let error = ToolError::from(SandboxError::SetupFailed("no".into()));
        assert_eq!(error.to_string(), "execution failed: sandbox setup failed: no");
        let ToolError::ExecutionFailed(source) = error else { panic!("it failed") };
        assert!(matches!(source.downcast_ref(), Some(SandboxError::SetupFailed(_))));
    }
}
