//! The agent's definition, and the values that belong to one run.

mod callable;
mod definition;
mod env;
mod handle;

pub use handle::{RunHandle, SteerError};

pub(crate) use callable::CallableTools;
pub(crate) use definition::{
    Definition, Derived, EnclosingRun, FrameChanges, Parts, depth_in, outer_call,
};
pub(crate) use env::{Env, Reader, RunScope, Turn, add_budget, check, or_cancelled};
pub(crate) use handle::Steered;
