//! The agent's definition, and the values that belong to one run.

mod callable;
mod definition;
mod enclosing;
mod env;
mod handle;
mod reader;
mod turn;

pub use handle::{RunHandle, SteerError};

pub(crate) use callable::CallableTools;
pub(crate) use definition::{Definition, Frame, FrameChanges, Parts};
pub(crate) use enclosing::{EnclosingRun, depth_in, outer_call};
pub(crate) use env::{Env, RunScope, add_budget, check, or_cancelled};
pub(crate) use handle::Steered;
pub(crate) use reader::Reader;
pub(crate) use turn::Turn;
