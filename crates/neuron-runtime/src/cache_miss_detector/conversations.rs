//! The conversations that a detector knows, each with its last model call.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use neuron_types::HookScope;

use super::clock::Instant;
use super::prefix::Prefix;
use super::report::CachedModel;

/// A finished model call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) prefix: Prefix,
    pub(super) facts: Facts,
}

/// The facts about a finished model call that the next call needs.
#[derive(Debug)]
pub(super) struct Facts {
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
}

/// Maximum number of conversations without a run.
const MAX_IDLE: usize = 10_000;

/// The conversations that a detector knows.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    running: HashMap<RunKey, Running>,
    /// Conversations between two runs, the oldest first.
    idle: VecDeque<Idle>,
    /// Number of bytes of all prefixes in `idle`.
    idle_bytes: usize,
}

/// Id of a run and name of its agent. Nested agents may have the same run id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RunKey {
    run_id: String,
    agent: String,
}

/// A conversation of a run.
#[derive(Debug, Default)]
struct Running {
    /// Number of open scopes of the run.
    open: usize,
    /// Id of the session. Empty if there is none.
    session: String,
    last: Option<Call>,
    is_compacted: bool,
}

#[derive(Debug)]
struct Idle {
    agent: String,
    session: String,
    last: Call,
    is_compacted: bool,
}

impl RunKey {
    pub(super) fn of(scope: &HookScope<'_>) -> Self {
        Self { run_id: scope.run_id.to_owned(), agent: scope.agent.to_owned() }
    }
}

impl Idle {
    fn is_of(&self, agent: &str, session: &str) -> bool {
        self.agent == agent && self.session == session
    }

    fn bytes(&self) -> usize {
        self.last.prefix.json().len()
    }
}

impl Conversations {
    /// Returns `true` if a conversation without a session waits for a run of this agent.
    pub(super) fn waits_for(&self, agent: &str) -> bool {
        self.idle.iter().any(|idle| idle.is_of(agent, ""))
    }

    /// Adds a run. It continues the conversation of an earlier run with the same agent and session. Without a session,
    /// it continues the longest conversation of the agent whose messages are the first messages of the run. A continued
    /// conversation has at least the last response too, so a run with the same messages alone is a new conversation.
    pub(super) fn begin(&mut self, key: RunKey, session: &str, messages_json: &[u8]) {
        if let Some(running) = self.running.get_mut(&key) {
            running.open = running.open.saturating_add(1);
            return;
        }
        let mut candidates =
            self.idle.iter().enumerate().filter(|(_, idle)| idle.is_of(&key.agent, session));
        let found = match session.is_empty() {
            true => candidates
                .filter(|(_, idle)| idle.last.prefix.begins(messages_json))
                .max_by_key(|(_, idle)| idle.last.prefix.messages()),
            false => candidates.next_back(),
        };
        let position = found.map(|(position, _)| position);
        let idle = position.and_then(|position| self.idle.remove(position));
        self.idle_bytes = self.idle_bytes.saturating_sub(idle.as_ref().map_or(0, Idle::bytes));
        let (last, is_compacted) =
            idle.map_or((None, false), |idle| (Some(idle.last), idle.is_compacted));
        let running = Running { open: 1, session: session.to_owned(), last, is_compacted };
        self.running.insert(key, running);
    }

    /// Removes a run and keeps its conversation for the next run. Then removes the oldest conversations without a run
    /// until at most `max_bytes` are left.
    pub(super) fn end(&mut self, key: &RunKey, max_bytes: usize) {
        let Some(running) = self.running.get_mut(key) else { return };
        running.open = running.open.saturating_sub(1);
        if running.open > 0 {
            return;
        }
        let running = self.running.remove(key);
        if let Some(Running { session, last: Some(last), is_compacted, .. }) = running {
            let idle = Idle { agent: key.agent.clone(), session, last, is_compacted };
            self.idle_bytes = self.idle_bytes.saturating_add(idle.bytes());
            self.idle.push_back(idle);
        }
        while (self.idle_bytes > max_bytes || self.idle.len() > MAX_IDLE)
            && let Some(oldest) = self.idle.pop_front()
        {
            self.idle_bytes = self.idle_bytes.saturating_sub(oldest.bytes());
        }
    }

    /// Takes the last call of a run, and the fact whether the conversation was compacted since. The call is missing
    /// while the next call is open.
    pub(super) fn take(&mut self, key: &RunKey) -> (Option<Call>, bool) {
        match self.running.get_mut(key) {
            Some(running) => (running.last.take(), running.is_compacted),
            None => (None, false),
        }
    }

    /// Sets the last call of a run. `is_compacted` is set if the conversation was compacted since.
    pub(super) fn set(&mut self, key: &RunKey, last: Call, is_compacted: bool) {
        if let Some(running) = self.running.get_mut(key) {
            running.last = Some(last);
            running.is_compacted = is_compacted;
        }
    }

    /// Remembers that the conversation of a run was compacted.
    pub(super) fn compacted(&mut self, key: &RunKey) {
        if let Some(running) = self.running.get_mut(key) {
            running.is_compacted = true;
        }
    }

    /// Returns the number of running and of other conversations.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.running.len(), self.idle.len())
    }

    /// Returns `true` if the last call of a run without an agent name is known.
    #[cfg(test)]
    pub(super) fn has_last(&self, run_id: &str) -> bool {
        let key = RunKey { run_id: run_id.to_owned(), agent: String::new() };
        self.running.get(&key).is_some_and(|running| running.last.is_some())
    }
}
