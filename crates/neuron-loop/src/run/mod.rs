//! The driver of runs, and the types to start and watch a run.

mod begin;
mod driver;
mod handle;
mod live;
mod result;
mod start;
mod store;
mod turn;
mod typed;
mod waiting;
mod watch;

pub use handle::{RunHandle, SteerError};
pub use result::{RunResult, Step};
pub use start::{OwnedRun, Run};
pub use store::SessionHandle;
pub use watch::{RunEvent, RunEvents, RunStream, Steps};

pub(crate) use begin::begin_with_message;
pub(crate) use driver::drive;
pub(crate) use live::Live;
pub(crate) use result::agent_result;
pub(crate) use typed::OutputType;
pub(crate) use watch::{Events, Item};
