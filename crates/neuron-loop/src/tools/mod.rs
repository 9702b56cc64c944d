//! The tool calls of an answer.

mod batch;
mod calls;
mod decide;
mod execute;
mod metered;
mod prefetch;

pub(crate) use batch::run_batch;
pub(crate) use metered::{Metered, count_tool_usage};
pub(crate) use prefetch::Prefetch;
