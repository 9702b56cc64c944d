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
use tokio::time::Instant;

use self::keyed_mutex::KeyedMutex;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Returns the cached output for a repeated call, without running the tool again.
///
/// The effect that the tool [declares](ToolEffect) determines the cached outputs:
///
/// - [`Pure`](ToolEffect::Pure): The output is cached by arguments. Any call of a tool that is not pure invalidates all
///   of these outputs, because it may have changed the data that they read. Therefore add the cache globally. As
///   middleware of one tool it does not see the calls of other tools.
/// - [`Idempotent`](ToolEffect::Idempotent): The output is cached by [`idempotency_key`](ToolContext::idempotency_key),
///   which all attempts of one call share.
/// - [`AtMostOnce`](ToolEffect::AtMostOnce): Nothing is cached.
///
/// Outputs are cached for a limited time, and only within one run and session, so that no user receives data of another
/// user. Errors are never cached.
///
/// Of several concurrent calls with the same key, one runs and the others wait for its output. If it fails or is
/// dropped, the next call runs. A call that is cancelled while it waits returns [`ToolError::Cancelled`].
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
    in_flight: KeyedMutex<Arc<Key>>,
}

/// Cache entries, oldest first.
#[derive(Default)]
struct State {
    entries: IndexMap<Arc<Key>, (ToolOutput, Instant)>,
    /// Number of calls that may have changed the data of pure tools.
    changes: u64,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    run_id: String,
    session_id: String,
    tool: Identity,
    /// JSON with sorted keys.
    input: String,
    /// Empty for a pure tool.
    idempotency_key: String,
}

/// Identifies a tool by the address of its definition. The name is not enough, because one cache may serve the tools of
/// several registries, and a tool may be replaced.
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
    /// Creates a cache with a lifetime for outputs and space for 1,000 outputs over all runs.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self { keep, max_entries: 1000, state: Mutex::default(), in_flight: KeyedMutex::default() }
    }

    /// Sets the maximum number of outputs.
    #[must_use]
    pub fn with_max_entries(mut self, max_entries: usize) -> Self {
        self.max_entries = max_entries;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached output of a key, and the change counter.
    fn look_up(&self, key: &Key) -> (Option<ToolOutput>, u64) {
        let state = self.state();
        let entry = state.entries.get(key).filter(|(_, since)| since.elapsed() < self.keep);
        (entry.map(|(output, _)| output.clone()), state.changes)
    }

    fn store(&self, key: Arc<Key>, output: &ToolOutput, changes: u64) {
        let mut state = self.state();
        // The output of a pure tool is stale if another call changed something meanwhile.
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

    fn invalidate_reads(&self) {
        let mut state = self.state();
        state.changes += 1;
        state.entries.retain(|key, _| !key.idempotency_key.is_empty());
    }
}

/// Invalidates the outputs of pure tools before and after a call that may change something, even if the call is
/// dropped.
struct InvalidateReads<'a>(&'a ToolCache);

impl<'a> InvalidateReads<'a> {
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
                // Without space for outputs there is no reason to wait for another call.
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
            // Another call may have cached its output while this call waited.
            let (kept, changes) = self.look_up(&key);
            if let Some(output) = kept {
                return Ok(output);
            }
            // An idempotent tool may also change the data of pure tools.
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

fn key(
    call: &ToolCall,
    ctx: &ToolContext,
    definition: &Arc<ToolDefinition>,
    idempotency_key: &str,
) -> Key {
    let mut input: Value = call.input.clone();
    // The order of the keys has no meaning.
    input.sort_all_objects();
    Key {
        run_id: ctx.run_id.clone(),
        session_id: ctx.session_id.clone(),
        tool: Identity(definition.clone()),
        input: input.to_string(),
        idempotency_key: idempotency_key.to_owned(),
    }
}
