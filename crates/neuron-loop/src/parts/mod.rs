//! The agent's definition, and the values that belong to one run.

mod definition;
mod enclosing;
mod env;
mod hooks;
mod reader;

pub(crate) use definition::{Definition, Frame, FrameChanges, Parts};
pub(crate) use enclosing::{EnclosingRun, depth_in, outer_call};
pub(crate) use env::{Env, Offered, RunScope, add_budget, check, or_cancelled};
pub(crate) use hooks::Hooks;
pub(crate) use reader::Reader;
