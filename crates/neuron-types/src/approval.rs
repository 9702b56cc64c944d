//! The signatures of pending calls, and the state with which a nested run continues.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    ApprovalDecisions, ApprovalError, ApprovalSignature, PendingApproval, PendingCall,
    ToolDefinition, WasmCompatSend, WasmCompatSync,
};

/// Signs pending calls, and verifies the signatures when decisions arrive.
///
/// A [`PendingApproval`] may be modified while it is stored outside of the process. An agent with a signer accepts
/// decisions only on calls for which it requested the approval itself.
///
/// In both methods, `run_id` is the id of the run, and `tool` is the definition of the called tool. `engine_time` is
/// the time on a durable engine's clock. If it is `None`, use the system clock.
pub trait ApprovalSigner: WasmCompatSend + WasmCompatSync {
    /// Signs a pending call, before the run waits for its approval.
    fn sign(
        &self,
        run_id: &str,
        pending: &PendingCall,
        tool: Option<&ToolDefinition>,
        engine_time: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> ApprovalSignature;

    /// Verifies the signature of a pending call, before a decision on the call is executed.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Signature`] if the signature is missing, invalid or expired.
    fn verify(
        &self,
        run_id: &str,
        pending: &PendingCall,
        tool: Option<&ToolDefinition>,
        engine_time: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> Result<(), ApprovalError>;
}

/// The state of a nested run that waited for an approval, and the decisions on its pending calls.
///
/// The loop inserts this value into [`ToolContext::extensions`](crate::ToolContext::extensions) and calls the tool
/// again. The tool must then continue the nested run from this state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResumedApproval {
    /// The state of the nested run.
    pub pending: PendingApproval,
    /// The decisions on the pending calls of the nested run.
    pub decisions: ApprovalDecisions,
}

impl ResumedApproval {
    /// Combines the state of a nested run that waits for an approval with the decisions on its pending calls.
    #[must_use]
    pub fn new(pending: PendingApproval, decisions: ApprovalDecisions) -> Self {
        Self { pending, decisions }
    }
}
