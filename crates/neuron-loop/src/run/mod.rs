//! The driver of runs, and the types to start and watch a run.

mod begin;
mod driver;
mod result;
mod start;
mod turn;
mod typed;
mod waiting;
mod watch;

pub use result::{RunResult, Step};
pub use start::{OwnedRun, Run};
pub use watch::{RunEvent, RunEvents, RunStream, Steps};

pub(crate) use begin::begin;
pub(crate) use driver::{Driven, drive};
pub(crate) use result::agent_result;
pub(crate) use start::Live;
pub(crate) use typed::OutputType;
pub(crate) use watch::Events;
