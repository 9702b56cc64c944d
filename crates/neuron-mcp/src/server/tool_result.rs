//! What a tool call's failure tells the client's model.

use std::error::Error;
use std::fmt::Write;

use neuron_types::{ToolError, ToolOutput};

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
        error => with_sources(error),
    }
}

/// The error's text, and those of its sources that it does not contain already.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            // Writing to a string does not fail.
            let _ = write!(text, ": {cause}");
        }
        source = error.source();
    }
    text
}
