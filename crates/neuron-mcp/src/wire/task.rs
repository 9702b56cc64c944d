//! Conversion of tasks (extension `io.modelcontextprotocol/tasks`, SEP-2663), which are read as JSON, because a server
//! may send an interval or a status that the SDK does not accept.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use rmcp::model::{ErrorData, InputRequests, ServerResult, TaskStatus};
use serde::Deserialize;
use serde_json::Value;

use crate::text::{cleaned, shortened};

/// The time between two requests for the state of a task, if the server suggests none.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two requests for the state of a task.
pub(crate) const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time between two requests for the state of a task.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// A task as the server reports it.
#[derive(Debug)]
pub(crate) struct ReportedTask {
    pub(crate) id: String,
    /// Time until the next request for the state.
    pub(crate) interval: Duration,
    /// Text of the server about the state.
    pub(crate) message: Option<String>,
    pub(crate) state: ReportedState,
}

/// The state of a [`ReportedTask`].
#[derive(Debug)]
pub(crate) enum ReportedState {
    Working,
    InputRequired(InputRequests),
    /// The result of the request for which the task was created.
    Completed(Box<ServerResult>),
    Failed(ErrorData),
    Cancelled,
}

/// Returns the task that a server has created instead of a result, as JSON. Returns `None` for any other result.
pub(crate) fn created(result: &ServerResult) -> Option<Value> {
    match result {
        ServerResult::CreateTaskResult(created) => serde_json::to_value(created).ok(),
        // The SDK parses a task with an invalid member as a custom result.
        ServerResult::CustomResult(result) => {
            result.0.get("resultType").is_some_and(|kind| kind == "task").then(|| result.0.clone())
        }
        _ => None,
    }
}

/// Parses a task. `is_new` is `true` for a newly created task, whose members do not depend on its status.
///
/// # Errors
///
/// Returns the reason if the id is missing, the status is unknown, or a member that the status requires is invalid.
pub(crate) fn parse(task: &Value, is_new: bool) -> Result<ReportedTask, String> {
    let id = task.get("taskId").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.ok_or("it has no `taskId`")?.to_owned();
    let status = task.get("status").unwrap_or(&Value::Null);
    let known = TaskStatus::deserialize(status)
        .map_err(|_| format!("its status is {}", shortened(&status.to_string())))?;
    let member = |name: &str| task.get(name).cloned().unwrap_or_default();
    let invalid = |name: &str, error| format!("its member `{name}` is invalid: {error}");
    let state = match known {
        TaskStatus::InputRequired if !is_new => {
            let asked = InputRequests::deserialize(member("inputRequests"));
            let asked = asked.map_err(|error| invalid("inputRequests", error))?;
            ReportedState::InputRequired(asked)
        }
        TaskStatus::Completed if !is_new => {
            let result = member("result");
            if !result.is_object() {
                return Err("it is completed and has no `result`".to_owned());
            }
            let result = ServerResult::deserialize(result);
            ReportedState::Completed(Box::new(result.map_err(|error| invalid("result", error))?))
        }
        TaskStatus::Failed if !is_new => {
            let error = ErrorData::deserialize(member("error"));
            ReportedState::Failed(error.map_err(|error| invalid("error", error))?)
        }
        TaskStatus::Cancelled => ReportedState::Cancelled,
        // The first request for the state of a new task returns all members.
        _ => ReportedState::Working,
    };
    let interval = match task.get("pollIntervalMs").and_then(Value::as_u64) {
        None | Some(0) => POLL_INTERVAL,
        Some(millis) => Duration::from_millis(millis).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL),
    };
    // A task that has already ended is asked for at once.
    let is_over = is_new && !matches!(known, TaskStatus::Working);
    let interval = if is_over { SHORTEST_INTERVAL } else { interval };
    let message = task.get("statusMessage").and_then(Value::as_str);
    let message = message.map(|message| cleaned(shortened(message)));
    Ok(ReportedTask { id, interval, message, state })
}

/// The largest number of milliseconds that clients in JavaScript accept (2^53 - 1, `z.int()` of the TypeScript SDK).
const MOST_MILLIS: u64 = (1 << 53) - 1;

/// Converts the time for which a task is kept. Returns `None`, which means no limit, if clients do not accept the
/// number.
pub(crate) fn ttl_ms(time: Duration) -> Option<u64> {
    u64::try_from(time.as_millis()).ok().filter(|millis| *millis <= MOST_MILLIS)
}

/// Converts the time between two requests for the state of a task.
pub(crate) fn poll_interval_ms(interval: Duration) -> u64 {
    ttl_ms(interval).unwrap_or(MOST_MILLIS)
}

/// Formats a time for the client, in UTC.
pub(crate) fn timestamp(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}
