//! Keeping the conversation inside its budget, and reminding the model in the middle of it.

mod compaction;
mod reminders;

pub(crate) use compaction::{compact_if_needed, make_room};
pub(crate) use reminders::remind;
