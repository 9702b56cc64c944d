//! Runs the tool calls of one model response, which are a batch, as steps of the journal.

use std::sync::Arc;

use futures_util::future::join_all;
use neuron_durable::{StepRecord, check_tool_call, recorded_digest};
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Transaction;

use neuron_types::{
    ActivityOptions, Budget, Durability, DurableContext, DurableError, Provider, TokenUsage,
    ToolCall, ToolContext, ToolDyn, ToolEffect, ToolError, ToolInvocation, ToolOutput, UsageLimits,
};

use crate::effect_row::EffectRow;
use crate::effects::{Carrier, Claim, Claimed, Inside, Wanted, owner};
use crate::journal::{Kind, Place, Turn, other};
use crate::model_step::read;
use crate::step_row::{StepRow, time};
use crate::texts::text;
use crate::{JournalError, SqliteDurableContext};

/// A tool call of the batch with its step.
struct Call {
    invocation: ToolInvocation,
    step: StepRow,
    /// The tool, if it is an agent. `None` for any other tool.
    agent: Option<Arc<dyn ToolDyn>>,
    /// The effect that the call wants to carry out. `None` if the call has no effect key or has ended.
    carrier: Option<Carrier>,
}

/// The row of a tool call that is written to the journal before the call runs. `Insert` adds the row of a new call.
/// `Update` changes the row of a call that began earlier and did not end.
enum Intent {
    Insert(StepRow),
    Update(StepRow),
}

impl Intent {
    /// Returns `true` if the call must not run again after a crash.
    fn is_at_most_once(&self) -> bool {
        let (Self::Insert(step) | Self::Update(step)) = self;
        !step.effect.unwrap_or_default().may_repeat()
    }
}

impl<P: Provider> SqliteDurableContext<P> {
    /// Runs the calls that have no result in the journal. Returns the results of all calls, in call order.
    pub(crate) async fn call_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let calls = batch.len();
        match self.try_call_tools(batch, options).await {
            Ok(results) => results,
            // The error ends the run, so every call gets it. Errors cannot be cloned, so the other calls get its text.
            Err(error) => {
                let text = error.to_string();
                let more = (1..calls).map(|_| Err(other(text.clone())));
                std::iter::once(Err(error)).chain(more).take(calls).collect()
            }
        }
    }

    /// Runs the calls as [`call_tools`](Self::call_tools) does. Returns an error of the journal once for the whole
    /// batch.
    async fn try_call_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Result<Vec<Result<ToolOutput, DurableError>>, DurableError> {
        let journal = self.journal();
        let turn = journal.turn().await?;
        let (mut calls, intents) = self.prepare(&turn, batch)?;
        if !intents.is_empty() {
            let is_once = intents.iter().any(Intent::is_at_most_once);
            let wanted: Vec<Wanted> = calls
                .iter()
                .filter_map(|call| Some(call.carrier.as_ref()?.wanted.clone()))
                .collect();
            let write = move |transaction: &Transaction<'_>, place: &Place| {
                intents.iter().try_for_each(|intent| match intent {
                    Intent::Insert(step) => step.insert(transaction, place.run),
                    Intent::Update(step) => step.update(transaction, place.run),
                })?;
                // With the intents, so that a call that has begun has a claim. A call whose effect is another call's
                // finds that out when it runs.
                let is_granted = |wanted: &Wanted| {
                    let claim = wanted.claim(transaction, (place.outermost(), &place.id))?;
                    Ok(matches!(claim, Claim::Granted))
                };
                wanted.iter().map(is_granted).collect::<Result<Vec<bool>, Abort<JournalError>>>()
            };
            let granted = if is_once {
                let granted = journal.write_step(write).await?;
                // Without the intent, a call that must not run twice would run again. The witness file records the last
                // commit number, so a synced witness detects that the intent was lost.
                journal.database().sync_witness().await.map_err(JournalError::from)?;
                granted
            } else {
                // These calls may run twice, so a power failure may undo their intents.
                journal.write_step_unsynced(write).await?
            };
            let carriers = calls.iter_mut().filter_map(|call| call.carrier.as_mut());
            for (carrier, _) in carriers.zip(granted).filter(|(_, is_granted)| *is_granted) {
                carrier.granted();
            }
        }
        let ran = join_all(calls.into_iter().map(|call| self.call_tool(call, options.clone())));
        let ran = journal.while_held(async { Ok(ran.await) }).await?;
        let at: Option<Vec<i64>> = ran.iter().map(|(_, at)| *at).collect();
        // If a call has not ended, the turn is dropped, and the next attempt requests the batch again.
        if let Some(at) = at {
            turn.done(Kind::Tools, at.len(), at.into_iter().max().unwrap_or_default());
        }
        Ok(ran.into_iter().map(|(result, _)| result).collect())
    }

    /// Compares the batch with the journal. Returns all calls of the batch, and the rows to write before they run.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if a call differs from the recorded call.
    fn prepare(
        &self,
        turn: &Turn<'_>,
        batch: Vec<ToolInvocation>,
    ) -> Result<(Vec<Call>, Vec<Intent>), DurableError> {
        let key = turn.key(Kind::Tools);
        let mut recorded = turn.recorded_batch(&key, batch.len())?.into_iter();
        let (mut calls, mut intents) = (Vec::with_capacity(batch.len()), Vec::new());
        let now = self.journal().stamp();
        for (position, mut invocation) in (turn.position()..).zip(batch) {
            let tool = self.tools().get(&invocation.call.name);
            let agent = tool.clone().filter(|tool| tool.agent().is_some());
            let effect = match &agent {
                // An agent may always run again, because its nested journal replays its finished steps.
                Some(_) => ToolEffect::Pure,
                // Of the caller's effect and the tool's current effect, the more careful effect is used.
                None => tool.map_or(invocation.effect, |tool| {
                    invocation.effect.more_careful(tool.effect())
                }),
            };
            let Some(mut step) = recorded.next() else {
                let index = position.saturating_sub(turn.position());
                let mut step = StepRow::new(position, format!("{key}/{index}"), now);
                step.name = Some(invocation.call.name.clone());
                step.digest = Some(recorded_digest(&invocation)?);
                step.effect = Some(effect);
                step.idempotency_key = Some(invocation.ctx.idempotency_key.clone());
                let at = (self.journal(), &*step.key);
                let carrier = self.carrier(Wanted::of(&invocation, at, effect, false));
                intents.push(Intent::Insert(step.clone()));
                calls.push(Call { invocation, step, agent, carrier });
                continue;
            };
            let recorded = (
                step.name.as_deref().unwrap_or_default(),
                step.digest.as_deref().unwrap_or_default(),
            );
            check_tool_call(&step.key, recorded, &invocation)?;
            let mut carrier = None;
            if step.record.is_none() {
                let effect = step.effect.unwrap_or_default().more_careful(effect);
                let at = (self.journal(), &*step.key);
                carrier = self.carrier(Wanted::of(&invocation, at, effect, true));
                // The claim tells whether a call with an effect key has run.
                let repeats = if carrier.is_some() { ToolEffect::Idempotent } else { effect };
                step = StepRow { effect: Some(effect), ..self.begin_again(step, repeats, now)? };
                // Every attempt has the same key.
                invocation.ctx.idempotency_key = step.idempotency_key.clone().unwrap_or_default();
                intents.push(Intent::Update(step.clone()));
            }
            calls.push(Call { invocation, step, agent, carrier });
        }
        Ok((calls, intents))
    }

    fn carrier(&self, wanted: Option<Wanted>) -> Option<Carrier> {
        wanted.map(|wanted| Carrier::new(self.shared_effects(), wanted))
    }

    /// Prepares another attempt of a call that began and did not end. If the call must not run twice, it gets the
    /// result for an unknown outcome instead.
    fn begin_again(
        &self,
        mut step: StepRow,
        effect: ToolEffect,
        now: i64,
    ) -> Result<StepRow, DurableError> {
        step.effect = Some(effect);
        if effect.may_repeat() {
            step.attempt = step.attempt.saturating_add(1);
            return Ok(step);
        }
        let output = self.unknown_outcome().of_call(step.name.as_deref().unwrap_or_default())?;
        let record = StepRecord::of_tool(Ok(output), TokenUsage::default(), time(now));
        Ok(step.ended(text(record.to_json()?)?, now))
    }

    /// Runs a call, or reads its recorded result. Returns the result, and the time in milliseconds since 1970 at which
    /// the call ended.
    ///
    /// The time is `None` if no usable result is stored.
    async fn call_tool(
        &self,
        call: Call,
        options: ActivityOptions,
    ) -> (Result<ToolOutput, DurableError>, Option<i64>) {
        let Call { mut invocation, step, agent, carrier } = call;
        let budget = invocation.ctx.extensions.get::<Budget>().cloned();
        if let Some(at) = step.ended_at {
            let output = read(&step).and_then(|record: StepRecord<ToolOutput>| {
                if let (Some(budget), Some(spending)) = (budget, &record.spending) {
                    budget.add_spending(spending);
                }
                record.into_tool(&invocation.ctx.usage)
            });
            let is_usable = !matches!(output, Err(DurableError::Other(_)));
            return (output, is_usable.then_some(at));
        }
        // A part counts what the agents inside the call add to the budget.
        if let Some(budget) = budget {
            invocation.ctx.extensions.insert(budget.part(UsageLimits::default()));
        }
        let (carrier, known) = match carrier {
            None => (None, None),
            Some(carrier) => match self.claim(carrier, &invocation).await {
                Ok(Claimed::Runs(carrier)) => (Some(carrier), None),
                Ok(Claimed::Ends(result, carrier)) => (carrier, Some(result)),
                Err(error) => return (Err(error), None),
            },
        };
        let ran = match (known, agent) {
            (Some(result), _) => {
                let (name, ctx) = (&invocation.call.name, &invocation.ctx);
                self.store(name, ctx, step, result, (carrier, None)).await
            }
            (None, Some(agent)) => {
                Box::pin(self.run_agent(&*agent, invocation, step, carrier)).await
            }
            (None, None) => self.run_tool(invocation, step, options, carrier).await,
        };
        match ran {
            Ok((record, at)) => (record.into_tool_uncounted(), Some(at)),
            Err(error) => (Err(error), None),
        }
    }

    /// Runs a call of a tool that is not an agent, and stores its result. Returns the stored result, and the time in
    /// milliseconds since 1970 at which the call ended.
    async fn run_tool(
        &self,
        invocation: ToolInvocation,
        step: StepRow,
        options: ActivityOptions,
        carrier: Option<Carrier>,
    ) -> Result<(StepRecord<ToolOutput>, i64), DurableError> {
        let (name, ctx) = (invocation.call.name.clone(), invocation.ctx.clone());
        let result = match self.check_arguments(&invocation.call) {
            Ok(()) => self.work().execute_tools(vec![invocation], options).await.pop(),
            Err(error) => Some(Err(error)),
        };
        let result = result
            .unwrap_or_else(|| Err(other(format!("the call of `{name}` returned no result"))));
        self.store(&name, &ctx, step, result, (carrier, None)).await
    }

    /// Runs an agent inside a tool call, and stores the result of the call. The steps of the agent are stored in a
    /// nested journal.
    ///
    /// Returns the stored result, and the time in milliseconds since 1970 at which the call ended.
    async fn run_agent(
        &self,
        tool: &dyn ToolDyn,
        invocation: ToolInvocation,
        step: StepRow,
        carrier: Option<Carrier>,
    ) -> Result<(StepRecord<ToolOutput>, i64), DurableError> {
        let ToolInvocation { call, ctx, scope, .. } = invocation;
        let owner = owner(self.journal(), &step.key);
        let inside = Inside::new(self.shared_effects(), owner.clone());
        let run = async {
            self.check_arguments(&call)?;
            let agent =
                tool.agent().ok_or_else(|| other(format!("`{}` is not an agent", call.name)))?;
            let (journal, provider) = (self.journal().nested(&step.key).await?, agent.provider());
            let options = self.options().clone();
            let (provider, effects) = (provider.into(), self.shared_effects().clone());
            let nested =
                SqliteDurableContext::new(journal, provider, agent.tools(), options, effects);
            nested.effects().restart_call(&ctx);
            let durability = Durability::new(nested.clone());
            let ran = scope.run(self.tools().call(&call, &ctx, Some(durability))).await;
            // Middleware may have changed the result, so an error of the nested journal is taken from the journal
            // itself.
            nested.journal().take_failure().map_or(Ok(()), Err)?;
            if !matches!(ran, Err(ToolError::Cancelled)) {
                nested.journal().expect_all_asked()?;
            }
            Ok(ran?)
        };
        let result = run.await;
        drop(inside);
        self.store(&call.name, &ctx, step, result, (carrier, Some(owner))).await
    }

    /// Returns an error if the arguments of a call are longer than the record limit.
    fn check_arguments(&self, call: &ToolCall) -> Result<(), DurableError> {
        let length = serde_json::to_string(&call.input).map_or(0, |json| json.len());
        match length <= self.record_limit() {
            true => Ok(()),
            false => Err(DurableError::Tool(ToolError::InvalidInput(format!(
                "the arguments of `{}` take {length} bytes, where a record of the journal may have {}",
                call.name,
                self.record_limit()
            )))),
        }
    }

    /// Stores the result of a call, and the end of the effect that it carried out. `agent` is the
    /// [owner](EffectRow::owner) of the effects of a call whose agent has run. Returns the stored result, and the
    /// time in milliseconds since 1970 at which the call ended.
    ///
    /// # Errors
    ///
    /// Returns an error that the tool itself did not cause, without storing it.
    async fn store(
        &self,
        name: &str,
        ctx: &ToolContext,
        step: StepRow,
        result: Result<ToolOutput, DurableError>,
        (carrier, agent): (Option<Carrier>, Option<String>),
    ) -> Result<(StepRecord<ToolOutput>, i64), DurableError> {
        let result = match result {
            Ok(output) => Ok(output),
            // The tool stopped because of the cancellation. No result is stored, as if the process had ended during the
            // call.
            Err(DurableError::Tool(ToolError::Cancelled))
                if ctx.cancellation_token.is_cancelled() =>
            {
                return Err(DurableError::Tool(ToolError::Cancelled));
            }
            Err(DurableError::Tool(error)) => Err(error),
            Err(error) => return Err(error),
        };
        let at = self.journal().stamp();
        let mut record = StepRecord::of_tool(result, ctx.usage.total(), time(at));
        record.spending = ctx.extensions.get::<Budget>().and_then(Budget::spending);
        let record = record.to_json_within(name, self.record_limit())?;
        // The first run returns the same result as a replay.
        let result: StepRecord<ToolOutput> = StepRecord::from_json(&record)?;
        let carried = carrier.map(|carrier| (carrier, result.clone().into_tool_uncounted()));
        let effect = carried.as_ref().map(|(carrier, result)| carrier.wanted.ended(result));
        let effect = effect.transpose()?;
        let step = step.ended(text(record)?, at);
        let write = self.journal().write(move |transaction, place| {
            step.update(transaction, place.run)?;
            let outermost = place.outermost();
            let inside =
                |agent: &String| EffectRow::end_inside(transaction, (outermost, &place.id), agent);
            let unknown = agent.as_ref().map(inside).transpose()?.unwrap_or_default();
            effect.map_or(Ok(()), |effect| effect.store(transaction, outermost))?;
            Ok(unknown)
        });
        self.shared_effects().end_unknown(write.await?);
        if let Some((carrier, result)) = carried {
            carrier.ended(&result);
        }
        Ok((result, at))
    }
}

#[cfg(test)]
mod tests;
