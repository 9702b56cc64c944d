//! [`McpServer`]: what a server offers, and how it is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::ToolContext;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::cursor::PAGE_SIZE;
use super::notifier::{Hub, McpNotifier};
use super::prompts::{DynPrompts, McpPrompts};
use super::resources::{DynResources, McpResources};
use crate::propagation::Propagation;
use crate::{McpImplementation, TraceContext};

/// How long a client may take from one round of a call to the next, unless it is said otherwise.
const STATE_TTL: Duration = Duration::from_secs(60 * 60);

/// How long a client of an older version may take to answer a question, unless it is said otherwise.
const INPUT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How many calls of one client run at a time, unless it is said otherwise.
const MAX_CALLS: usize = 1000;

/// Makes the tools of a registry, and optionally resources and prompts, usable by any MCP client.
///
/// A call goes through the registry, so its middleware, permission checks and sandbox apply. The tool finds
/// the client as an [`McpPeer`](crate::McpPeer) in its context's extensions.
///
/// Speaks all versions of the protocol from 2024-11-05 to 2026-07-28. Clones share tools, resources and prompts.
#[derive(Clone)]
pub struct McpServer {
    pub(super) implementation: McpImplementation,
    pub(super) instructions: Option<String>,
    /// The tools, and all who hear of changes.
    pub(super) hub: Arc<Hub>,
    pub(super) resources: Option<Arc<dyn DynResources>>,
    pub(super) prompts: Option<Arc<dyn DynPrompts>>,
    /// What every call's context is made from.
    pub(super) context: ToolContext,
    pub(super) page_size: usize,
    /// How long clients may keep lists.
    pub(super) list_ttl: Duration,
    /// Seals the state of calls in rounds; `None` for a random one.
    pub(super) state_key: Option<Vec<u8>>,
    pub(super) state_ttl: Duration,
    pub(super) input_timeout: Duration,
    pub(super) max_calls: usize,
    pub(super) shutdown: CancellationToken,
    pub(super) propagation: Propagation,
}

impl McpServer {
    /// A server for the tools of a registry.
    #[must_use]
    pub fn new(tools: ToolRegistry) -> Self {
        Self {
            implementation: McpImplementation {
                name: env!("CARGO_PKG_NAME").to_owned(),
                title: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            instructions: None,
            hub: Hub::new(tools),
            resources: None,
            prompts: None,
            context: ToolContext::default(),
            page_size: PAGE_SIZE,
            list_ttl: Duration::ZERO,
            state_key: None,
            state_ttl: STATE_TTL,
            input_timeout: INPUT_TIMEOUT,
            max_calls: MAX_CALLS,
            shutdown: CancellationToken::new(),
            propagation: Propagation::default(),
        }
    }

    /// Sets the name by which clients know the server. Default: `neuron-mcp`.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.implementation.name = name.into();
        self
    }

    /// Sets the server's name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.implementation.title = Some(title.into());
        self
    }

    /// Sets the server's version. Default: that of this crate.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.implementation.version = version.into();
        self
    }

    /// Sets what the client's model should know of the server.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Offers resources too.
    #[must_use]
    pub fn with_resources(mut self, resources: impl McpResources + 'static) -> Self {
        self.resources = Some(Arc::new(resources));
        self
    }

    /// Offers prompts too.
    #[must_use]
    pub fn with_prompts(mut self, prompts: impl McpPrompts + 'static) -> Self {
        self.prompts = Some(Arc::new(prompts));
        self
    }

    /// Tells the clients what changed, and replaces the tools.
    #[must_use]
    pub fn notifier(&self) -> McpNotifier {
        McpNotifier::new(&self.hub)
    }

    /// Sets what every call's context is made from: working directory, environment and extensions. Each call
    /// gets ids, a cancellation token, a progress reporter and a peer of its own.
    #[must_use]
    pub fn with_tool_context(mut self, context: ToolContext) -> Self {
        self.context = context;
        self
    }

    /// Sets how many items a page of the list of tools has, at least one. Default: 1000, because many clients
    /// ask for the first page only. Resources and prompts have pages of their own.
    #[must_use]
    pub fn with_page_size(mut self, items: usize) -> Self {
        self.page_size = items.max(1);
        self
    }

    /// Sets how long clients may keep the lists of tools, resources and prompts without asking again, unless
    /// they are told of changes. Said since version 2026-07-28. Default: not at all.
    #[must_use]
    pub fn with_list_ttl(mut self, ttl: Duration) -> Self {
        self.list_ttl = ttl;
        self
    }

    /// Sets the key that protects what clients carry from one round of a call to the next (see
    /// [`McpPeer::ask`](crate::McpPeer::ask)): at least 32 bytes that nobody can guess. Processes that answer the
    /// same clients need the same key. Default: a random one, so that a round must come back to the process of the
    /// round before.
    ///
    /// A key that is too short is an error where the server begins to serve.
    #[must_use]
    pub fn with_state_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.state_key = Some(key.into());
        self
    }

    /// Sets how long a client may take from one round of a call to the next. Default: one hour.
    #[must_use]
    pub fn with_state_ttl(mut self, ttl: Duration) -> Self {
        self.state_ttl = ttl;
        self
    }

    /// Sets how long a client of a version before 2026-07-28 may take to answer a question. Default: ten
    /// minutes, because a person may be asked.
    #[must_use]
    pub fn with_input_timeout(mut self, timeout: Duration) -> Self {
        self.input_timeout = timeout;
        self
    }

    /// Sets how many calls of one client run at a time, at least one: over one connection, or in one session
    /// over HTTP. Reading resources and getting prompts count, too; what is more is refused with an error.
    /// Default: 1000.
    ///
    /// Over HTTP, a client that goes away does not cancel what it called in a session: without a limit it could
    /// leave behind any number of calls.
    #[must_use]
    pub fn with_max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets what shuts the server down: calls that run see their token cancelled.
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Sets what puts a span below one of the client: it is called with the span of each request that comes
    /// with a [`TraceContext`], before it is entered. By default such spans begin a trace.
    ///
    /// With the crate `neuron-otel` this is its `set_trace_parent`.
    #[must_use]
    pub fn with_trace_parent(
        mut self,
        set_parent: impl Fn(&tracing::Span, &TraceContext) + Send + Sync + 'static,
    ) -> Self {
        self.propagation.write_with(set_parent);
        self
    }

    /// Sets what tells where the current span is: tools find it in their context's extensions, and questions
    /// to the client carry it, unless they have a [`TraceContext`] of their own. By default that is the one
    /// with which the request came.
    ///
    /// With the crate `neuron-otel` this is its `current_trace_context`.
    #[must_use]
    pub fn with_trace_context(
        mut self,
        current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) -> Self {
        self.propagation.read_with(current);
        self
    }
}

/// Shows no environment and no key.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("implementation", &self.implementation)
            .field("tools", &self.hub.tools())
            .finish_non_exhaustive()
    }
}
