//! The outcome of a tool call that has an effect key.

use serde::{Deserialize, Serialize};

use crate::ToolOutput;

/// The key and the result of a tool call that has an effect key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownEffect {
    /// Name of the tool.
    pub tool: String,
    /// The effect key of the call.
    pub key: String,
    /// The result of the call. `None` if the process ended before the tool returned, so the result is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
}
