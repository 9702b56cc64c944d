//! What a tool call's failure tells the client's model.

use neuron_types::{ToolError, ToolOutput};

use crate::causes::with_causes;

/// A failure as a result that the model can read, and act upon.
pub(crate) fn of_error(error: &ToolError) -> ToolOutput {
    ToolOutput::error(text(error))
}

/// The text of a failure, with its causes.
pub(crate) fn text(error: &ToolError) -> String {
    match error {
        ToolError::ApprovalRequired(pending) => {
            let tools: Vec<&str> =
                pending.calls.iter().map(|pending| pending.call.name.as_str()).collect();
            format!("not done: an agent inside the call needs an approval for {}", tools.join(", "))
        }
        error => with_causes(error),
    }
}
