//! Names of tools. The API accepts fewer characters in a name than other vendors.

use neuron_http::{RenamedTools, ToolNames};
use neuron_types::ToolDefinition;

use crate::allowed::{self, MAX_CHARS};

/// Returns the mapping from names of tools to names in the request.
pub(crate) fn names(tools: &[ToolDefinition]) -> ToolNames<'_> {
    ToolNames::new(tools, allowed::name, MAX_CHARS)
}

/// Returns the mapping from names in the request to names of tools.
pub(crate) fn renamed(tools: &[ToolDefinition]) -> RenamedTools {
    RenamedTools::new(tools, allowed::name, MAX_CHARS)
}
