//! Values from outside of the run, as the results of local activities.

use neuron_types::DurableError;
use send_wrapper::SendWrapper;
use serde_json::Value;
use temporalio_sdk::{ActivityExecutionError, LocalActivityOptions};

use super::TemporalDurableContext;
use crate::HasMailbox;
use crate::activities::{AgentActivities, MARGIN};
use crate::json::Json;

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Keeps a value in the history. A replay gets the value that is there.
    pub(super) async fn record_here(
        &self,
        name: &str,
        value: Value,
    ) -> Result<Value, DurableError> {
        self.begin_step()?;
        self.keep_answers().await?;
        let input = Json::new(&value)?;
        // The SDK's options belong to one thread: they must be gone before the await.
        let call = {
            let options = LocalActivityOptions::builder()
                .activity_id(format!("value/{name}"))
                .start_to_close_timeout(MARGIN)
                .build();
            let activity = AgentActivities::record;
            SendWrapper::new(self.ctx.execute_local_activity(activity, input, options))
        };
        let recorded = call.await;
        self.answer_came();
        recorded.map_err(failed)?.read()
    }
}

fn failed(error: ActivityExecutionError) -> DurableError {
    match &error {
        ActivityExecutionError::Cancelled(_) => DurableError::Cancelled,
        error => DurableError::ActivityFailed(super::innermost(error)),
    }
}
