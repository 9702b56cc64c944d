//! Runs: the driver, and the ways to start it and to watch it.

mod begin;
mod driver;
mod live;
mod result;
mod turn;
mod typed;
mod waiting;

pub use result::{RunResult, Step};

pub(crate) use driver::{Driven, Way, drive};
pub(crate) use live::{ActiveRun, Live, RunContext, TypedOutput};
pub(crate) use result::agent_result;
pub(crate) use typed::{read_output, typed_output};
