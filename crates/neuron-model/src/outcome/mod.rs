//! How a tool call or a run ended, as data: results, pending approvals, and the errors of tools and durable engines.
//!
//! Streams carry these types, and routers and records of errors tell them apart. What decides on them is in
//! `neuron-types`.

mod agent_result;
mod approval;
mod approval_error;
mod approval_id;
mod durable_error;
mod known_effect;
mod tool_error;

pub use agent_result::AgentResult;
pub use approval::{
    ApprovalDecision, ApprovalDecisions, ApprovalSignature, PendingApproval, PendingCall,
};
pub use approval_error::ApprovalError;
pub use durable_error::DurableError;
pub use known_effect::KnownEffect;
pub use tool_error::{ToolError, UncertainEffect};
