//! Options of a bridge, for the prefix, the filters, the limits and the trust in annotations.

use std::fmt;
use std::sync::Arc;

use neuron_types::{ToolAnnotations, ToolDefinition, ToolEffect};

use crate::json_length::json_length;

/// A function that returns `true` if the bridge should offer a tool of the server to the model.
type Filter = Arc<dyn Fn(&ToolDefinition) -> bool + Send + Sync>;

/// Options of the bridge to the tools of a server.
///
/// # Example
///
/// ```
/// use neuron_mcp::BridgeOptions;
///
/// let options = BridgeOptions::new()
///     .with_prefix("github")
///     .with_tools(["create_issue", "list_issues"])
///     .trust_read_only_hint();
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct BridgeOptions {
    prefix: String,
    filters: Vec<Filter>,
    trusts_read_only: bool,
    trusts_idempotent: bool,
    max_tools: Option<usize>,
    max_definition_bytes: Option<usize>,
}

/// Default maximum number of tools of a server.
const MOST_TOOLS: usize = 256;

/// Default maximum length of a tool's definition as JSON, in bytes.
const LONGEST_DEFINITION: usize = 64 * 1024;

/// Maximum length of a tool's name at the server, in bytes. The protocol defines this limit (MCP specification
/// 2025-11-25, "Tool Names").
const LONGEST_NAME: usize = 128;

impl BridgeOptions {
    /// Creates options that select all tools, add no prefix and trust no annotations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `prefix` and `_` before the names that the model sees. The tools of several servers then have different
    /// names. For example, `create_issue` of the server `github` becomes `github_create_issue`.
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Selects only the tools with these names at the server.
    pub fn with_tools<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.with_filter(move |tool| names.contains(&tool.name))
    }

    /// Excludes the tools with these names at the server.
    pub fn without_tools<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.with_filter(move |tool| !names.contains(&tool.name))
    }

    /// Selects only tools for which `filter` returns `true`. A tool must also pass all filters that were set earlier.
    /// `filter` receives the definition that the server returned.
    pub fn with_filter(
        mut self,
        filter: impl Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    /// Trusts the server's annotation that a tool only reads (`readOnlyHint`). Such a tool is [`ToolEffect::Pure`]. Its
    /// calls may start before the model's response is complete, and may run again after a crash of the agent.
    pub fn trust_read_only_hint(mut self) -> Self {
        self.trusts_read_only = true;
        self
    }

    /// Trusts the server's annotation that repeating a call has no further effect (`idempotentHint`). Such a tool is
    /// [`ToolEffect::Idempotent`], so its calls may run again after a crash of the agent.
    pub fn trust_idempotent_hint(mut self) -> Self {
        self.trusts_idempotent = true;
        self
    }

    /// Sets the maximum number of tools. Further tools are skipped with a warning. Default: 256.
    pub fn max_tools(mut self, tools: usize) -> Self {
        self.max_tools = Some(tools);
        self
    }

    /// Sets the maximum length of a tool's definition in bytes, measured as JSON text with the schemas. Tools with a
    /// longer definition are skipped with a warning. Default: 64 KiB.
    ///
    /// A tool whose name has more than 128 bytes is always skipped.
    pub fn max_definition_bytes(mut self, bytes: usize) -> Self {
        self.max_definition_bytes = Some(bytes);
        self
    }

    /// Returns the reason to skip a tool, or `None` if the tool is within the limits. `others` is the number of tools
    /// that were already accepted.
    pub(super) fn refuses(&self, definition: &ToolDefinition, others: usize) -> Option<String> {
        let (name, length) = (definition.name.len(), json_length(definition));
        let most = self.max_tools.unwrap_or(MOST_TOOLS);
        let longest = self.max_definition_bytes.unwrap_or(LONGEST_DEFINITION);
        if name > LONGEST_NAME {
            Some(format!("its name has {name} bytes, but the maximum is {LONGEST_NAME}"))
        } else if length > longest {
            Some(format!(
                "its definition has {length} bytes, but the maximum is {longest} \
                 (`BridgeOptions::max_definition_bytes`)"
            ))
        } else if others >= most {
            Some(format!("the server has more than {most} tools (`BridgeOptions::max_tools`)"))
        } else {
            None
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns `true` if all filters select the tool.
    pub(super) fn wants(&self, definition: &ToolDefinition) -> bool {
        self.filters.iter().all(|filter| filter(definition))
    }

    /// Returns the effect of a tool with these annotations of the server. Annotations that are not trusted are ignored.
    pub(super) fn effect(&self, annotations: Option<ToolAnnotations>) -> ToolEffect {
        let annotations = annotations.unwrap_or_default();
        if self.trusts_read_only && annotations.read_only_hint == Some(true) {
            ToolEffect::Pure
        } else if self.trusts_idempotent && annotations.idempotent_hint == Some(true) {
            ToolEffect::Idempotent
        } else {
            ToolEffect::AtMostOnce
        }
    }
}

impl fmt::Debug for BridgeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeOptions")
            .field("prefix", &self.prefix)
            .field("filters", &self.filters.len())
            .field("trusts_read_only", &self.trusts_read_only)
            .field("trusts_idempotent", &self.trusts_idempotent)
            .field("max_tools", &self.max_tools)
            .field("max_definition_bytes", &self.max_definition_bytes)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_annotations_do_not_change_the_effect() {
        let read_only = ToolAnnotations { read_only_hint: Some(true), ..Default::default() };
        let idempotent = ToolAnnotations { idempotent_hint: Some(true), ..Default::default() };
        let both = ToolAnnotations { idempotent_hint: Some(true), ..read_only };
        let neither = ToolAnnotations {
            read_only_hint: Some(false),
            idempotent_hint: Some(false),
            ..Default::default()
        };
        let nothing = BridgeOptions::new();
        let reads = nothing.clone().trust_read_only_hint();
        let repeats = nothing.clone().trust_idempotent_hint();
        let all = reads.clone().trust_idempotent_hint();
        let (pure, idem, once) = (ToolEffect::Pure, ToolEffect::Idempotent, ToolEffect::AtMostOnce);
        for (annotations, expected) in [
            (Some(read_only), [once, pure, once, pure]),
            (Some(idempotent), [once, once, idem, idem]),
            (Some(both), [once, pure, idem, pure]),
            (Some(neither), [once; 4]),
            (None, [once; 4]),
        ] {
            let effects = [&nothing, &reads, &repeats, &all].map(|it| it.effect(annotations));
            assert_eq!(effects, expected, "{annotations:?}");
        }
    }
}
