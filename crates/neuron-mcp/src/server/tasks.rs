//! [`McpTasks`], by which a server responds to a tool call with a task instead of a result (extension
//! `io.modelcontextprotocol/tasks`).
//!
//! The client then requests the state of the task until the task has ended. The tasks of running tools are kept in
//! memory. The tasks of a [`TaskSource`] are stored by the application.

mod approval;
mod kept;
mod run;
mod source;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::ErrorData;
use tokio::time::Instant;

pub(crate) use self::kept::Kept;
pub(crate) use self::run::ToolRun;
pub(crate) use self::source::DynTaskSource;
pub use self::source::{McpTask, McpTaskState, TaskSource};
use super::serving::random;
use crate::wire;

/// Default for [`McpTasks::with_ttl`].
const TTL: Duration = Duration::from_secs(60 * 60);
/// Default for [`McpTasks::with_poll_interval`].
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Default for [`McpTasks::with_max_tasks`].
const MAX_TASKS: usize = 1000;

/// A rule that returns the grace time of a tool. `None` if the calls of the tool do not become tasks.
type Rule = Arc<dyn Fn(&str) -> Option<Duration> + Send + Sync>;

/// Settings by which a server responds to long tool calls with tasks. Pass them to
/// [`McpServer::with_tasks`](crate::McpServer::with_tasks).
///
/// A client that receives a task requests its state until the task has ended, so no connection has to stay open. A call
/// becomes a task only if the client supports tasks, which requires protocol version 2026-07-28. All other clients
/// receive the result as before.
///
/// The server keeps a task in memory, and therefore loses it at the end of the process. Over a pair of streams, a task
/// ends with its connection. The ids of the tasks are random. If the server authenticates its callers, only the caller
/// of the tool can access the task. Tasks that survive a restart come from a [`TaskSource`].
///
/// While a tool runs as a task, its progress messages become the status message of the task. Log messages are dropped.
/// If the tool [asks](crate::McpPeer::ask) the client, the task requires input, and the tool runs again with the
/// responses. If the tool ends with [`ToolError::ApprovalRequired`](neuron_types::ToolError::ApprovalRequired), the task
/// requires the approval of the user, and the tool is called again with the
/// [decisions](neuron_types::ResumedApproval).
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use neuron_mcp::{McpServer, McpTasks};
/// # use neuron_tool::ToolRegistry;
///
/// # let registry = ToolRegistry::new();
/// // A call of `research` becomes a task if it takes longer than five seconds.
/// let tasks = McpTasks::new()
///     .with_rule(|tool| (tool == "research").then_some(Duration::from_secs(5)))
///     .with_ttl(Duration::from_secs(24 * 60 * 60));
/// let server = McpServer::new(registry).with_tasks(tasks);
/// ```
#[derive(Clone)]
#[must_use]
pub struct McpTasks {
    rule: Rule,
    ttl: Duration,
    poll_interval: Duration,
    max_tasks: usize,
    source: Option<Arc<dyn DynTaskSource>>,
    /// The tasks in memory, by id. Clones share them.
    kept: Arc<Mutex<HashMap<String, Arc<Kept>>>>,
}

impl McpTasks {
    /// Creates settings with which no call becomes a task. Use [`with_rule`](Self::with_rule) or
    /// [`with_source`](Self::with_source).
    pub fn new() -> Self {
        Self {
            rule: Arc::new(|_| None),
            ttl: TTL,
            poll_interval: POLL_INTERVAL,
            max_tasks: MAX_TASKS,
            source: None,
            kept: Arc::default(),
        }
    }

    /// Sets the rule that decides which calls become tasks. The rule receives the name of the tool, and returns the
    /// time after which a running call becomes a task. With [`Duration::ZERO`], each call becomes a task at once. With
    /// `None`, the calls of the tool never become tasks, which is the default for all tools.
    pub fn with_rule(
        mut self,
        rule: impl Fn(&str) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.rule = Arc::new(rule);
        self
    }

    /// Sets how long a task may run, and how long its result is kept after its end. A task that runs longer fails. With
    /// [`Duration::MAX`] there is no limit. Defaults to one hour.
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the time that clients should wait between two requests for the state of a task. Defaults to one second.
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the maximum number of tasks in memory of each caller. Defaults to 1000. If there are more, the result of the
    /// caller that expires first is removed. If all of its tasks are running, further calls of the caller do not become
    /// tasks. If the server does not authenticate, all clients are one caller.
    pub fn with_max_tasks(mut self, tasks: usize) -> Self {
        self.max_tasks = tasks;
        self
    }

    /// Sets the source of tasks that the application stores. Defaults to none.
    pub fn with_source(mut self, source: impl TaskSource + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the time after which a call of the tool becomes a task. Returns `None` if it never does.
    pub(crate) fn grace(&self, tool: &str) -> Option<Duration> {
        (self.rule)(tool)
    }

    /// Returns the suggested time between two requests for the state of a task, in milliseconds.
    fn poll_interval_ms(&self) -> u64 {
        wire::task::poll_interval_ms(self.poll_interval)
    }

    /// Returns the source of stored tasks. Returns an error if there is none.
    pub(crate) fn source(&self) -> Result<&dyn DynTaskSource, ErrorData> {
        self.source.as_deref().ok_or_else(|| {
            let text = "the server has no source of tasks: set `McpTasks::with_source`";
            ErrorData::internal_error(text, None)
        })
    }

    /// Returns `true` if there is a source of stored tasks.
    pub(crate) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// Keeps a task. Returns its new id, or `None` if too many tasks of its caller are running.
    fn keep(&self, task: &Arc<Kept>) -> Option<String> {
        let id = URL_SAFE_NO_PAD.encode(random::<24>().ok()?);
        let mut kept = self.lock();
        let own = || kept.iter().filter(|(_, other)| other.belongs_to(task.principal()));
        if own().count() >= self.max_tasks {
            let ended = own().filter_map(|(id, task)| Some((task.removal_order()?, id.clone())));
            let (_, first) = ended.min()?;
            kept.remove(&first);
        }
        kept.insert(id.clone(), Arc::clone(task));
        Some(id)
    }

    /// Returns the task in memory with this id. Returns `None` if there is none, or if it belongs to another caller.
    pub(crate) fn kept(&self, id: &str, principal: Option<&str>) -> Option<Arc<Kept>> {
        self.lock().get(id).filter(|task| task.belongs_to(principal)).map(Arc::clone)
    }

    /// Locks the tasks in memory, and removes expired results.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        kept.retain(|_, task| !task.has_expired(now));
        kept
    }
}

impl Default for McpTasks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for McpTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTasks")
            .field("ttl", &self.ttl)
            .field("poll_interval", &self.poll_interval)
            .field("max_tasks", &self.max_tasks)
            .field("has_source", &self.has_source())
            .finish_non_exhaustive()
    }
}

/// Returns the error for a task that does not exist, or that belongs to another caller.
pub(crate) fn unknown_task() -> ErrorData {
    let text = "unknown task: it has expired, or it belongs to another caller";
    ErrorData::invalid_params(text, None)
}
