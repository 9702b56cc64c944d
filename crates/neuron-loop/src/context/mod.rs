//! Compaction of the conversation, and system messages that injectors add to it.

mod compaction;
mod reminders;

pub(crate) use compaction::{compact_if_needed, make_room};
pub(crate) use reminders::remind;
