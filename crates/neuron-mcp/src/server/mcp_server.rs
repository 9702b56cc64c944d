//! [`McpServer`] and its options.

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

/// Default maximum time between two rounds of a call.
const STATE_TTL: Duration = Duration::from_secs(60 * 60);

/// Default timeout for a response of a client of an older version.
const INPUT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Default maximum number of concurrent calls of one client.
const MAX_CALLS: usize = 1000;

/// An MCP server for the tools of a registry, and optionally resources and prompts.
///
/// A call runs through the registry, so its middleware, permission checks and sandbox apply. The extensions of the
/// tool's context contain the client as an [`McpPeer`](crate::McpPeer).
///
/// Supports all versions of the protocol from 2024-11-05 to 2026-07-28. Clones share tools, resources and prompts.
#[derive(Clone)]
pub struct McpServer {
    pub(super) implementation: McpImplementation,
    pub(super) instructions: Option<String>,
    /// The tools, and the listeners for changes.
    pub(super) hub: Arc<Hub>,
    pub(super) resources: Option<Arc<dyn DynResources>>,
    pub(super) prompts: Option<Arc<dyn DynPrompts>>,
    /// Template for the context of every call.
    pub(super) context: ToolContext,
    pub(super) page_size: usize,
    /// Time-to-live of lists on clients.
    pub(super) list_ttl: Duration,
    /// Key for the state of multi-round calls. `None` for a random key.
    pub(super) state_key: Option<Vec<u8>>,
    pub(super) state_ttl: Duration,
    pub(super) input_timeout: Duration,
    pub(super) max_calls: usize,
    pub(super) shutdown: CancellationToken,
    pub(super) propagation: Propagation,
}

impl McpServer {
    /// Creates a server for the tools of a registry.
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

    /// Sets the name of the server. Defaults to `neuron-mcp`.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.implementation.name = name.into();
        self
    }

    /// Sets the display name of the server.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.implementation.title = Some(title.into());
        self
    }

    /// Sets the version of the server. Defaults to the version of this crate.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.implementation.version = version.into();
        self
    }

    /// Sets instructions for the client's model.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Adds resources.
    #[must_use]
    pub fn with_resources(mut self, resources: impl McpResources + 'static) -> Self {
        self.resources = Some(Arc::new(resources));
        self
    }

    /// Adds prompts.
    #[must_use]
    pub fn with_prompts(mut self, prompts: impl McpPrompts + 'static) -> Self {
        self.prompts = Some(Arc::new(prompts));
        self
    }

    /// Returns a handle to notify clients of changes and to replace the tools.
    #[must_use]
    pub fn notifier(&self) -> McpNotifier {
        McpNotifier::new(&self.hub)
    }

    /// Sets the template for the context of every call, with working directory, environment and extensions. Each call
    /// gets its own ids, cancellation token, progress reporter and peer.
    #[must_use]
    pub fn with_tool_context(mut self, context: ToolContext) -> Self {
        self.context = context;
        self
    }

    /// Sets the number of tools on a page of the list, at least 1. Defaults to 1000, because many clients request only
    /// the first page. Resources and prompts have their own pagination.
    #[must_use]
    pub fn with_page_size(mut self, items: usize) -> Self {
        self.page_size = items.max(1);
        self
    }

    /// Sets how long clients may cache the lists of tools, resources and prompts, unless they receive change
    /// notifications. Sent since version 2026-07-28. By default clients do not cache.
    #[must_use]
    pub fn with_list_ttl(mut self, ttl: Duration) -> Self {
        self.list_ttl = ttl;
        self
    }

    /// Sets the key that protects the state of multi-round calls, which the client carries between rounds (see
    /// [`McpPeer::ask`](crate::McpPeer::ask)). The key has at least 32 unpredictable bytes. Server processes that share
    /// clients need the same key. Defaults to a random key, so each round must reach the process of the previous round.
    ///
    /// The server fails to start with an error if the key is too short.
    #[must_use]
    pub fn with_state_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.state_key = Some(key.into());
        self
    }

    /// Sets the maximum time between two rounds of a call. Defaults to one hour.
    #[must_use]
    pub fn with_state_ttl(mut self, ttl: Duration) -> Self {
        self.state_ttl = ttl;
        self
    }

    /// Sets the timeout for a response of a client of a version before 2026-07-28. Defaults to ten minutes, because a
    /// person may have to respond.
    #[must_use]
    pub fn with_input_timeout(mut self, timeout: Duration) -> Self {
        self.input_timeout = timeout;
        self
    }

    /// Sets the maximum number of concurrent calls of one connection or HTTP session, at least 1. Reads of resources
    /// and prompts count too. Further calls are refused with an error. Defaults to 1000.
    ///
    /// Over HTTP, a client that disconnects does not cancel the calls of its session. Without a limit it could leave
    /// any number of calls running.
    #[must_use]
    pub fn with_max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets the token that shuts the server down. Running calls see their own token cancelled.
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Sets the function that sets the parent of a request's span. It is called with each request that has a
    /// [`TraceContext`], before its span is entered. By default such spans start a new trace.
    ///
    /// With the crate `neuron-otel`, pass its `set_trace_parent`.
    #[must_use]
    pub fn with_trace_parent(
        mut self,
        set_parent: impl Fn(&tracing::Span, &TraceContext) + Send + Sync + 'static,
    ) -> Self {
        self.propagation.write_with(set_parent);
        self
    }

    /// Sets the function that returns the trace context of the current span. Tools find it in their context's
    /// extensions. Requests to the client carry this trace context, unless they have their own. By default they carry
    /// the trace context of the incoming request.
    ///
    /// With the crate `neuron-otel`, pass its `current_trace_context`.
    #[must_use]
    pub fn with_trace_context(
        mut self,
        current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) -> Self {
        self.propagation.read_with(current);
        self
    }
}

/// Shows neither environment nor key.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("implementation", &self.implementation)
            .field("tools", &self.hub.tools())
            .finish_non_exhaustive()
    }
}
