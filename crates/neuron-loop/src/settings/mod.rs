//! Settings of agents, and values that belong to them.

#[cfg(feature = "signed-approvals")]
mod approval_key;
mod budget;
mod choices;
mod config;
pub(crate) mod output_schema;
mod output_text;
mod request_settings;

#[cfg(feature = "signed-approvals")]
pub use approval_key::ApprovalKey;
pub use budget::{Budget, Reservation};
pub use choices::{ApprovalSignal, CancelMode, EndStrategy, OnLimit, OutputMode, ToolErrorPolicy};
pub use config::LoopConfig;
pub use request_settings::RequestSettings;

pub(crate) use budget::{Amount, at_most};
pub(crate) use output_text::json_in;
