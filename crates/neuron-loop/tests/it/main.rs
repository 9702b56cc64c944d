//! The loop's behaviour, path by path. One binary, so that it links once.

mod approval;
mod cancel_after_turn;
mod cancellation;
mod compaction;
mod context_size;
mod durability;
mod errors;
mod executors;
mod failing_tools;
mod finalize;
mod hooks;
mod lifecycle;
mod limits;
mod prepare_turn;
mod reminders;
mod scopes;
mod settings;
mod steps;
mod stop_when;
mod stream_retries;
mod streaming;
mod support;
mod sweep;
mod tools;
mod usage;
mod waiting;
