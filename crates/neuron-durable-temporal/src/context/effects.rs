//! Claims the effects of tool calls, in the register of the outermost run.

use std::convert::Infallible;

use neuron_durable::outcome_unknown;
use neuron_types::{DurableError, ToolOutput};
use send_wrapper::SendWrapper;
use serde_json::Value;
use temporalio_sdk::SignalWorkflowOptions;

use super::TemporalDurableContext;
use crate::effects::{Answer, Claim, EffectMessage, Outcome, SIGNAL, answer_signal};
use crate::signal_input::SignalInput;
use crate::{AgentWorkflow, HasMailbox, Signal};

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Claims an effect. Returns `None` if the call carries it out, and else the result of the call.
    pub(super) async fn claim(&self, claim: &Claim) -> Result<Option<ToolOutput>, DurableError> {
        let answer = match self.is_nested() {
            false => self.claim_here(claim).await?,
            true => {
                self.tell_outermost(&EffectMessage::Claim(claim.clone())).await?;
                let answer = self.answered(claim).await?;
                self.answers_are_kept();
                answer
            }
        };
        Ok(match answer {
            Answer::Granted => None,
            Answer::Unknown => Some(outcome_unknown(&claim.tool)),
            Answer::Had(output) => Some(output),
        })
    }

    /// Records the end of a call that carried out an effect.
    pub(super) async fn end_effect(
        &self,
        claim: Claim,
        result: &Result<ToolOutput, DurableError>,
    ) -> Result<(), DurableError> {
        let outcome = Outcome::of(&claim.tool, result);
        self.tell_outermost(&EffectMessage::Ended { claim, outcome }).await
    }

    /// Claims an effect in the register of this run, which is the outermost one.
    async fn claim_here(&self, claim: &Claim) -> Result<Answer, DurableError> {
        let asked = EffectMessage::Claim(claim.clone());
        self.ctx.state_mut(|state| state.mailbox_mut().effects_mut().apply(asked));
        let ready = |state: &W| state.mailbox().effects().has_answer(|waiting| waiting == claim);
        let waited = SendWrapper::new(self.ctx.wait_condition(ready)).await;
        waited.map_err(|_| DurableError::Cancelled)?;
        let answered = self.ctx.state_mut(|state| {
            state.mailbox_mut().effects_mut().take_answer(|waiting| waiting == claim)
        });
        answered
            .map(|(_, answer)| answer)
            .ok_or_else(|| DurableError::Other("a claim of an effect was lost".into()))
    }

    /// Waits for the answer of the outermost run to a claim.
    async fn answered(&self, claim: &Claim) -> Result<Answer, DurableError> {
        let name = answer_signal(&claim.call);
        let waited = SendWrapper::new(
            self.ctx.wait_condition(|state: &W| state.mailbox().has_signal(&name)),
        );
        waited.await.map_err(|_| DurableError::Cancelled)?;
        let answer = self.ctx.state_mut(|state| state.mailbox_mut().take_signal(&name));
        serde_json::from_value(answer.unwrap_or_default())
            .map_err(|error| DurableError::Other(error.into()))
    }

    /// Applies a message to the register of the outermost run.
    pub(super) async fn tell_outermost(&self, message: &EffectMessage) -> Result<(), DurableError> {
        if !self.is_nested() {
            let message = message.clone();
            self.ctx.state_mut(|state| state.mailbox_mut().effects_mut().apply(message));
            return Ok(());
        }
        let value = serde_json::to_value(message);
        let value = value.map_err(|error| DurableError::Other(error.into()))?;
        self.send(&self.scope.run, Signal::new(SIGNAL, value)).await
    }

    /// Answers the claims of agents inside the tool calls of this run, which is the outermost one. Never returns.
    pub(super) async fn answer_claims(&self) -> Infallible {
        let own = self.ctx.info().workflow_id().to_owned();
        let is_other = |claim: &Claim| claim.workflow != own;
        loop {
            let ready = |state: &W| state.mailbox().effects().has_answer(is_other);
            if self.ctx.wait_condition(ready).await.is_err() {
                // The run was cancelled.
                return std::future::pending().await;
            }
            let answered =
                self.ctx.state_mut(|state| state.mailbox_mut().effects_mut().take_answer(is_other));
            let Some((claim, answer)) = answered else { continue };
            let value = serde_json::to_value(answer).unwrap_or(Value::Null);
            let signal = Signal::new(answer_signal(&claim.call), value);
            if let Err(error) = self.send(&claim.workflow, signal).await {
                tracing::debug!(workflow = claim.workflow, %error, "an agent ended before its effect was granted");
                self.ctx.state_mut(|state| {
                    state.mailbox_mut().effects_mut().stop(&claim.workflow);
                });
            }
        }
    }

    /// Sends a signal to another workflow.
    async fn send(&self, workflow: &str, signal: Signal) -> Result<(), DurableError> {
        let signal = SignalInput::new(&signal)?;
        let other = self.ctx.external_workflow(workflow, None);
        let options = SignalWorkflowOptions::default();
        let sent = SendWrapper::new(other.signal(AgentWorkflow::deliver, signal, options)).await;
        sent.map_err(|error| DurableError::ActivityFailed(error.to_string()))
    }
}
