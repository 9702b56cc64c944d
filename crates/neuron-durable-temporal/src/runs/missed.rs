//! Finds the deadline of a wait for decisions that passed while no worker drove the run.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use temporalio_client::NamespacedClient;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{IntoRequest, Status as RpcStatus};
use temporalio_common::protos::proto_ts_to_system_time;
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::workflowservice::v1::GetWorkflowExecutionHistoryReverseRequest;

use super::{TemporalRun, TemporalRuns};
use crate::wait::summary;

/// Number of events in one page of the history.
const PAGE: i32 = 100;
/// Maximum number of history pages that are read to find the timer of a wait.
const PAGES: usize = 10;

impl TemporalRuns {
    /// Returns the time at which the deadline of a wait for decisions passed, if no worker has handled the deadline
    /// yet. Otherwise returns `None`. The time is read from the history.
    ///
    /// A late signal must be refused in this case. The run would accept it, because a signal takes precedence over a
    /// timer that fired in the same workflow task.
    pub(super) async fn missed(
        &self,
        id: &str,
        signal: &str,
    ) -> Result<Option<DateTime<Utc>>, RpcStatus> {
        let Some(summary) = summary(signal) else { return Ok(None) };
        let (mut client, mut next_page_token) = (self.client.clone(), Vec::new());
        let (mut fired, mut is_noticed) = (HashMap::new(), false);
        for _ in 0..PAGES {
            let request = GetWorkflowExecutionHistoryReverseRequest {
                namespace: client.namespace(),
                execution: Some(TemporalRun::execution(id)),
                maximum_page_size: PAGE,
                next_page_token,
            };
            let page =
                client.get_workflow_execution_history_reverse(request.into_request()).await?;
            let page = page.into_inner();
            for event in page.history.unwrap_or_default().events {
                match &event.attributes {
                    Some(Attributes::TimerFiredEventAttributes(timer)) if !is_noticed => {
                        fired.insert(timer.started_event_id, time(&event));
                    }
                    Some(Attributes::WorkflowTaskCompletedEventAttributes(_)) => is_noticed = true,
                    _ => {}
                }
                if let Some(time) = fired.remove(&event.event_id)
                    && summary_of(&event).as_ref() == Some(&summary)
                {
                    return Ok(time);
                }
                if is_noticed && fired.is_empty() {
                    return Ok(None);
                }
            }
            next_page_token = page.next_page_token;
            if next_page_token.is_empty() {
                break;
            }
        }
        Ok(None)
    }
}

/// Returns the time of an event. Returns `None` if the event has no valid time.
fn time(event: &HistoryEvent) -> Option<DateTime<Utc>> {
    event.event_time.as_ref().and_then(proto_ts_to_system_time).map(DateTime::from)
}

/// Returns the summary of the timer that an event started. Returns `None` if there is no summary.
fn summary_of(event: &HistoryEvent) -> Option<String> {
    let summary = event.user_metadata.as_ref()?.summary.as_ref()?;
    serde_json::from_slice(&summary.data).ok()
}
