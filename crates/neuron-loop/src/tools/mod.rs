//! Running the tool calls of a response.

mod batch;
mod calls;
mod decide;
mod execute;
mod prefetch;

pub(crate) use batch::run_batch;
pub(crate) use prefetch::Prefetch;
