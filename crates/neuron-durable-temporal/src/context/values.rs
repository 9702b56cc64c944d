//! Records values that a replay cannot compute again, as results of local activities.

use neuron_types::DurableError;
use send_wrapper::SendWrapper;
use serde_json::Value;
use temporalio_sdk::{ActivityExecutionError, LocalActivityOptions};

use super::TemporalDurableContext;
use crate::HasMailbox;
use crate::activities::{AgentActivities, MARGIN};
use crate::json::Json;

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Stores a value in the history and returns it. A replay returns the stored value.
    pub(super) async fn record_here(
        &self,
        name: &str,
        value: Value,
    ) -> Result<Value, DurableError> {
        self.begin_step()?;
        self.keep_answers().await?;
        let input = Json::new(&value)?;
        // The SDK's options are not `Send`, so they are dropped before the await.
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

/// Converts the error of the local activity that records a value.
fn failed(error: ActivityExecutionError) -> DurableError {
    match &error {
        ActivityExecutionError::Cancelled(_) => DurableError::Cancelled,
        error => DurableError::ActivityFailed(super::innermost(error)),
    }
}
