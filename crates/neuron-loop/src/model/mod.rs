//! Calls of the model, with the layers around them.

mod call;
mod link;
mod source;

pub(crate) use call::{Answered, call_model};
