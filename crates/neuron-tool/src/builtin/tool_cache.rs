//! [`ToolCache`]: answers a repeated call without running the tool again.

mod turns;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use neuron_types::{
    ToolContext, ToolDefinition, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;
use tokio::time::Instant;

use self::turns::Turns;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Answers a repeated call without running the tool again.
///
/// What is kept depends on what the tool [declares](ToolEffect):
///
/// - [`Pure`](ToolEffect::Pure): the output for the same arguments. Every call of a tool that is not
///   pure forgets them all, because it may have changed what they read. So add the cache globally: as
///   middleware of one tool it sees no other.
/// - [`Idempotent`](ToolEffect::Idempotent): the output for the same
///   [`idempotency_key`](ToolContext::idempotency_key), which further attempts of one call share.
/// - [`AtMostOnce`](ToolEffect::AtMostOnce): nothing.
///
/// Outputs are kept for so long, within one run and session, and errors never: what one user's run
/// has read no other sees.
///
/// Of several such calls at the same time one runs, and the others wait for its output. If it fails
/// or is dropped, the next one runs. A call that is cancelled while it waits ends with
/// [`ToolError::Cancelled`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::ToolCache;
///
/// let mut registry = ToolRegistry::new();
/// registry.add_middleware(ToolCache::new(Duration::from_secs(300)));
/// ```
pub struct ToolCache {
    keep: Duration,
    max_entries: usize,
    state: Mutex<State>,
    turns: Turns<Arc<Key>>,
}

/// The oldest first.
#[derive(Default)]
struct State {
    entries: IndexMap<Arc<Key>, (ToolOutput, Instant)>,
    /// How often something may have changed what pure tools read.
    changes: u64,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    run_id: String,
    session_id: String,
    tool: Identity,
    /// As JSON with sorted keys.
    input: String,
    /// Empty for a pure tool.
    idempotency_key: String,
}

/// A tool, told from another of its name by the address of its definition: one cache may be around
/// the tools of several registries, and a tool may be replaced.
struct Identity(Arc<ToolDefinition>);

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl ToolCache {
    /// Keeps outputs for so long; of all runs together the last 1,000.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self { keep, max_entries: 1000, state: Mutex::default(), turns: Turns::default() }
    }

    /// Keeps so many outputs.
    #[must_use]
    pub fn with_max_entries(mut self, max_entries: usize) -> Self {
        self.max_entries = max_entries;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is kept for a key, and how often something had changed.
    fn look_up(&self, key: &Key) -> (Option<ToolOutput>, u64) {
        let state = self.state();
        let entry = state.entries.get(key).filter(|(_, since)| since.elapsed() < self.keep);
        (entry.map(|(output, _)| output.clone()), state.changes)
    }

    fn keep(&self, key: Arc<Key>, output: &ToolOutput, changes: u64) {
        let mut state = self.state();
        // What a pure tool read before a change must not be found after it.
        let is_outdated = key.idempotency_key.is_empty() && state.changes != changes;
        if output.is_error || is_outdated {
            return;
        }
        state.entries.shift_remove(&key);
        while state.entries.len() >= self.max_entries {
            state.entries.shift_remove_index(0);
        }
        state.entries.insert(key, (output.clone(), Instant::now()));
    }

    fn forget_what_was_read(&self) {
        let mut state = self.state();
        state.changes += 1;
        state.entries.retain(|key, _| !key.idempotency_key.is_empty());
    }
}

/// Forgets before a call that may change something, and after it, also when it is dropped halfway.
struct Changes<'a>(&'a ToolCache);

impl<'a> Changes<'a> {
    fn begin(cache: &'a ToolCache) -> Self {
        cache.forget_what_was_read();
        Self(cache)
    }
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        self.0.forget_what_was_read();
    }
}

impl ToolMiddleware for ToolCache {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let idempotency_key = match next.effect() {
                // There is nothing to wait for.
                _ if self.max_entries == 0 => return next.run(call, ctx).await,
                ToolEffect::Pure => "",
                ToolEffect::Idempotent if !ctx.idempotency_key.is_empty() => &ctx.idempotency_key,
                _ => {
                    let _changes = Changes::begin(self);
                    return next.run(call, ctx).await;
                }
            };
            let key = Arc::new(key(call, ctx, next.shared_definition(), idempotency_key));
            if let (Some(output), _) = self.look_up(&key) {
                return Ok(output);
            }
            let place = self.turns.queue(key.clone());
            let Some(_turn) = ctx.cancellation_token.run_until_cancelled(place.turn()).await else {
                return Err(ToolError::Cancelled);
            };
            // Kept while this call waited.
            let (kept, changes) = self.look_up(&key);
            if let Some(output) = kept {
                return Ok(output);
            }
            let _changes = (!idempotency_key.is_empty()).then(|| Changes::begin(self));
            let output = next.run(call, ctx).await?;
            self.keep(key, &output, changes);
            Ok(output)
        })
    }
}

impl fmt::Debug for ToolCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCache")
            .field("keep", &self.keep)
            .field("max_entries", &self.max_entries)
            .field("len", &self.state().entries.len())
            .finish_non_exhaustive()
    }
}

fn key(
    call: &ToolCall,
    ctx: &ToolContext,
    definition: &Arc<ToolDefinition>,
    idempotency_key: &str,
) -> Key {
    let mut input: Value = call.input.clone();
    input.sort_all_objects();
    Key {
        run_id: ctx.run_id.clone(),
        session_id: ctx.session_id.clone(),
        tool: Identity(definition.clone()),
        input: input.to_string(),
        idempotency_key: idempotency_key.to_owned(),
    }
}
