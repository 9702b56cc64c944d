//! The stored form of a run's steps, with its records, digests and requests. It is the same for all engines.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use neuron_types::{
    ActivityOptions, AgentPath, CompletionResponse, DurableError, ErrorRecord, ProviderError,
    ResumedApproval, TokenUsage, ToolCall, ToolContext, ToolEffect, ToolError, ToolInvocation,
    ToolOutput, UncertainEffect, UsageMeter, stored_json,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Asked;

/// Default maximum of bytes in a record, 1 MiB.
pub const DEFAULT_RECORD_LIMIT: usize = 1 << 20;

/// A journal entry with the result of a step, a value or the error that the loop receives again on replay.
///
/// Unknown fields are ignored; a newer version is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepRecord<T> {
    /// Version of the form. [`StepRecord::VERSION`] of the release that wrote it.
    pub version: u32,
    /// Value of the step. `None` if it failed.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub ok: Option<T>,
    /// Error of the step. `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    /// The tokens that a tool took itself.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub usage: TokenUsage,
    /// Time at which the step ended, in milliseconds since 1970. It is the engine's clock on replay.
    pub at: i64,
    /// The request of a call of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

fn none<T>() -> Option<T> {
    None
}

fn is_nothing(usage: &TokenUsage) -> bool {
    *usage == TokenUsage::default()
}

impl<T> StepRecord<T> {
    /// The version of the stored form that this release writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    fn new(result: Result<T, ErrorRecord>, usage: TokenUsage, at: DateTime<Utc>) -> Self {
        let (ok, error) = match result {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error)),
        };
        let at = at.timestamp_millis();
        Self { version: Self::VERSION, ok, error, usage, at, asked: None }
    }

    /// When the step ended.
    #[must_use]
    pub fn ended_at(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.at).unwrap_or_default()
    }

    /// Takes the record apart, after a look at its version.
    fn into_result(self) -> Result<Result<T, ErrorRecord>, DurableError> {
        let (found, supported) = (self.version, Self::VERSION);
        if found > supported {
            return Err(other(format!(
                "a step of the journal has version {found}, and this release reads up to {supported}: \
                 use the release that wrote it, or a newer one"
            )));
        }
        match (self.ok, self.error) {
            (Some(value), None) => Ok(Ok(value)),
            (None, Some(error)) => Ok(Err(error)),
            _ => Err(other("a step of the journal has neither a value nor an error".into())),
        }
    }
}

impl<T: Serialize + DeserializeOwned> StepRecord<T> {
    /// Writes the record as JSON.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] when it is nested deeper than [`stored_json::DEEPEST`].
    pub fn to_json(&self) -> Result<Vec<u8>, DurableError> {
        let mut json = Vec::new();
        stored_json::write(&mut json, self).map_err(|error| DurableError::Other(error.into()))?;
        Ok(json)
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] when it is none.
    pub fn from_json(json: &[u8]) -> Result<Self, DurableError> {
        stored_json::read(json)
            .map_err(|error| other(format!("a step of the journal cannot be read: {error}")))
    }
}

impl<T: Serialize + DeserializeOwned> StepRecord<T> {
    /// Creates the record of a step that cannot fail, such as a wait. A value that is `null` in JSON is read as
    /// no value, so use a type without it.
    #[must_use]
    pub fn of_value(value: T, at: DateTime<Utc>) -> Self {
        Self::new(Ok(value), TokenUsage::default(), at)
    }

    /// Returns the value of a step that does not fail.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] when the record cannot be used.
    pub fn into_value(self) -> Result<T, DurableError> {
        let result = self.into_result()?;
        result.map_err(|error| other(format!("a step of the journal has the error {}", error.kind)))
    }
}

impl StepRecord<CompletionResponse> {
    /// Makes the record of a call of the model.
    #[must_use]
    pub fn of_llm(result: Result<CompletionResponse, ProviderError>, at: DateTime<Utc>) -> Self {
        Self::new(result.map_err(|error| (&error).into()), TokenUsage::default(), at)
    }

    /// Adds the request of the call to the record.
    #[must_use]
    pub fn with_asked(self, asked: Asked) -> Self {
        Self { asked: Some(asked), ..self }
    }

    /// Returns the result of the call to the loop.
    ///
    /// # Errors
    ///
    /// [`DurableError::Provider`] for the call's own error; [`DurableError::Other`] when the record
    /// cannot be used.
    pub fn into_llm(self) -> Result<CompletionResponse, DurableError> {
        let result = self.into_result()?;
        result.map_err(|error| DurableError::Provider(error.into_provider_error()))
    }

    /// Writes the record, which must not have more bytes than `limit`. A longer record has no
    /// [fields](Asked::fields) of the request. If it is still too long, or nested too deeply, it becomes the record of an
    /// error that says so, so that the call is not made again for nothing.
    ///
    /// # Errors
    ///
    /// As [`to_json`](Self::to_json), for the record of that error.
    pub fn to_json_within(&self, limit: usize) -> Result<Vec<u8>, DurableError> {
        let text = match self.to_json() {
            Ok(json) if json.len() <= limit => return Ok(json),
            Ok(_) => {
                let json = self.clone().without_fields().to_json()?;
                if json.len() <= limit {
                    return Ok(json);
                }
                too_long("the model's answer", json.len(), limit)
            }
            Err(error) => not_json("the model's answer", &error),
        };
        let record = Self::of_llm(Err(ProviderError::Other(text.into())), self.ended_at());
        let record = Self { asked: self.asked.clone(), ..record };
        match record.to_json()? {
            json if json.len() <= limit => Ok(json),
            _ => record.without_fields().to_json(),
        }
    }

    fn without_fields(self) -> Self {
        Self { asked: self.asked.as_ref().map(Asked::without_fields), ..self }
    }
}

impl StepRecord<ToolOutput> {
    /// Makes the record of a tool call, with the tokens that it took itself.
    #[must_use]
    pub fn of_tool(
        result: Result<ToolOutput, ToolError>,
        usage: TokenUsage,
        at: DateTime<Utc>,
    ) -> Self {
        Self::new(result.map_err(|error| (&error).into()), usage, at)
    }

    /// Returns the result of the call to the loop, and counts its tokens on the meter of the call's context. If
    /// the tool has just run with that context, the meter has them already. Use
    /// [`into_tool_uncounted`](Self::into_tool_uncounted) then.
    ///
    /// # Errors
    ///
    /// [`DurableError::Tool`] for the call's own error; [`DurableError::Other`] when the record cannot
    /// be used.
    pub fn into_tool(self, meter: &UsageMeter) -> Result<ToolOutput, DurableError> {
        meter.add(&self.usage);
        self.into_tool_uncounted()
    }

    /// [`into_tool`](Self::into_tool) without its tokens.
    ///
    /// # Errors
    ///
    /// As [`into_tool`](Self::into_tool).
    pub fn into_tool_uncounted(self) -> Result<ToolOutput, DurableError> {
        let result = self.into_result()?;
        result.map_err(|error| DurableError::Tool(error.into_tool_error()))
    }

    /// Writes the record, which must not have more bytes than `limit`. A longer one, or one that is nested
    /// too deeply, becomes the record of an error that names the tool: it ran, and must not run again.
    ///
    /// # Errors
    ///
    /// As [`to_json`](Self::to_json), for the record of that error.
    pub fn to_json_within(&self, tool_name: &str, limit: usize) -> Result<Vec<u8>, DurableError> {
        let what = || format!("the result of `{tool_name}`");
        let text = match self.to_json() {
            Ok(json) if json.len() <= limit => return Ok(json),
            Ok(json) => too_long(&what(), json.len(), limit),
            Err(error) => not_json(&what(), &error),
        };
        let error = ToolError::ExecutionFailed(Box::new(UncertainEffect(text)));
        Self::of_tool(Err(error), self.usage.clone(), self.ended_at()).to_json()
    }
}

fn too_long(what: &str, length: usize, limit: usize) -> String {
    format!("{what} takes {length} bytes in the journal, where a record may have {limit}")
}

fn not_json(what: &str, error: &DurableError) -> String {
    format!("{what} cannot be stored in the journal: {error}")
}

/// Returns the result for the model of a call that was interrupted and must not run twice. It reports that the
/// effect is unknown.
#[must_use]
pub fn outcome_unknown(tool_name: &str) -> ToolOutput {
    let text = format!(
        "The outcome of this call of `{tool_name}` is unknown: the process that ran it ended before it \
         returned. It may have had its effect, wholly or in part, or none. It was not run again. Find \
         out what happened before you repeat it."
    );
    ToolOutput { is_error: true, ..ToolOutput::text(text) }
}

/// The handling of a call that was interrupted and must not run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownOutcome {
    /// The model is told that its outcome is unknown, by [`outcome_unknown`].
    #[default]
    TellModel,
    /// The run ends with [`DurableError::Other`], each time that it is resumed, until a person has decided.
    Fail,
}

impl UnknownOutcome {
    /// Returns the result of the call.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] with [`UnknownOutcome::Fail`]; its text names the tool.
    pub fn of_call(self, tool_name: &str) -> Result<ToolOutput, DurableError> {
        match self {
            Self::TellModel => Ok(outcome_unknown(tool_name)),
            Self::Fail => Err(other(format!(
                "the outcome of a call of `{tool_name}` is unknown: the process that ran it ended before \
                 it returned, and it must not run twice"
            ))),
        }
    }
}

/// A tool call for another process, with the parts that may leave this process.
///
/// Of the environment only the variables that were allowed cross, since a journal keeps what crosses. Of
/// [`ToolContext::extensions`] only an approval that the call resumes with does, and the path of the agents around it. `Debug` shows the names of the
/// variables alone.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolRequest {
    /// The call.
    pub call: ToolCall,
    /// The effect of a second run, as the tool declares it.
    pub effect: ToolEffect,
    /// The engine's options for the call.
    pub options: ActivityOptions,
    /// The run's id.
    pub run_id: String,
    /// Id of the session. Empty if there is none.
    #[serde(default)]
    pub session_id: String,
    /// The same for every attempt of the call.
    pub idempotency_key: String,
    /// The turn of the run, from zero.
    #[serde(default)]
    pub turn: Option<usize>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The allowed environment variables. They are ordered, because engines compare the bytes of a request on
    /// replay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The approval with which an agent inside the call goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Box<ResumedApproval>>,
    /// The agents around the call, as in [`AgentPath`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

impl ToolRequest {
    /// Makes the request of a call. Of its environment it takes the variables of these names.
    #[must_use]
    pub fn new(
        invocation: &ToolInvocation,
        options: ActivityOptions,
        environment: &[String],
    ) -> Self {
        let ToolInvocation { call, ctx, effect, .. } = invocation;
        let allowed = |name: &String| Some((name.clone(), ctx.environment.get(name)?.clone()));
        Self {
            call: call.clone(),
            effect: *effect,
            options,
            run_id: ctx.run_id.clone(),
            session_id: ctx.session_id.clone(),
            idempotency_key: ctx.idempotency_key.clone(),
            turn: ctx.turn,
            cwd: ctx.cwd.clone(),
            environment: environment.iter().filter_map(allowed).collect(),
            resumed: ctx.extensions.get::<ResumedApproval>().cloned().map(Box::new),
            agents: AgentPath::of(ctx).to_vec(),
        }
    }

    /// Creates the context of the call in the other process, with its own cancellation token and meter.
    #[must_use]
    pub fn context(&self) -> ToolContext {
        let mut ctx = ToolContext {
            cwd: self.cwd.clone(),
            session_id: self.session_id.clone(),
            environment: self.environment.clone().into_iter().collect(),
            call_id: self.call.id.clone(),
            run_id: self.run_id.clone(),
            idempotency_key: self.idempotency_key.clone(),
            turn: self.turn,
            ..ToolContext::default()
        };
        if let Some(resumed) = &self.resumed {
            ctx.extensions.insert((**resumed).clone());
        }
        self.agents.iter().for_each(|agent| AgentPath::enter(&mut ctx, agent));
        ctx
    }
}

impl fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.environment.keys().collect();
        f.debug_struct("ToolRequest")
            .field("call", &self.call)
            .field("effect", &self.effect)
            .field("options", &self.options)
            .field("run_id", &self.run_id)
            .field("session_id", &self.session_id)
            .field("idempotency_key", &self.idempotency_key)
            .field("turn", &self.turn)
            .field("cwd", &self.cwd)
            .field("environment", &names)
            .field("resumed", &self.resumed.is_some())
            .field("agents", &self.agents)
            .finish()
    }
}

fn other(text: String) -> DurableError {
    DurableError::Other(text.into())
}

#[cfg(test)]
mod tests;
