//! Model calls with the layers around them.

mod call;
mod link;
mod source;

pub(crate) use call::call_model;
