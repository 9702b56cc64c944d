//! The outcome that an invocation of a run returns ([`outcome`]).

use neuron_durable::RunOutcome;
use neuron_types::{AgentResult, LoopError, stored_json};

/// Maximum size of an outcome in bytes. Restate accepts messages of up to 32 MiB.
const LIMIT: usize = 16 << 20;

/// Returns the outcome of a run. The conversation is left out if the outcome is too long for Restate.
pub(crate) fn outcome(run_id: String, result: Result<AgentResult, LoopError>) -> RunOutcome {
    let mut outcome = RunOutcome::new(run_id, result);
    let mut json = Vec::new();
    if stored_json::write(&mut json, &outcome).is_err() || json.len() > LIMIT {
        outcome.remove_messages();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use neuron_types::{LoopError, Message, PendingApproval, PendingCall, ToolCall};
    use serde_json::json;

    use super::{LIMIT, outcome};

    #[test]
    fn long_conversations_of_nested_agents_are_left_out() {
        let mut nested = PendingApproval::new("r/inside", Vec::new());
        nested.messages = vec![Message::user("x".repeat(LIMIT))];
        let call = ToolCall { id: "c".into(), name: "ask".into(), input: json!({}) };
        let mut call = PendingCall::new(call, "?");
        call.nested = Some(Box::new(nested));
        let pending = Box::new(PendingApproval::new("r", vec![call]));
        let outcome = outcome("r".into(), Err(LoopError::ApprovalRequired(pending)));
        assert!(outcome.is_cut);
        let pending = outcome.pending.unwrap();
        let nested = pending.calls[0].nested.as_ref().unwrap();
        assert!(nested.messages.is_empty() && nested.run_id == "r/inside");
    }
}
