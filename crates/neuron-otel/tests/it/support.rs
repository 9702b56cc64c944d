//! What the tests share.

pub(crate) mod memory;
pub(crate) mod tools;
