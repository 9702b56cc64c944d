//! A registry that is kept in sync with the tools of a server.

use std::sync::Arc;

use futures_util::FutureExt;
use neuron_tool::ToolRegistry;
use neuron_types::{McpError, ToolDyn};

use super::{BridgeOptions, McpToolBridge, bridges};
use crate::{McpClient, McpEvent, McpEvents};

/// Keeps a registry in sync with a server whose tools change.
///
/// The toolset changes and removes only tools that it added. All other tools stay in the registry, including the tools
/// of another server's toolset. The toolset requests the list of tools only in [`sync`](Self::sync), even if the server
/// reports a change earlier.
///
/// # Example: sync between the runs of an agent
///
/// ```no_run
/// use std::sync::Arc;
/// use neuron_loop::{Agent, Conversation};
/// use neuron_mcp::{BridgeOptions, McpClient, McpToolset};
/// use neuron_tool::ToolRegistry;
///
/// # async fn example(
/// #     client: Arc<McpClient>, mut agent: Agent, questions: Vec<String>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let (mut tools, mut conversation) = (ToolRegistry::new(), Conversation::new());
/// let mut toolset = McpToolset::new(client, BridgeOptions::new().with_prefix("github"));
/// for question in questions {
///     if toolset.has_changed() {
///         let changes = toolset.sync(&mut tools).await?;
///         agent = agent.to_builder().tools(tools.clone()).build();
///         println!("new tools: {:?}", changes.added);
///     }
///     agent.run(&mut conversation, question).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct McpToolset {
    client: Arc<McpClient>,
    options: BridgeOptions,
    events: McpEvents,
    /// `true` if the tools of the server may have changed since the last successful `sync`. Also `true` before the
    /// first `sync`.
    has_changed: bool,
    /// Tools that this toolset added to the registry, in the order of the server.
    added: Vec<Added>,
}

/// A tool of the server that the toolset added to the registry.
struct Added {
    bridge: McpToolBridge,
    /// The tool in the registry, which is a copy of `bridge`. If the registry contains a different pointer, another
    /// tool has replaced this tool.
    tool: Arc<dyn ToolDyn>,
}

impl std::fmt::Debug for Added {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bridge.fmt(f)
    }
}

impl Added {
    fn new(bridge: McpToolBridge) -> Self {
        Self { tool: Arc::new(bridge.clone()), bridge }
    }

    fn name(&self) -> &str {
        &self.bridge.definition.name
    }

    /// Returns `true` if the registry still contains this tool. Returns `false` if another tool with the same name
    /// replaced it.
    fn is_in(&self, registry: &ToolRegistry) -> bool {
        registry.get(self.name()).is_some_and(|tool| Arc::ptr_eq(&tool, &self.tool))
    }

    /// Returns `true` if this tool has the same name at the server, the same definition and the same
    /// [`ToolEffect`](neuron_types::ToolEffect) as `bridge`.
    fn is_as(&self, bridge: &McpToolBridge) -> bool {
        self.bridge.name == bridge.name
            && self.bridge.definition == bridge.definition
            && self.bridge.effect == bridge.effect
    }
}

impl McpToolset {
    /// Creates a toolset. No tool is registered before the first [`sync`](Self::sync).
    #[must_use]
    pub fn new(client: Arc<McpClient>, options: BridgeOptions) -> Self {
        let events = client.events();
        Self { client, options, events, has_changed: true, added: Vec::new() }
    }

    /// Returns `true` if the tools of the server may have changed since the last [`sync`](Self::sync).
    ///
    /// The tools may have changed if the server reported a change, the connection was restored, or events were lost.
    /// Returns `true` before the first `sync`. Does not wait.
    pub fn has_changed(&mut self) -> bool {
        while let Some(Some(event)) = self.events.next().now_or_never() {
            self.note(&event);
        }
        self.has_changed
    }

    /// Waits until [`has_changed`](Self::has_changed) returns `true`.
    ///
    /// The loss of a connection does not complete the future. When a request restores the connection, the future
    /// completes, because the tools may have changed (see [`McpEvent::Disconnected`](crate::McpEvent::Disconnected)).
    /// If the client is closed and no change is pending, the future never completes.
    ///
    /// # Cancel safety
    ///
    /// No change is lost if the future is dropped.
    pub async fn changed(&mut self) {
        while !self.has_changed() {
            match self.events.next().await {
                Some(event) => self.note(&event),
                None => std::future::pending().await,
            }
        }
    }

    /// Sets `has_changed` if an event means that the tools may have changed.
    fn note(&mut self, event: &McpEvent) {
        self.has_changed |= matches!(
            event,
            McpEvent::ToolsChanged | McpEvent::Reconnected | McpEvent::Lagged { .. }
        );
    }

    /// Lists the tools of the server, updates the registry, and returns the changes.
    ///
    /// The tools are added to the registry in the order of the server. The first new or changed tool and all later
    /// tools of the server move to the end of the registry. Earlier tools keep their position.
    ///
    /// If other code replaced a tool of this toolset in the registry, the replacement is kept. Always pass the same
    /// registry. A different registry receives all tools, and the result lists them as added.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`McpClient::list_all_tools`], and [`McpError::Other`] with [`McpNameTaken`]. After
    /// an error, the registry is unchanged and [`has_changed`](Self::has_changed) returns `true`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the registry is not changed, and [`has_changed`](Self::has_changed) then returns
    /// `true`.
    pub async fn sync(&mut self, registry: &mut ToolRegistry) -> Result<McpToolChanges, McpError> {
        // Discards the events so far. A change that is reported from here on may be missing in the list.
        self.has_changed();
        self.has_changed = true;
        let (bridges, left_out) = bridges(&self.client, &self.options).await?;
        self.added.retain(|added| added.is_in(registry));
        for bridge in &bridges {
            self.check_name(bridge, registry)?;
        }
        let changes = McpToolChanges { left_out, ..self.apply(bridges, registry) };
        self.has_changed = false;
        Ok(changes)
    }

    /// Removes the tools of this toolset from the registry.
    pub fn remove_from(&mut self, registry: &mut ToolRegistry) {
        for added in self.added.drain(..) {
            if added.is_in(registry) {
                registry.remove(added.name());
            }
        }
        self.has_changed = true;
    }

    /// Returns an error if the registry has a tool with the name of `bridge` that this toolset did not add.
    fn check_name(&self, bridge: &McpToolBridge, registry: &ToolRegistry) -> Result<(), McpError> {
        let name = &bridge.definition.name;
        if registry.get(name).is_none() || self.added.iter().any(|added| added.name() == name) {
            return Ok(());
        }
        Err(McpError::Other(Box::new(McpNameTaken {
            name: name.clone(),
            tool: bridge.name.clone(),
            server: self.client.server_info().name,
        })))
    }

    /// Replaces the tools that this toolset added to the registry by `bridges`, and returns the changes.
    fn apply(
        &mut self,
        bridges: Vec<McpToolBridge>,
        registry: &mut ToolRegistry,
    ) -> McpToolChanges {
        let stays = |added: &Added| bridges.iter().any(|new| new.definition.name == added.name());
        let mut before: Vec<Added> = std::mem::take(&mut self.added);
        let mut changes = McpToolChanges::default();
        for gone in before.extract_if(.., |added| !stays(added)) {
            registry.remove(gone.name());
            changes.removed.push(gone.name().to_owned());
        }
        // The unchanged tools at the start of the server's list keep their position in the registry.
        let same = before.iter().zip(&bridges).take_while(|(added, bridge)| added.is_as(bridge));
        let same = same.count();
        let moved = before.split_off(same);
        for added in &moved {
            registry.remove(added.name());
        }
        self.added = before;
        for bridge in bridges.into_iter().skip(same) {
            let name = bridge.definition.name.clone();
            match moved.iter().find(|added| added.name() == name) {
                Some(added) if added.is_as(&bridge) => {}
                Some(_) => changes.replaced.push(name),
                None => changes.added.push(name),
            }
            let added = Added::new(bridge);
            registry.register_dyn(Arc::clone(&added.tool));
            self.added.push(added);
        }
        changes
    }
}

/// The changes that [`McpToolset::sync`] made to a registry.
///
/// The added, replaced and removed tools are listed by the names that the model sees, in the order of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpToolChanges {
    /// Names of new tools.
    pub added: Vec<String>,
    /// Names of tools whose definition or effect changed.
    pub replaced: Vec<String>,
    /// Names of removed tools, in their earlier order.
    pub removed: Vec<String>,
    /// Tools that are skipped because they exceed a limit of the [options](BridgeOptions), because their name is listed
    /// twice, or because model vendors would reject their schema.
    pub left_out: Vec<McpLeftOut>,
}

/// A tool of a server that is not offered to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpLeftOut {
    /// Name of the tool at the server.
    pub tool: String,
    /// Reason why the tool is skipped.
    pub reason: String,
}

impl McpLeftOut {
    /// Creates the record of a tool that is not offered to the model. Also logs a warning with the reason.
    pub(crate) fn new(tool: String, reason: String) -> Self {
        tracing::warn!(tool, reason, "skipped a tool of the server");
        Self { tool, reason }
    }
}

impl McpToolChanges {
    /// Returns `true` if no tool was added, replaced or removed. The order of the tools may have changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.replaced.is_empty() && self.removed.is_empty()
    }
}

/// The error for a server's tool that cannot be added, because the registry has another tool with its name. Contained
/// in [`McpError::Other`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tool `{tool}` of the server `{server}` cannot be added as `{name}`: another tool is registered as \
     `{name}`; a prefix or a filter in BridgeOptions keeps them apart"
)]
#[non_exhaustive]
pub struct McpNameTaken {
    /// Name of the tool in the registry.
    pub name: String,
    /// Name of the tool at the server.
    pub tool: String,
    /// Name of the server.
    pub server: String,
}
