//! A registry that is kept in step with a server.

use std::sync::Arc;

use futures_util::FutureExt;
use neuron_tool::ToolRegistry;
use neuron_types::{McpError, ToolDyn};

use super::{BridgeOptions, McpToolBridge, bridges};
use crate::{McpClient, McpEvent, McpEvents};

/// Keeps a registry in step with a server whose tools change.
///
/// It adds, replaces and removes only what it added itself; other tools stay, also those of another server's
/// toolset. However often the server says that its tools changed, they are listed once, by the next
/// [`sync`](Self::sync).
///
/// # Example: an agent, between its runs
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
    /// True if the server may have other tools than at the last `sync`.
    has_changed: bool,
    added: Vec<Added>,
}

/// A tool that was added to a registry.
struct Added {
    bridge: McpToolBridge,
    /// The same, as the registry has it.
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

    /// Returns `true` if the registry still has exactly this tool.
    fn is_in(&self, registry: &ToolRegistry) -> bool {
        registry.get(self.name()).is_some_and(|tool| Arc::ptr_eq(&tool, &self.tool))
    }

    fn is_as(&self, bridge: &McpToolBridge) -> bool {
        self.bridge.name == bridge.name
            && self.bridge.definition == bridge.definition
            && self.bridge.effect == bridge.effect
    }
}

impl McpToolset {
    /// The tools of a server. The registry gets them from the first [`sync`](Self::sync).
    #[must_use]
    pub fn new(client: Arc<McpClient>, options: BridgeOptions) -> Self {
        let events = client.events();
        Self { client, options, events, has_changed: true, added: Vec::new() }
    }

    /// Returns `true` if the server may have other tools than at the last [`sync`](Self::sync), because it
    /// reported a change, the connection was restored, or events were lost. True before the first `sync`. Never
    /// waits.
    pub fn has_changed(&mut self) -> bool {
        while let Some(Some(event)) = self.events.next().now_or_never() {
            self.note(&event);
        }
        self.has_changed
    }

    /// Waits until [`has_changed`](Self::has_changed) is true, which it never is after the client is closed. A
    /// lost connection is a change only when a request restores it (see
    /// [`McpEvent::Disconnected`](crate::McpEvent::Disconnected)).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn changed(&mut self) {
        while !self.has_changed() {
            match self.events.next().await {
                Some(event) => self.note(&event),
                None => std::future::pending().await,
            }
        }
    }

    fn note(&mut self, event: &McpEvent) {
        self.has_changed |= matches!(
            event,
            McpEvent::ToolsChanged | McpEvent::Reconnected | McpEvent::Lagged { .. }
        );
    }

    /// Gives the registry the tools that the server has now, in the server's order, and says what changed.
    ///
    /// Tools keep their place up to the first that is new or told otherwise; those from there on stand behind
    /// all others. A tool that somebody else put in the place of one of these is theirs. Use one
    /// registry with one toolset: another one gets all tools as if they were new.
    ///
    /// # Errors
    ///
    /// As [`McpClient::list_all_tools`], and [`McpError::Other`] with [`McpNameTaken`]. The registry is then as
    /// it was, and [`has_changed`](Self::has_changed).
    ///
    /// # Cancel safety
    ///
    /// As after an error.
    pub async fn sync(&mut self, registry: &mut ToolRegistry) -> Result<McpToolChanges, McpError> {
        // What is told from here on may be missing in the list.
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

    /// Removes this server's tools from the registry.
    pub fn remove_from(&mut self, registry: &mut ToolRegistry) {
        for added in self.added.drain(..) {
            if added.is_in(registry) {
                registry.remove(added.name());
            }
        }
        self.has_changed = true;
    }

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
        // Those that stay, as long as the server's order is the registry's.
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

/// The changes of a registry, with the names for the model in the server's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpToolChanges {
    /// New tools.
    pub added: Vec<String>,
    /// Tools that are told otherwise now.
    pub replaced: Vec<String>,
    /// Tools that are gone, in the order that they had.
    pub removed: Vec<String>,
    /// Tools that the [options](BridgeOptions) leave out, because they are too many or too long.
    pub left_out: Vec<McpLeftOut>,
}

/// A tool of a server that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpLeftOut {
    /// The name that the server gives the tool.
    pub tool: String,
    /// Text that says why it is left out.
    pub reason: String,
}

impl McpLeftOut {
    pub(crate) fn new(tool: String, reason: String) -> Self {
        tracing::warn!(tool, reason, "a tool of a server is left out");
        Self { tool, reason }
    }
}

impl McpToolChanges {
    /// Returns `true` if at most the order changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.replaced.is_empty() && self.removed.is_empty()
    }
}

/// A tool of a server cannot be added, because the registry has another of its name. Inside
/// [`McpError::Other`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tool `{tool}` of the server `{server}` cannot be added as `{name}`: another tool is registered as \
     `{name}`; a prefix or a filter in BridgeOptions keeps them apart"
)]
#[non_exhaustive]
pub struct McpNameTaken {
    /// The name in the registry.
    pub name: String,
    /// Name of the tool at the server.
    pub tool: String,
    /// Name of the server.
    pub server: String,
}
