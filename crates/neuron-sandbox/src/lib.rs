//! Sandboxes that limit what tools can access, and tools that run a program.
//!
//! The crate works without an agent. A [`CommandTool`] describes a program for each call, and a [`Sandbox`] runs the
//! program.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | tools that run a program | [`CommandTool`], [`Confined`] |
//! | programs that the Linux kernel confines | `ProcessSandbox` (feature `process-sandbox`) |
//! | tools without any restriction, if the sandbox is chosen at run time | [`NoOpSandbox`] |
//! | a sandbox of your own | [`Sandbox`] |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod command_tool;
mod no_op;
#[cfg(feature = "process-sandbox")]
mod process;

pub use command_tool::{CommandTool, Confined};
pub use neuron_types::Sandbox;
pub use no_op::NoOpSandbox;
#[cfg(feature = "process-sandbox")]
pub use process::{Confinement, ProcessCounting, ProcessSandbox, ProcessSandboxBuilder};
