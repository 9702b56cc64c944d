//! Calls of the model, with the layers around them.

mod call;
mod link;
mod prepare;

pub use prepare::TurnSetup;

pub(crate) use call::{Answered, call_model};
pub(crate) use prepare::PrepareTurn;
