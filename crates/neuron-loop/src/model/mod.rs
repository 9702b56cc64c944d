//! Model calls with the layers around them, which are middleware for model calls.

mod call;
mod link;
mod source;

pub(crate) use call::call_model;
