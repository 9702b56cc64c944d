//! Runs model calls as local activities or activities.

use std::sync::atomic::Ordering;
use std::time::Duration;

use neuron_durable::{Asked, StepRecord};
use neuron_types::{ActivityOptions, CompletionResponse, DurableError, ProviderError, RequestRef};
use send_wrapper::SendWrapper;
use temporalio_sdk::{ActivityExecutionError, LocalActivityOptions};

use super::{TemporalDurableContext, stall};
use crate::activities::{AgentActivities, LocalModelRequest, MARGIN, ModelRequest};
use crate::json::Json;
use crate::local_calls::LocalCall;
use crate::{HasMailbox, ModelCalls, retry};

/// Timeout for all attempts of a local activity together, including the pauses. Without this timeout, the SDK would end
/// a local activity after 100 seconds.
const ALL_ATTEMPTS: Duration = Duration::from_secs(365 * 24 * 3600);

/// The record of a model call as JSON.
type Answer = Json<StepRecord<CompletionResponse>>;

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Calls the model, and compares the recorded request with the current one. On replay the SDK returns the recorded
    /// response.
    pub(super) async fn call_model(
        &self,
        request: RequestRef<'_>,
        mut options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.begin_step()?;
        let number = self.model_calls.fetch_add(1, Ordering::Relaxed);
        let asked = self.requests.ask(request)?;
        let id = format!("llm/{number}");
        let (key, call) = (id.clone(), (id, asked.clone()));
        options.retry_policy.get_or_insert_with(|| self.options.model_retry.clone());
        options.heartbeat_timeout.get_or_insert(self.options.lease());
        let answer = match self.options.model_calls {
            ModelCalls::Local => self.call_here(request, options, call).await?,
            ModelCalls::Activity => self.call_anywhere(request, options, call).await?,
        };
        let record = answer.read()?;
        let compared = match &record.asked {
            Some(recorded) => self.requests.replay(&key, &asked, recorded),
            None => Err(DurableError::Other(format!("the record of {key} has no request").into())),
        };
        if let Err(error) = compared {
            stall(&self.ctx, &error);
        }
        record.into_llm()
    }

    /// Calls the model in a local activity of this worker. `id` is the id of the activity. `asked` is a summary of the
    /// request for the history.
    async fn call_here(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        (id, asked): (String, Asked),
    ) -> Result<Answer, DurableError> {
        self.keep_answers().await?;
        let policy = retry::server_policy(options.retry_policy.as_ref());
        let limit = options.start_to_close_timeout;
        // The ticket keeps the request in this process until the activity has ended.
        let call = LocalCall {
            request: request.to_request(),
            cache: request.cache,
            options,
            asked,
            agents: self.agents.clone(),
            task_started: self.ctx.workflow_time(),
        };
        let ticket = self.options.local_calls.leave(call);
        let input = Json::new(&LocalModelRequest { ticket: ticket.number })?;
        // The SDK's options are not `Send`, so they are dropped before the await.
        let call = {
            let options = LocalActivityOptions::builder()
                .activity_id(id)
                .retry_policy(policy)
                .start_to_close_timeout(limit.saturating_add(MARGIN).min(ALL_ATTEMPTS))
                .schedule_to_close_timeout(ALL_ATTEMPTS)
                .build();
            let activity = AgentActivities::call_model_here;
            SendWrapper::new(self.ctx.execute_local_activity(activity, input, options))
        };
        let answered = call.await;
        self.answer_came();
        answered.map_err(|error| failed(&error, limit))
    }

    /// Calls the model in an activity that any worker of the queue can run. `id` is the id of the activity. `asked` is
    /// a summary of the request for the history.
    async fn call_anywhere(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        (id, asked): (String, Asked),
    ) -> Result<Answer, DurableError> {
        let policy = retry::server_policy(options.retry_policy.as_ref());
        let (cache, request) = (request.cache, request.to_request());
        let agents = self.agents.clone();
        let request = ModelRequest { request, cache, options, asked, agents };
        let limit = request.options.start_to_close_timeout;
        let input = Json::new(&request)?;
        let (length, most) = (input.len(), self.options.state_limit());
        if length > most {
            let text = format!(
                "the request to the model takes {length} bytes, where a payload may have {most}: use \
                 `ModelCalls::Local`, or set `TemporalOptions::payload_store`"
            );
            return Err(DurableError::Provider(ProviderError::Other(text.into())));
        }
        let call = {
            let options = super::activity_options(&request.options, id, policy);
            let activity = AgentActivities::call_model;
            SendWrapper::new(self.ctx.execute_activity(activity, input, options))
        };
        drop(request);
        let answered = call.await;
        self.answers_are_kept();
        answered.map_err(|error| failed(&error, limit))
    }
}

/// Converts the error of a model call's activity that returned no response. `limit` is the timeout of one attempt.
fn failed(error: &ActivityExecutionError, limit: Duration) -> DurableError {
    match error {
        ActivityExecutionError::Cancelled(_) => DurableError::Cancelled,
        // The activity enforces its own timeout. A timeout of the server means that workers were lost repeatedly.
        error if error.as_timeout().is_some() => {
            DurableError::Provider(ProviderError::Timeout(limit))
        }
        error => DurableError::ActivityFailed(super::innermost(error)),
    }
}
