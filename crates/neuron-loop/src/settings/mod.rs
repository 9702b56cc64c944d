//! Settings of agents, and values that belong to them.

mod choices;
mod config;

pub use choices::{ApprovalSignal, CancelMode, EndStrategy, OnLimit, OutputMode, ToolErrorPolicy};
pub use config::LoopConfig;
