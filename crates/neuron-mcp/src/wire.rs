//! Conversion between the types of this crate and the types of the SDK, with a file for each subject.
//!
//! The conversions are here, so that most other modules need not know the fields of the SDK's types.

pub(crate) mod capabilities;
pub(crate) mod change;
pub(crate) mod completion;
pub(crate) mod content;
pub(crate) mod elicitation;
pub(crate) mod error;
pub(crate) mod input;
pub(crate) mod log;
pub(crate) mod peer_info;
pub(crate) mod progress;
pub(crate) mod prompt;
pub(crate) mod resource;
pub(crate) mod root;
pub(crate) mod sampling;
pub(crate) mod span;
pub(crate) mod task;
pub(crate) mod tool;
pub(crate) mod trace;
