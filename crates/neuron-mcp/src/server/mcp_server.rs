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
use super::tasks::McpTasks;
use crate::propagation::Propagation;
use crate::{McpImplementation, TraceContext};

/// Default for [`McpServer::with_state_ttl`], the maximum time between a result that requests input and the client's
/// repeated call with this input.
const STATE_TTL: Duration = Duration::from_secs(60 * 60);

/// Default for [`McpServer::with_input_timeout`], the maximum time that the server waits for the client's response to
/// its request.
const INPUT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Default for [`McpServer::with_max_calls`], the maximum number of concurrent calls of one connection or HTTP session.
const MAX_CALLS: usize = 1000;

/// An MCP server for the tools of a [`ToolRegistry`], and optionally for resources and prompts.
///
/// Tool calls run through the registry, so the registry's middleware, permission checks and sandbox apply. A tool finds
/// the calling client as an [`McpPeer`](crate::McpPeer) in the extensions of its [`ToolContext`].
///
/// The server supports all protocol versions from 2024-11-05 to 2026-07-28. Clones share the tools, resources and
/// prompts.
#[derive(Clone)]
pub struct McpServer {
    /// Name, display name and version that the server reports to clients.
    pub(super) implementation: McpImplementation,
    /// Instructions for the client's model.
    pub(super) instructions: Option<String>,
    /// The current tools, and the listeners for change notifications.
    pub(super) hub: Arc<Hub>,
    /// The user's resources. `None` if the server has no resources.
    pub(super) resources: Option<Arc<dyn DynResources>>,
    /// The user's prompts. `None` if the server has no prompts.
    pub(super) prompts: Option<Arc<dyn DynPrompts>>,
    /// Template for the [`ToolContext`] of every call.
    pub(super) context: ToolContext,
    /// Maximum number of tools on one page of `tools/list`.
    pub(super) page_size: usize,
    /// Key that authenticates the state (`requestState`) of a call. A client stores this state until it repeats the
    /// call with the requested input. `None` for a random key.
    pub(super) state_key: Option<Vec<u8>>,
    /// Maximum time between a result that requests input from the client and the repeated call with this input.
    pub(super) state_ttl: Duration,
    /// Timeout for a client's response to a request of the server, for protocol versions before 2026-07-28.
    pub(super) input_timeout: Duration,
    /// Maximum number of concurrent calls of one connection or HTTP session.
    pub(super) max_calls: usize,
    /// Settings of tasks. `None` if no call becomes a task.
    pub(super) tasks: Option<McpTasks>,
    /// Shuts the server down when cancelled.
    pub(super) shutdown: CancellationToken,
    /// The user's functions that convert between spans and trace contexts.
    pub(super) propagation: Propagation,
}

impl McpServer {
    /// Creates a server that offers the tools of a registry.
    ///
    /// If the registry [defers tools](ToolRegistry::defer_tools), the server offers all of them, without the tools
    /// `search_tools` and `call_tool`. The client decides which definitions its model receives. For the same reason, results
    /// are truncated only if the registry [sets a maximum](ToolRegistry::set_max_output_characters).
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
            state_key: None,
            state_ttl: STATE_TTL,
            input_timeout: INPUT_TIMEOUT,
            max_calls: MAX_CALLS,
            tasks: None,
            shutdown: CancellationToken::new(),
            propagation: Propagation::default(),
        }
    }

    /// Sets the name that the server reports to clients. Defaults to `neuron-mcp`.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.implementation.name = name.into();
        self
    }

    /// Sets the display name that the server reports to clients. Defaults to none.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.implementation.title = Some(title.into());
        self
    }

    /// Sets the version that the server reports to clients. Defaults to the version of this crate.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.implementation.version = version.into();
        self
    }

    /// Sets instructions for the client's model, such as when to use the tools. Defaults to none.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Sets the resources of the server. Replaces resources that were set before. Defaults to none.
    #[must_use]
    pub fn with_resources(mut self, resources: impl McpResources + 'static) -> Self {
        self.resources = Some(Arc::new(resources));
        self
    }

    /// Sets the prompts of the server. Replaces prompts that were set before. Defaults to none.
    #[must_use]
    pub fn with_prompts(mut self, prompts: impl McpPrompts + 'static) -> Self {
        self.prompts = Some(Arc::new(prompts));
        self
    }

    /// Returns a handle that notifies the connected clients of changes and can replace the tools.
    #[must_use]
    pub fn notifier(&self) -> McpNotifier {
        McpNotifier::new(&self.hub)
    }

    /// Sets the template for the [`ToolContext`] of every call, for example to set a working directory, environment
    /// variables and extensions.
    ///
    /// Each call gets a copy of the template, with its own ids, cancellation token, progress reporter and
    /// [`McpPeer`](crate::McpPeer).
    #[must_use]
    pub fn with_tool_context(mut self, context: ToolContext) -> Self {
        self.context = context;
        self
    }

    /// Sets the maximum number of tools on one page of the tool list, at least 1. Defaults to 1000, because many
    /// clients request only the first page.
    ///
    /// Does not apply to resources and prompts, whose page size is determined by [`McpResources`] and [`McpPrompts`].
    #[must_use]
    pub fn with_page_size(mut self, items: usize) -> Self {
        self.page_size = items.max(1);
        self
    }

    /// Sets the key that authenticates the `requestState` of calls, so that clients cannot change it.
    ///
    /// Since protocol version 2026-07-28, a call that requests input ends, and the client repeats the call with its
    /// responses (see [`McpPeer::ask`](crate::McpPeer::ask)). Meanwhile the client stores the state of the call.
    ///
    /// The key must have at least 32 unpredictable bytes. If the key is shorter, the server returns an error when it
    /// starts.
    ///
    /// Defaults to a random key. A repeated call must then reach the process that handled the call before. If several
    /// processes serve the same clients, set the same key in all of them.
    #[must_use]
    pub fn with_state_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.state_key = Some(key.into());
        self
    }

    /// Sets how long the client may take to repeat a call with requested input. A later repetition is refused. Defaults
    /// to one hour.
    ///
    /// Applies to protocol version 2026-07-28 and later, in which a call that requests input ends and is repeated (see
    /// [`McpPeer::ask`](crate::McpPeer::ask)).
    #[must_use]
    pub fn with_state_ttl(mut self, ttl: Duration) -> Self {
        self.state_ttl = ttl;
        self
    }

    /// Sets how long a call waits for the client's response to a request from [`McpPeer::ask`](crate::McpPeer::ask).
    /// Defaults to ten minutes, because a person may have to respond.
    ///
    /// Applies only to protocol versions before 2026-07-28. In later versions no call waits for a response.
    #[must_use]
    pub fn with_input_timeout(mut self, timeout: Duration) -> Self {
        self.input_timeout = timeout;
        self
    }

    /// Sets the maximum number of concurrent calls of one connection or HTTP session, at least 1. Defaults to 1000.
    /// Further calls are refused with a JSON-RPC error.
    ///
    /// Tool calls, and requests that list, read, get or complete resources or prompts, count as calls. Other requests,
    /// such as `tools/list`, do not count.
    ///
    /// Over HTTP, the calls of a session continue when the client disconnects. Without this limit a client could leave
    /// any number of calls running.
    #[must_use]
    pub fn with_max_calls(mut self, calls: usize) -> Self {
        // `Semaphore::new` panics above its maximum number of permits.
        self.max_calls = calls.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Lets long tool calls become tasks, and offers the tasks that the application stores. Defaults to neither.
    #[must_use]
    pub fn with_tasks(mut self, tasks: McpTasks) -> Self {
        self.tasks = Some(tasks);
        self
    }

    /// Sets the token that shuts the server down when it is cancelled. The shutdown also cancels the tokens of running
    /// calls.
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Sets the function that makes the span of an MCP request a child of the client's span. By default the parent is
    /// the current span of the HTTP server. If there is none, the span starts a new trace.
    ///
    /// The function is called for each request that has a [`TraceContext`], before its span is entered.
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

    /// Sets the function that returns the trace context of the current span.
    ///
    /// Tools find the returned trace context in the extensions of their context. Requests to the client are also sent
    /// with it, unless they have their own trace context. By default both use the trace context of the client's
    /// request.
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

/// Omits the environment variables and the state key, which may be secret.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("implementation", &self.implementation)
            .field("tools", &self.hub.tools())
            .finish_non_exhaustive()
    }
}
