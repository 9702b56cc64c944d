//! Calls with one effect, because their tool gives them the same key ([`EffectKeys`]).

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

/// The most bytes of a result that later calls get whole.
const LONGEST_OUTPUT: usize = 4096;

/// The effects of a run whose tools give them keys with [`Tool::effect_key`](neuron_types::Tool::effect_key). For
/// implementations of [`DurableContext::execute_tools`](neuron_types::DurableContext::execute_tools).
///
/// It follows from the results of the run's calls, so that a replay builds it again.
#[derive(Debug, Default)]
pub struct EffectKeys(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The result of each effect, by tool and key. `None` if nobody knows it.
    results: BTreeMap<(String, String), Option<ToolOutput>>,
    /// The tools with effects of an earlier execution.
    earlier: BTreeSet<String>,
}

/// The source of a call's result.
enum Source {
    /// The call runs.
    Runs,
    /// An earlier call has had the effect.
    Known(ToolOutput),
    /// The result of the running call with this index.
    Same(usize),
}

impl EffectKeys {
    /// Drops all effects, and takes over the effects in the state of an earlier execution.
    pub fn restart(&self, start: &Start) {
        self.replace(match start {
            Start::Snapshot(snapshot) => &snapshot.effects,
            Start::Resume { pending, .. } => &pending.effects,
            _ => &[],
        });
    }

    /// Forgets all, and takes over the effects of an agent inside a call that goes on after an approval.
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

    /// Returns the effects, for [`DurableContext::known_effects`](neuron_types::DurableContext::known_effects).
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

    /// Compares the keys of a batch with the journal, for the tools with effects of an earlier execution. Engines call it
    /// before [`run`](Self::run). A call whose effect is known leaves no step, so the journal has its key in a
    /// [value](DurableContext::record).
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] that names a key that changed. The errors of [`DurableContext::record`].
    ///
    /// # Cancel safety
    ///
    /// That of [`DurableContext::record`].
    pub async fn check(
        &self,
        batch: &[ToolInvocation],
        ctx: &impl DurableContext,
    ) -> Result<(), DurableError> {
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

    /// Runs the calls of a batch whose effect is new, with `run`. The others have the results of the calls that had the
    /// effect, or a short text in the place of a long result. A call whose earlier result is an error runs.
    ///
    /// If nobody knows what came of the earlier call, a call that must not run twice does not run. This holds after a
    /// panic, a time limit, a result that was too long for its record, and a process that ended.
    ///
    /// # Cancel safety
    ///
    /// That of `run`.
    pub async fn run<F>(
        &self,
        batch: Vec<ToolInvocation>,
        run: impl FnOnce(Vec<ToolInvocation>) -> F + WasmCompatSend,
    ) -> Vec<Result<ToolOutput, DurableError>>
    where
        F: Future<Output = Vec<Result<ToolOutput, DurableError>>> + WasmCompatSend,
    {
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
        let of =
            |copy: Option<_>| copy.or_else(|| results.next()).unwrap_or_else(|| Err(missing()));
        copies.into_iter().map(of).collect()
    }

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

    fn note(&self, key: (String, String), result: &Result<ToolOutput, DurableError>) {
        let known = match result {
            Ok(output) if !output.is_error => Some(brief(output)),
            Ok(output) if is_uncertain(&key.0, output) => None,
            Err(DurableError::Tool(error)) if error.is_uncertain() => None,
            _ => return,
        };
        self.lock().results.insert(key, known);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` for the error results of calls that may have had their effect.
fn is_uncertain(tool: &str, output: &ToolOutput) -> bool {
    [outcome_unknown(tool), panic_output(tool)].iter().any(|known| known.content == output.content)
}

/// The result for later calls. A long one would be in the state of each new execution.
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
    DurableError::ActivityFailed("a call gave nothing".into())
}

#[cfg(test)]
mod tests;
