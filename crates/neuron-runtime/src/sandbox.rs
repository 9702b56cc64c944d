//! Sandboxes that limit what tools can access, and tools that run a program.

mod command_tool;
mod no_op;
#[cfg(feature = "process-sandbox")]
mod process;

pub use command_tool::{CommandTool, Confined};
pub use no_op::NoOpSandbox;
#[cfg(feature = "process-sandbox")]
pub use process::{Confinement, ProcessCounting, ProcessSandbox, ProcessSandboxBuilder};
