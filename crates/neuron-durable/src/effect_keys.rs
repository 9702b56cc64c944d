//! Skips a tool call if an earlier call with the same effect key has already run ([`EffectKeys`]).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_types::{
    DurableContext, DurableError, KnownEffect, ResumedApproval, Start, ToolContext, ToolEffect,
    ToolInvocation, ToolOutput, WasmCompatSend,
};
use serde_json::json;

use neuron_tool::panic_output;

use crate::digest::{named_key, recorded_key};
use crate::outcome_unknown;

/// Maximum size in bytes of a stored result. If a result is longer, a short text is stored instead.
const LONGEST_OUTPUT: usize = 4096;

/// Stores the results of a run's tool calls by their [effect keys](neuron_types::Tool::effect_key). Two calls with the
/// same effect, such as one payment, have the same key. Use this type in implementations of
/// [`DurableContext::execute_tools`](neuron_types::DurableContext::execute_tools) to skip calls whose effect has
/// already happened.
///
/// The stored results depend only on the results of the run's calls, so a replay restores them.
#[derive(Debug, Default)]
pub struct EffectKeys(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Result of each effect, by tool name and effect key. `None` if the outcome of the effect is unknown.
    results: BTreeMap<(String, String), Option<ToolOutput>>,
    /// Names of the tools with results from before the current execution. An execution begins when the run starts,
    /// resumes or continues as new.
    earlier: BTreeSet<String>,
}

/// The source of the result of a call in a batch.
enum Source {
    /// The call runs and returns its own result.
    Runs,
    /// An earlier call had the effect. The call does not run and returns this result.
    Known(ToolOutput),
    /// An earlier call of the batch has the same key. This call does not run, and returns the earlier call's result.
    /// The value is the index of the earlier call among the calls that run.
    Same(usize),
}

impl EffectKeys {
    /// Replaces the stored effects with the effects in `start`, the state from which a run starts. Call it when a run
    /// begins, resumes or continues as new.
    pub fn restart(&self, start: &Start) {
        self.replace(match start {
            Start::Snapshot(snapshot) => &snapshot.effects,
            Start::Resume { pending, .. } => &pending.effects,
            // A run that starts in any other way has no earlier effects.
            _ => &[],
        });
    }

    /// Replaces the stored effects with the effects of the pending approval in the extensions of `ctx`. If `ctx` has no
    /// pending approval, all stored effects are removed.
    ///
    /// Call it when an agent inside a tool call resumes after an approval.
    pub fn restart_call(&self, ctx: &ToolContext) {
        let resumed = ctx.extensions.get::<ResumedApproval>();
        self.replace(resumed.map_or(&[], |resumed| &resumed.pending.effects));
    }

    fn replace(&self, effects: &[KnownEffect]) {
        let entry = |effect: &KnownEffect| {
            ((effect.tool.clone(), effect.key.clone()), effect.output.clone())
        };
        *self.lock() = Known {
            results: effects.iter().map(entry).collect(),
            earlier: effects.iter().map(|effect| effect.tool.clone()).collect(),
        };
    }

    /// Returns all effects in their stored form, for
    /// [`DurableContext::known_effects`](neuron_types::DurableContext::known_effects).
    #[must_use]
    pub fn to_stored(&self) -> Vec<KnownEffect> {
        let known = self.lock();
        let stored = known.results.iter().map(|((tool, key), output)| KnownEffect {
            tool: tool.clone(),
            key: key.clone(),
            output: output.clone(),
        });
        stored.collect()
    }

    /// Compares the effect keys of a batch with the keys in the journal. Engines must call it before
    /// [`run`](Self::run).
    ///
    /// Calls that do not run have no journal entries with which a replay could compare them. Their keys are therefore
    /// stored with [`DurableContext::record`]. Only calls of tools with effects from before the current execution are
    /// compared.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if a key differs from the journal. The error names the first changed key.
    /// Errors of [`DurableContext::record`] are passed on.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as [`DurableContext::record`] of `ctx`.
    pub async fn check(
        &self,
        batch: &[ToolInvocation],
        ctx: &impl DurableContext,
    ) -> Result<(), DurableError> {
        // Cloned, so that the lock is not held during the await below.
        let earlier = self.lock().earlier.clone();
        let of_earlier = batch.iter().filter(|invocation| earlier.contains(&invocation.call.name));
        let key = |invocation: &ToolInvocation| {
            Ok((invocation.call.name.clone(), recorded_key(invocation)?))
        };
        let keys: Result<Vec<(String, Option<String>)>, DurableError> =
            of_earlier.map(key).collect();
        let keys = keys?;
        if keys.is_empty() {
            return Ok(());
        }
        let recorded = ctx.record("effect_keys", json!(keys)).await?;
        let recorded: Vec<(String, Option<String>)> =
            serde_json::from_value(recorded).map_err(|error| DurableError::Other(error.into()))?;
        let mut pairs = recorded.iter().zip(&keys);
        let named = |(tool, key): &(String, Option<String>)| named_key(tool, key.as_deref());
        pairs.find(|(before, now)| before != now).map_or(Ok(()), |(before, now)| {
            Err(DurableError::NonDeterminism { expected: named(before), got: named(now) })
        })
    }

    /// Runs the calls of a batch whose effect has not happened yet, and returns the results of all calls. `run` runs
    /// the calls that it receives.
    ///
    /// A call whose effect has already happened returns the result of the call that had the effect. If that result is
    /// long, it returns a short text instead. A call also runs if the call with its key in an earlier batch failed
    /// without an effect.
    ///
    /// The outcome of an earlier call is unknown after a panic, a timeout, a result that was too long for its record,
    /// or the end of the process. A later call with the same key then runs, unless its tool must not run twice
    /// ([`ToolEffect::AtMostOnce`]).
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `run`.
    pub async fn run<F>(
        &self,
        batch: Vec<ToolInvocation>,
        run: impl FnOnce(Vec<ToolInvocation>) -> F + WasmCompatSend,
    ) -> Vec<Result<ToolOutput, DurableError>>
    where
        F: Future<Output = Vec<Result<ToolOutput, DurableError>>> + WasmCompatSend,
    {
        // Without keys there is nothing to compare or store.
        if batch.iter().all(|invocation| invocation.effect_key.is_none()) {
            return run(batch).await;
        }
        let (mut runs, mut sources) = (Vec::new(), Vec::new());
        let mut keys = Vec::new();
        for invocation in batch {
            let key = invocation.effect_key.clone();
            let key = key.map(|key| (invocation.call.name.clone(), key));
            let source = key.as_ref().and_then(|key| self.known(key, invocation.effect, &keys));
            if source.is_none() {
                runs.push(invocation);
                keys.push(key);
            }
            sources.push(source.unwrap_or(Source::Runs));
        }
        let results = if runs.is_empty() { Vec::new() } else { run(runs).await };
        for (key, result) in keys.into_iter().zip(&results) {
            if let Some(key) = key {
                self.note(key, result);
            }
        }
        let same = |number: usize| match results.get(number) {
            Some(Ok(output)) => Ok(output.clone()),
            Some(Err(error)) => Err(error.again()),
            None => Err(missing()),
        };
        let copies: Vec<_> = sources
            .into_iter()
            .map(|source| match source {
                Source::Runs => None,
                Source::Known(output) => Some(Ok(output)),
                Source::Same(number) => Some(same(number)),
            })
            .collect();
        let mut results = results.into_iter();
        // Calls that ran take their results in order, and the other calls use their copies.
        let of =
            |copy: Option<_>| copy.or_else(|| results.next()).unwrap_or_else(|| Err(missing()));
        copies.into_iter().map(of).collect()
    }

    /// Finds an earlier call with the same effect key. Returns `None` if there is none, so that the call must run.
    ///
    /// `before` contains the keys of the earlier calls of the batch. If none of them matches, the stored results are
    /// searched.
    fn known(
        &self,
        key: &(String, String),
        effect: ToolEffect,
        before: &[Option<(String, String)>],
    ) -> Option<Source> {
        if let Some(number) = before.iter().position(|earlier| earlier.as_ref() == Some(key)) {
            return Some(Source::Same(number));
        }
        match self.lock().results.get(key)? {
            Some(output) => Some(Source::Known(output.clone())),
            None => {
                (effect == ToolEffect::AtMostOnce).then(|| Source::Known(outcome_unknown(&key.0)))
            }
        }
    }

    /// Stores the outcome of a call by its key. Stores nothing if the call failed without an effect.
    fn note(&self, key: (String, String), result: &Result<ToolOutput, DurableError>) {
        if let Some(known) = effect_of(&key.0, result) {
            self.lock().results.insert(key, known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the effect that a call of `tool` has had, for engines that store the effects of a run themselves.
///
/// Returns `None` if the call failed without an effect, so that another call with its key may run. `Some(None)` means
/// that the outcome of the call is unknown. Otherwise returns the result for other calls with the same effect key.
#[must_use]
pub fn effect_of(
    tool: &str,
    result: &Result<ToolOutput, DurableError>,
) -> Option<Option<ToolOutput>> {
    match result {
        Ok(output) if !output.is_error => Some(Some(brief(output))),
        Ok(output) if is_uncertain(tool, output) => Some(None),
        Err(DurableError::Tool(error)) if error.is_uncertain() => Some(None),
        Ok(_) | Err(DurableError::Tool(_)) => None,
        // The engine failed, and the tool may have run before.
        Err(_) => Some(None),
    }
}

/// Returns `true` if an error result does not show whether the call had its effect. These results report an unknown
/// outcome or a panic.
fn is_uncertain(tool: &str, output: &ToolOutput) -> bool {
    [outcome_unknown(tool), panic_output(tool)].iter().any(|known| known.content == output.content)
}

/// Returns a result in the form that is stored for later calls. A result of more than [`LONGEST_OUTPUT`] bytes is
/// replaced by a short text. The limit is needed because each new execution copies all stored results into its state.
fn brief(output: &ToolOutput) -> ToolOutput {
    let bytes = serde_json::to_vec(output).map_or(usize::MAX, |json| json.len());
    match bytes <= LONGEST_OUTPUT {
        true => output.clone(),
        false => ToolOutput::text(format!(
            "An earlier call had this effect, and succeeded. This call did not run. The result of {bytes} bytes is that \
             of the earlier call."
        )),
    }
}

fn missing() -> DurableError {
    DurableError::ActivityFailed("a tool call returned no result".into())
}

#[cfg(test)]
mod tests;
