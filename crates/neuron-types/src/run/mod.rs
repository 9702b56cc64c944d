//! The configuration of a run, and its state between two executions.

mod activity_options;
mod loop_choices;
mod loop_config;
mod run_snapshot;

pub use activity_options::{ActivityOptions, RetryPolicy};
pub use loop_choices::{
    ApprovalSignal, CancelMode, EndStrategy, OnLimit, OutputMode, ToolErrorPolicy,
};
pub use loop_config::LoopConfig;
pub use run_snapshot::RunSnapshot;
