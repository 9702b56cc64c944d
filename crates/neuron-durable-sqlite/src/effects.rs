//! Carries out each effect of an outermost run once, also by agents inside its tool calls ([`Effects`]).
//!
//! A call with an effect key claims the effect before it runs. The claim is a row of the outermost run ([`EffectRow`]).
//! A call whose effect another call has had gets that call's result, which becomes the record of its own step. A replay
//! therefore needs no claim for a call that has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use neuron_durable::{effect_of, outcome_unknown};
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Connection;
use neuron_types::{
    DurableError, KnownEffect, Provider, ToolEffect, ToolError, ToolInvocation, ToolOutput,
    stored_json,
};
use tokio::sync::Notify;

use crate::effect_row::{EffectRow, EffectState, is_inside};
use crate::journal::Journal;
use crate::texts::to_json;
use crate::{JournalError, SqliteDurableContext};

/// The effects of an outermost run, as the contexts of the run and of the agents inside it share them.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Notified when a call that carried out an effect has ended or stopped.
    ended: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Calls that stopped before their end, so that they will not end in this process.
    stopped: BTreeSet<String>,
    /// The effects that calls have had or may have had, by tool and key.
    known: BTreeMap<(String, String), Option<ToolOutput>>,
}

/// A call that wants to carry out an effect.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    tool: String,
    key: String,
    /// Names the call, as [`EffectRow::owner`].
    owner: String,
    /// Set if the call may carry out the effect a second time.
    repeats: bool,
    /// Set if an earlier attempt of the call has begun.
    has_begun: bool,
    /// A call that carried out the effect and stopped before its end. Its outcome is unknown.
    stopped: Option<String>,
}

/// The answer to a claim.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The call carries out the effect.
    Granted,
    /// Another call has had the effect, or may have had it. The call does not run and has this result.
    Known(ToolOutput),
    /// An earlier attempt of the call, or a call that stopped before its end, may have had the effect.
    Unfinished,
    /// The call `owner` carries out the effect now.
    Busy { owner: String },
}

impl Wanted {
    /// Returns the effect that a call of the step `step` wants to carry out. Returns `None` if the call has no effect key.
    /// `effect` is the effect that was recorded for the step, and `has_begun` is set if an earlier attempt has begun.
    pub(crate) fn of(
        invocation: &ToolInvocation,
        (journal, step): (&Journal, &str),
        effect: ToolEffect,
        has_begun: bool,
    ) -> Option<Self> {
        Some(Self {
            tool: invocation.call.name.clone(),
            key: invocation.effect_key.clone()?,
            owner: owner(journal, step),
            repeats: effect.may_repeat(),
            has_begun,
            stopped: None,
        })
    }

    /// Claims the effect in a transaction. `run` is the key of the outermost run, and `id` the id of the run of the call.
    pub(crate) fn claim(
        &self,
        connection: &Connection,
        (run, id): (i64, &str),
    ) -> Result<Claim, Abort<JournalError>> {
        let found = EffectRow::find(connection, (run, id), (&self.tool, &self.key))?;
        let is_unfinished = self.has_begun && !self.repeats;
        let claim = match found {
            // A call begins in the transaction of its claim. If the claim is missing, the call may have run.
            None if is_unfinished => Claim::Unfinished,
            Some(EffectRow {
                owner, state: EffectState::Running | EffectState::Failed, ..
            }) if owner == self.owner && is_unfinished => Claim::Unfinished,
            Some(EffectRow { owner, state: EffectState::Running, .. })
                if owner != self.owner && self.stopped.as_ref() != Some(&owner) =>
            {
                Claim::Busy { owner }
            }
            Some(EffectRow { owner, state: EffectState::Running, .. })
                if owner != self.owner && !self.repeats =>
            {
                Claim::Unfinished
            }
            Some(EffectRow { state: EffectState::Done(output), .. }) => {
                let output = stored_json::read(output.as_bytes()).map_err(|error| {
                    let reason = format!("the result of its effect {:?}: {error}", self.key);
                    JournalError::corrupt(id, reason)
                })?;
                Claim::Known(output)
            }
            Some(EffectRow { state: EffectState::Unknown, .. }) if !self.repeats => {
                Claim::Known(outcome_unknown(&self.tool))
            }
            _ => {
                self.row(EffectState::Running).store(connection, run)?;
                Claim::Granted
            }
        };
        Ok(claim)
    }

    /// Returns the row of the effect with the result of the call.
    pub(crate) fn ended(
        &self,
        result: &Result<ToolOutput, DurableError>,
    ) -> Result<EffectRow, DurableError> {
        Ok(self.row(match self.known(result) {
            None => EffectState::Failed,
            Some(KnownEffect { output: None, .. }) => EffectState::Unknown,
            Some(KnownEffect { output: Some(output), .. }) => {
                EffectState::Done(to_json("the result of an effect", &output)?)
            }
        }))
    }

    fn known(&self, result: &Result<ToolOutput, DurableError>) -> Option<KnownEffect> {
        let (tool, key) = (self.tool.clone(), self.key.clone());
        effect_of(&tool, result).map(|output| KnownEffect { tool, key, output })
    }

    fn row(&self, state: EffectState) -> EffectRow {
        let (tool, key) = (self.tool.clone(), self.key.clone());
        EffectRow { tool, key, owner: self.owner.clone(), state }
    }
}

/// Returns the name of a call in [`EffectRow::owner`]. It begins with the names of the calls around it.
pub(crate) fn owner(journal: &Journal, step: &str) -> String {
    format!("{}/{step}", journal.place().id)
}

/// A call that may carry out an effect. If it is dropped before [`ended`](Self::ended), the outcome is unknown to the
/// calls that wait for it.
#[derive(Debug)]
pub(crate) struct Carrier {
    effects: Arc<Effects>,
    pub(crate) wanted: Wanted,
    progress: Progress,
}

/// The progress of a call that may carry out an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Asks,
    Runs,
    Ended,
}

impl Carrier {
    pub(crate) fn new(effects: &Arc<Effects>, wanted: Wanted) -> Self {
        effects.state().stopped.remove(&wanted.owner);
        Self { effects: effects.clone(), wanted, progress: Progress::Asks }
    }

    /// Records that the effect was granted to the call.
    pub(crate) fn granted(&mut self) {
        self.progress = Progress::Runs;
    }

    /// Wakes the calls that wait for the effect. Its row is stored.
    pub(crate) fn ended(mut self, result: &Result<ToolOutput, DurableError>) {
        self.progress = Progress::Ended;
        if let Some(effect) = self.wanted.known(result) {
            self.effects.state().add(effect);
        }
        self.effects.ended.notify_waiters();
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if self.progress != Progress::Ended {
            self.effects.stop(self.wanted.owner.clone());
        }
    }
}

/// A call of an agent. When it is dropped, the calls inside it have ended or stopped.
pub(crate) struct Inside {
    effects: Arc<Effects>,
    owner: String,
}

impl Inside {
    pub(crate) fn new(effects: &Arc<Effects>, owner: String) -> Self {
        Self { effects: effects.clone(), owner }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.effects.stop(std::mem::take(&mut self.owner));
    }
}

/// The end of a claim.
pub(crate) enum Claimed {
    /// The call runs.
    Runs(Carrier),
    /// The call does not run and has this result. An earlier attempt of the call may have carried out the effect, if
    /// there is a carrier.
    Ends(Result<ToolOutput, DurableError>, Option<Carrier>),
}

impl Effects {
    /// Returns the effects that calls have had or may have had. `own` are those of the outermost agent itself.
    pub(crate) fn known_with(&self, own: Vec<KnownEffect>) -> Vec<KnownEffect> {
        let entry = |effect: KnownEffect| ((effect.tool, effect.key), effect.output);
        let mut all: BTreeMap<_, _> = own.into_iter().map(entry).collect();
        all.extend(self.state().known.clone());
        let effect = |((tool, key), output)| KnownEffect { tool, key, output };
        all.into_iter().map(effect).collect()
    }

    /// Records effects whose outcome has become unknown, and wakes the calls that wait for them.
    pub(crate) fn end_unknown(&self, ended: Vec<EffectRow>) {
        if ended.is_empty() {
            return;
        }
        for EffectRow { tool, key, .. } in ended {
            self.state().add(KnownEffect { tool, key, output: None });
        }
        self.ended.notify_waiters();
    }

    /// Records that a call and the calls inside it do not end in this process any more.
    fn stop(&self, owner: String) {
        self.state().stopped.insert(owner);
        self.ended.notify_waiters();
    }

    /// Returns `true` if this call or a call around it stopped before its end.
    fn has_stopped(&self, owner: &str) -> bool {
        let state = self.state();
        state.stopped.iter().any(|stopped| owner == stopped || is_inside(owner, stopped))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, effect: KnownEffect) {
        self.known.insert((effect.tool, effect.key), effect.output);
    }
}

impl<P: Provider> SqliteDurableContext<P> {
    /// Begins with the effects in `stored`, which are those of the run, and in `carried`, which came with its start.
    /// Stores those of `carried` that the run does not have.
    pub(crate) async fn restart_effects(
        &self,
        mut stored: Vec<EffectRow>,
        carried: Vec<KnownEffect>,
    ) -> Result<(), DurableError> {
        let mut missing = Vec::new();
        for KnownEffect { tool, key, output } in carried {
            if stored.iter().any(|row| (&row.tool, &row.key) == (&tool, &key)) {
                continue;
            }
            let state = match output {
                Some(output) => EffectState::Done(to_json("the result of an effect", &output)?),
                None => EffectState::Unknown,
            };
            missing.push(EffectRow { tool, key, owner: String::new(), state });
        }
        if !missing.is_empty() {
            stored.extend(missing.iter().cloned());
            let write = self.journal().write(move |transaction, place| {
                missing.iter().try_for_each(|row| row.store(transaction, place.outermost()))
            });
            write.await?;
        }
        let mut state = self.shared_effects().state();
        *state = State::default();
        for EffectRow { tool, key, state: effect, .. } in stored {
            let output = match effect {
                EffectState::Done(output) => stored_json::read(output.as_bytes()).ok(),
                EffectState::Unknown => None,
                EffectState::Running | EffectState::Failed => continue,
            };
            state.add(KnownEffect { tool, key, output });
        }
        Ok(())
    }

    /// Claims an effect before its call runs. If another call carries out the effect, waits until it has ended.
    pub(crate) async fn claim(
        &self,
        mut carrier: Carrier,
        invocation: &ToolInvocation,
    ) -> Result<Claimed, DurableError> {
        let effects = self.shared_effects();
        if carrier.progress == Progress::Runs {
            return Ok(Claimed::Runs(carrier));
        }
        loop {
            let mut ended = pin!(effects.ended.notified());
            ended.as_mut().enable();
            let asked = carrier.wanted.clone();
            let claim = self
                .journal()
                .write(move |transaction, place| {
                    asked.claim(transaction, (place.outermost(), &place.id))
                })
                .await?;
            let busy = match claim {
                Claim::Granted => {
                    if !carrier.wanted.repeats {
                        // Without the claim, a call that must not run twice would run again.
                        self.journal()
                            .database()
                            .sync_witness()
                            .await
                            .map_err(JournalError::from)?;
                    }
                    return Ok(Claimed::Runs(carrier));
                }
                Claim::Known(output) => {
                    carrier.progress = Progress::Ended;
                    return Ok(Claimed::Ends(Ok(output), None));
                }
                Claim::Unfinished => {
                    let output = self.unknown_outcome().of_call(&carrier.wanted.tool)?;
                    return Ok(Claimed::Ends(Ok(output), Some(carrier)));
                }
                Claim::Busy { owner } => owner,
            };
            if is_inside(&carrier.wanted.owner, &busy) {
                carrier.progress = Progress::Ended;
                let text = "a call around this one carries out the same effect";
                let error = ToolError::ExecutionFailed(text.into());
                return Ok(Claimed::Ends(Err(DurableError::Tool(error)), None));
            }
            if effects.has_stopped(&busy) {
                carrier.wanted.stopped = Some(busy);
                continue;
            }
            let cancelled = pin!(invocation.ctx.cancellation_token.cancelled());
            if let Either::Right(_) = select(ended, cancelled).await {
                return Err(DurableError::Tool(ToolError::Cancelled));
            }
        }
    }
}
