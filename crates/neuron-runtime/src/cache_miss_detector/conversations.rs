//! The conversations that a detector knows, each with its last model call.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use neuron_types::HookScope;
#[cfg(not(target_family = "wasm"))]
use tokio::time::Instant;
#[cfg(target_family = "wasm")]
use web_time::Instant;

use super::prefix::Prefix;
use super::report::CachedModel;

/// A finished model call, with the facts that the next call needs.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) prefix: Prefix,
    pub(super) model: CachedModel,
    /// Minimum number of tokens that the vendor's cache has since the call.
    pub(super) cached_tokens: usize,
    /// Set if the vendor reported for any call of the conversation how many tokens it read from its cache.
    pub(super) reports_reads: bool,
    pub(super) started: Instant,
    /// Lifetime of the vendor's cache.
    pub(super) lifetime: Duration,
    /// Number of cache breakpoints in the request.
    pub(super) breakpoints: usize,
    /// Set if the conversation was compacted since.
    pub(super) is_compacted: bool,
}

/// Maximum number of conversations without a run.
const MAX_IDLE: usize = 10_000;

/// Maximum size of the JSON of all conversations without a run (64 MiB).
const MAX_IDLE_BYTES: usize = 64 << 20;

/// The conversations that a detector knows.
#[derive(Debug)]
pub(super) struct Conversations {
    running: HashMap<RunKey, Running>,
    /// Conversations between two runs, the oldest first, with agent and session.
    idle: VecDeque<(String, String, Call)>,
    max_idle_bytes: usize,
}

/// Id of a run and name of its agent. Nested agents may have the same run id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RunKey {
    pub(super) run_id: String,
    pub(super) agent: String,
}

/// A conversation of a run.
#[derive(Debug)]
struct Running {
    /// Number of open scopes of the run.
    open: usize,
    /// Id of the session. Empty if there is none.
    session: String,
    last: Option<Call>,
}

impl RunKey {
    pub(super) fn of(scope: &HookScope<'_>) -> Self {
        Self { run_id: scope.run_id.to_owned(), agent: scope.agent.to_owned() }
    }
}

impl Conversations {
    pub(super) fn new() -> Self {
        let (running, idle) = Default::default();
        Self { running, idle, max_idle_bytes: MAX_IDLE_BYTES }
    }

    /// Returns `true` if a conversation without a session waits for a run of this agent.
    pub(super) fn waits_for(&self, agent: &str) -> bool {
        self.idle.iter().any(|(of, session, _)| of == agent && session.is_empty())
    }

    /// Adds a run. It continues the conversation of an earlier run with the same agent and session. Without a session,
    /// it continues the longest conversation of the agent whose messages are the first messages of the run. A continued
    /// conversation has at least the last response too, so a run with the same messages alone is a new conversation.
    pub(super) fn begin(&mut self, key: RunKey, session: &str, messages_json: &[u8]) {
        if let Some(running) = self.running.get_mut(&key) {
            running.open = running.open.saturating_add(1);
            return;
        }
        let candidates = self.idle.iter().enumerate().filter(|(_, (agent, of, call))| {
            (&**agent, &**of) == (&*key.agent, session)
                && (!session.is_empty() || call.prefix.begins(messages_json))
        });
        let found = candidates.max_by_key(|(_, (_, _, call))| match session {
            "" => call.prefix.messages,
            // Of equal ones, the last is the maximum, which was used last.
            _ => 0,
        });
        let position = found.map(|(position, _)| position);
        let last = position.and_then(|position| self.idle.remove(position)).map(|idle| idle.2);
        self.running.insert(key, Running { open: 1, session: session.to_owned(), last });
    }

    /// Removes a run and keeps its conversation for the next run. Then removes the oldest conversations without a run
    /// until few enough are left.
    pub(super) fn end(&mut self, key: &RunKey) {
        let Some(running) = self.running.get_mut(key) else { return };
        running.open = running.open.saturating_sub(1);
        if running.open > 0 {
            return;
        }
        let running = self.running.remove(key);
        if let Some(Running { session, last: Some(last), .. }) = running {
            self.idle.push_back((key.agent.clone(), session, last));
        }
        let mut bytes: usize = self.idle.iter().map(|idle| idle.2.prefix.json().len()).sum();
        while (bytes > self.max_idle_bytes || self.idle.len() > MAX_IDLE)
            && let Some((_, _, oldest)) = self.idle.pop_front()
        {
            bytes = bytes.saturating_sub(oldest.prefix.json().len());
        }
    }

    /// Takes the last call of a run. It is missing while the next call is open.
    pub(super) fn take(&mut self, key: &RunKey) -> Option<Call> {
        self.running.get_mut(key)?.last.take()
    }

    pub(super) fn set(&mut self, key: &RunKey, last: Call) {
        if let Some(running) = self.running.get_mut(key) {
            running.last = Some(last);
        }
    }

    /// Remembers that the conversation of a run was compacted.
    pub(super) fn compacted(&mut self, key: &RunKey) {
        if let Some(Running { last: Some(last), .. }) = self.running.get_mut(key) {
            last.is_compacted = true;
        }
    }

    /// Returns the number of running and of other conversations.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.running.len(), self.idle.len())
    }

    #[cfg(test)]
    pub(super) fn set_max_idle_bytes(&mut self, bytes: usize) {
        self.max_idle_bytes = bytes;
    }

    /// Returns `true` if the last call of a run without an agent name is known.
    #[cfg(test)]
    pub(super) fn has_last(&self, run_id: &str) -> bool {
        let key = RunKey { run_id: run_id.to_owned(), agent: String::new() };
        self.running.get(&key).is_some_and(|running| running.last.is_some())
    }
}
