//! The trait of what isolates a tool's execution, its erased form, and the limits that it may set.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::{
    SandboxError, ToolContext, ToolDyn, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// Runs tools in isolation: restricted files, network, time or memory.
///
/// # Contract
///
/// - A tool that says which program it runs ([`ToolDyn::command_dyn`]) runs confined or not at all, with
///   [`SandboxError::SetupFailed`]. The code of other tools runs in this process, where nothing can confine it. A
///   sandbox runs such a tool as it is, or refuses it.
/// - A tool's own error is passed on as it is, in [`SandboxError::Tool`]: it may be a hint for the
///   model, or an approval that is waited for.
/// - What the sandbox stopped is [`SandboxError::LimitExceeded`], and nothing that was started is
///   left.
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
    /// Runs a tool.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Tool`] when the tool fails, [`SandboxError::LimitExceeded`] when it was
    /// stopped, [`SandboxError::SetupFailed`] when the sandbox fails or refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the tool.
    fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, SandboxError>> + WasmCompatSend;

    /// Checks that the sandbox runs a tool, before an agent is built with both. Provided: it does.
    ///
    /// # Errors
    ///
    /// [`SandboxError::SetupFailed`] if the sandbox refuses every call of the tool.
    fn check_tool(&self, _tool: &dyn ToolDyn) -> Result<(), SandboxError> {
        Ok(())
    }
}

/// A sandbox behind a pointer, for choosing at run time. Clones share it.
#[derive(Clone)]
pub struct BoxedSandbox(Arc<dyn SandboxDyn>);

impl BoxedSandbox {
    /// Puts a sandbox behind a pointer.
    pub fn new(sandbox: impl Sandbox + 'static) -> Self {
        Self(Arc::new(sandbox))
    }
}

impl fmt::Debug for BoxedSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedSandbox").finish_non_exhaustive()
    }
}

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

/// [`Sandbox`] with boxed futures.
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

/// A limit that a sandbox set and a tool exceeded, with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SandboxLimit {
    /// The time that passed.
    Time(Duration),
    /// The time that its processes kept processors busy, together.
    CpuTime(Duration),
    /// The bytes of memory of its processes, together.
    Memory(u64),
    /// How many processes and threads there were at a time.
    Processes(u64),
    /// The bytes of one file that it wrote.
    FileSize(u64),
    /// The disk space above the bytes that must stay free.
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
    fn a_limit_is_named_with_its_value() {
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
    fn a_tools_own_error_comes_through_as_it_is_and_others_are_the_source() {
        let own = SandboxError::from(ToolError::ModelRetry("again".into()));
        assert_eq!(own.to_string(), "again");
        assert!(matches!(ToolError::from(own), ToolError::ModelRetry(hint) if hint == "again"));

        let error = ToolError::from(SandboxError::SetupFailed("no".into()));
        assert_eq!(error.to_string(), "execution failed: sandbox setup failed: no");
        let ToolError::ExecutionFailed(source) = error else { panic!("it failed") };
        assert!(matches!(source.downcast_ref(), Some(SandboxError::SetupFailed(_))));
    }
}
