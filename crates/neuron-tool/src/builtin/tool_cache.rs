//! [`ToolCache`], which returns cached outputs for repeated calls.

mod keyed_mutex;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use neuron_types::{
    ToolContext, ToolDefinition, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use self::keyed_mutex::KeyedMutex;
use super::timer::Instant;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Returns the cached output for a repeated call, without running the tool again.
///
/// The [effect](ToolEffect) that a tool declares determines how its outputs are cached:
///
/// - [`Pure`](ToolEffect::Pure): An output is cached by the arguments of the call. Every call of a tool that is not
///   pure removes the cached outputs of all pure tools, because it may change the data that pure tools read. Therefore
///   add the cache globally. A cache for one tool does not see the calls of other tools.
/// - [`Idempotent`](ToolEffect::Idempotent): An output is cached by
///   [`idempotency_key`](ToolContext::idempotency_key) and arguments. All attempts of one call have the same key.
/// - [`AtMostOnce`](ToolEffect::AtMostOnce): Outputs are not cached.
///
/// A cached output is used for a limited time and only within the same run and session. So a user never receives the
/// data of another user. Errors are never cached.
///
/// If several equal calls are made concurrently, one call runs and the other calls wait for its output. If the running
/// call fails or is dropped, one of the waiting calls runs. A waiting call that is cancelled returns
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
    /// Time for which a cached output is used.
    keep: Duration,
    /// Maximum number of cached outputs.
    max_entries: usize,
    state: Mutex<State>,
    /// Locks the key of a running call, so that equal calls wait.
    in_flight: KeyedMutex<Arc<Key>>,
}

/// The cached outputs, and a counter that detects outdated outputs.
#[derive(Default)]
struct State {
    /// The cached outputs and the times at which they were cached, oldest first.
    entries: IndexMap<Arc<Key>, (ToolOutput, Instant)>,
    /// Counts the changes of data that pure tools may read. Each call that may change data increments the counter at
    /// its start and at its end.
    changes: u64,
}

/// The key of a cached output.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    run_id: String,
    session_id: String,
    tool: Identity,
    /// The arguments as JSON with sorted object keys.
    input: String,
    /// Idempotency key of the call. Empty for a pure tool.
    idempotency_key: String,
}

/// Identifies a tool by the address of its definition.
///
/// The name is not enough, because one cache may serve several registries, and a tool may be replaced.
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
    /// Creates a cache whose outputs are valid for the duration `keep`. By default the cache contains at most 1,000
    /// outputs, counted over all runs.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self { keep, max_entries: 1000, state: Mutex::default(), in_flight: KeyedMutex::default() }
    }

    /// Sets the maximum number of cached outputs, counted over all runs. The oldest outputs are removed first. Zero
    /// turns the cache off. Default: 1,000.
    #[must_use]
    pub fn with_max_entries(mut self, max_entries: usize) -> Self {
        self.max_entries = max_entries;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the valid cached output of a key, or `None`. The number is the value of [`State::changes`].
    fn look_up(&self, key: &Key) -> (Option<ToolOutput>, u64) {
        let state = self.state();
        let entry = state.entries.get(key).filter(|(_, since)| since.elapsed() < self.keep);
        (entry.map(|(output, _)| output.clone()), state.changes)
    }

    /// Caches an output, unless it is an error or outdated. `changes` is the value of [`State::changes`] before the
    /// call. If this counter has changed during the call, the output of a pure tool is outdated.
    fn store(&self, key: Arc<Key>, output: &ToolOutput, changes: u64) {
        let mut state = self.state();
        // The output of a pure tool is stale if another call may have changed data since the call started.
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

    /// Removes all outputs of pure tools. Also increments [`State::changes`], so that the outputs of running pure tools
    /// are not cached.
    fn invalidate_reads(&self) {
        let mut state = self.state();
        state.changes += 1;
        state.entries.retain(|key, _| !key.idempotency_key.is_empty());
    }
}

/// A guard that removes the cached outputs of pure tools when it is created and when it is dropped. It is held during a
/// call that may change data. The outputs are removed even if the call is cancelled.
struct InvalidateReads<'a>(&'a ToolCache);

impl<'a> InvalidateReads<'a> {
    /// Removes the outputs before the call, and returns the guard that removes them again after the call.
    fn begin(cache: &'a ToolCache) -> Self {
        cache.invalidate_reads();
        Self(cache)
    }
}

impl Drop for InvalidateReads<'_> {
    fn drop(&mut self) {
        self.0.invalidate_reads();
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
                // The cache is off, so there is no reason to wait for an equal call.
                _ if self.max_entries == 0 => return next.run(call, ctx).await,
                ToolEffect::Pure => "",
                ToolEffect::Idempotent if !ctx.idempotency_key.is_empty() => &ctx.idempotency_key,
                _ => {
                    let _invalidate = InvalidateReads::begin(self);
                    return next.run(call, ctx).await;
                }
            };
            let key = Arc::new(key(call, ctx, next.shared_definition(), idempotency_key));
            if let (Some(output), _) = self.look_up(&key) {
                return Ok(output);
            }
            let ticket = self.in_flight.queue(key.clone());
            let Some(_guard) = ctx.cancellation_token.run_until_cancelled(ticket.lock()).await
            else {
                return Err(ToolError::Cancelled);
            };
            // An equal call may have cached its output while this call waited.
            let (kept, changes) = self.look_up(&key);
            if let Some(output) = kept {
                return Ok(output);
            }
            // An idempotent tool may also change data that pure tools read.
            let _invalidate = (!idempotency_key.is_empty()).then(|| InvalidateReads::begin(self));
            let output = next.run(call, ctx).await?;
            self.store(key, &output, changes);
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

/// Creates the cache key of a call.
fn key(
    call: &ToolCall,
    ctx: &ToolContext,
    definition: &Arc<ToolDefinition>,
    idempotency_key: &str,
) -> Key {
    let mut input: Value = call.input.clone();
    // Sort the object keys, because their order has no meaning and may differ between equal calls.
    input.sort_all_objects();
    Key {
        run_id: ctx.run_id.clone(),
        session_id: ctx.session_id.clone(),
        tool: Identity(definition.clone()),
        input: input.to_string(),
        idempotency_key: idempotency_key.to_owned(),
    }
}
