//! Tool results for failed calls.

use neuron_types::{ToolError, ToolOutput};

use crate::causes::with_causes;

/// Converts a tool's error into a tool result that the model can read.
pub(crate) fn of_error(error: &ToolError) -> ToolOutput {
    ToolOutput::error(text(error))
}

/// Returns the text of an error, followed by its causes.
pub(crate) fn text(error: &ToolError) -> String {
    match error {
        ToolError::ApprovalRequired(pending) => {
            let tools: Vec<&str> =
                pending.calls.iter().map(|pending| pending.call.name.as_str()).collect();
            format!(
                "not executed: an agent inside the call requires approval for {}",
                tools.join(", ")
            )
        }
        error => with_causes(error),
    }
}
