//! Tool results for failed calls.

use neuron_types::{ToolError, ToolOutput};

use crate::causes::with_causes;

/// Returns a failure as a result for the model.
pub(crate) fn of_error(error: &ToolError) -> ToolOutput {
    ToolOutput::error(text(error))
}

/// Returns the text of a failure, with its causes.
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
