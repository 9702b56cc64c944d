//! Running the tool calls of a response.

mod decide;
mod execute;
mod prefetch;
mod run;

pub(crate) use prefetch::Prefetch;
pub(crate) use run::{Results, run_batch};
