//! The options of a bridge, with the names, the selection and the trusted annotations of its tools.

use std::fmt;
use std::sync::Arc;

use neuron_types::{ToolAnnotations, ToolDefinition, ToolEffect};

use crate::json_length::json_length;

type Filter = Arc<dyn Fn(&ToolDefinition) -> bool + Send + Sync>;

/// The options of a bridge to a server's tools.
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

/// The number of tools of a server unless another one is set.
const MOST_TOOLS: usize = 256;

/// The length of a definition as JSON, unless another one is set.
const LONGEST_DEFINITION: usize = 64 * 1024;

/// The length of a name, as the protocol limits it (MCP specification 2025-11-25, "Tool Names").
const LONGEST_NAME: usize = 128;

impl BridgeOptions {
    /// All tools, under their own names, of which nothing is believed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `prefix` and `_` before the names for the model, so that tools of several servers differ.
    /// `create_issue` of the server `github` becomes `github_create_issue`.
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Takes only these tools, by the names that the server gives them.
    pub fn with_tools<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.with_filter(move |tool| names.contains(&tool.name))
    }

    /// Leaves these tools out, by the names that the server gives them.
    pub fn without_tools<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.with_filter(move |tool| !names.contains(&tool.name))
    }

    /// Selects tools for which `filter` and all earlier filters return `true`. It receives the definition of
    /// the server.
    pub fn with_filter(
        mut self,
        filter: impl Fn(&ToolDefinition) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    /// Trusts a server's annotation that a tool only reads. The tool is [`ToolEffect::Pure`], so that it may be
    /// started early, and run again after a crash.
    pub fn trust_read_only_hint(mut self) -> Self {
        self.trusts_read_only = true;
        self
    }

    /// Trusts a server's annotation that a second call of a tool has no further effect. The tool is
    /// [`ToolEffect::Idempotent`], so that it may run again after a crash.
    pub fn trust_idempotent_hint(mut self) -> Self {
        self.trusts_idempotent = true;
        self
    }

    /// Sets the maximum number of tools. Further ones are left out, with a warning. By default 256.
    pub fn max_tools(mut self, tools: usize) -> Self {
        self.max_tools = Some(tools);
        self
    }

    /// Sets the maximum length of a tool's definition in bytes, with its schemas, as JSON. Longer ones are left out, with a
    /// warning. By default 64 KiB. A name may have 128 bytes.
    pub fn max_definition_bytes(mut self, bytes: usize) -> Self {
        self.max_definition_bytes = Some(bytes);
        self
    }

    /// Returns why a tool is left out beside so many others.
    pub(super) fn refuses(&self, definition: &ToolDefinition, others: usize) -> Option<String> {
        let (name, length) = (definition.name.len(), json_length(definition));
        let most = self.max_tools.unwrap_or(MOST_TOOLS);
        let longest = self.max_definition_bytes.unwrap_or(LONGEST_DEFINITION);
        if name > LONGEST_NAME {
            Some(format!("its name has {name} bytes, where it may have {LONGEST_NAME}"))
        } else if length > longest {
            Some(format!(
                "its definition has {length} bytes, where it may have {longest} \
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

    pub(super) fn wants(&self, definition: &ToolDefinition) -> bool {
        self.filters.iter().all(|filter| filter(definition))
    }

    /// Returns the effect of a second run of a tool.
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
    fn only_what_is_trusted_changes_the_effect() {
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
