//! Journal records for the steps of a durable run. All engines use the same records.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use neuron_types::{
    ActivityOptions, AgentPath, AgentTool, BudgetSpending, CompletionResponse, DurableAgent,
    DurableError, ErrorRecord, ProviderError, ResumedApproval, Start, TokenUsage, ToolCall,
    ToolContext, ToolDyn, ToolEffect, ToolError, ToolInvocation, ToolOutput, ToolSet,
    UncertainEffect, UsageMeter, stored_json,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Asked;
use crate::digest::hexadecimal;

/// Default maximum length of a journal record in bytes (1 MiB).
pub const DEFAULT_RECORD_LIMIT: usize = 1 << 20;

/// A journal entry with the result of one step. The result is a value or an error. A replay returns it instead of
/// running the step again.
///
/// Unknown fields are ignored when a record is read. Reading a record with a newer [`version`](StepRecord::version)
/// returns an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepRecord<T> {
    /// Version of the record format. It is [`StepRecord::VERSION`] of the release that wrote the record.
    pub version: u32,
    /// Value of the step. `None` if it failed.
    // With a plain `default`, serde would require `T: Default`.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub ok: Option<T>,
    /// Error of the step. `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    /// Tokens of the model calls that a tool made itself, for example by running an agent. Zero for other steps.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub usage: TokenUsage,
    /// Tokens, cost and calls of the agents inside a tool call, as counted by the budget of the run. `None` if the budget
    /// counted nothing, or if the engine does not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending: Option<BudgetSpending>,
    /// Time at which the step ended, in milliseconds since 1970-01-01 UTC. During a replay the engine's clock shows
    /// this time.
    pub at: i64,
    /// [Id](ToolRequest::call_id) of the tool call that the step ran, if other calls with the same
    /// [effect key](neuron_types::Tool::effect_key) may get the record too. Otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Summary of the model request. `None` if the step is not a model call, or an older release wrote the record.
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
    /// Version of the record format that this release writes, and the newest version that it reads.
    pub const VERSION: u32 = 1;

    fn new(result: Result<T, ErrorRecord>, usage: TokenUsage, at: DateTime<Utc>) -> Self {
        let (ok, error) = match result {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error)),
        };
        let at = at.timestamp_millis();
        Self {
            version: Self::VERSION,
            ok,
            error,
            usage,
            spending: None,
            at,
            call: None,
            asked: None,
        }
    }

    /// Returns the time at which the step ended. Returns 1970-01-01 if the stored number is not a valid time.
    #[must_use]
    pub fn ended_at(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.at).unwrap_or_default()
    }

    /// Checks the version and returns the value or the error of the step. The outer `Err` is an unusable record.
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
            // This release never writes a record with both or none.
            _ => Err(other("a step of the journal has neither a value nor an error".into())),
        }
    }
}

impl<T: Serialize + DeserializeOwned> StepRecord<T> {
    /// Serialises the record as JSON.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the JSON is nested deeper than [`stored_json::DEEPEST`].
    pub fn to_json(&self) -> Result<Vec<u8>, DurableError> {
        let mut json = Vec::new();
        stored_json::write(&mut json, self).map_err(|error| DurableError::Other(error.into()))?;
        Ok(json)
    }

    /// Parses a record from JSON.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if `json` is not a valid record.
    pub fn from_json(json: &[u8]) -> Result<Self, DurableError> {
        stored_json::read(json)
            .map_err(|error| other(format!("a step of the journal cannot be read: {error}")))
    }
}

impl<T: Serialize + DeserializeOwned> StepRecord<T> {
    /// Creates the record of a step that cannot fail, such as a wait. `at` is the time at which the step ended. `value`
    /// must not serialise to `null`, because `null` is read as a missing value.
    #[must_use]
    pub fn of_value(value: T, at: DateTime<Utc>) -> Self {
        Self::new(Ok(value), TokenUsage::default(), at)
    }

    /// Returns the value of a step that cannot fail.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the record contains an error, or its version is newer than
    /// [`VERSION`](Self::VERSION).
    pub fn into_value(self) -> Result<T, DurableError> {
        let result = self.into_result()?;
        result.map_err(|error| other(format!("a step of the journal has the error {}", error.kind)))
    }
}

impl StepRecord<CompletionResponse> {
    /// Creates the record of a model call that ended at `at`.
    #[must_use]
    pub fn of_llm(result: Result<CompletionResponse, ProviderError>, at: DateTime<Utc>) -> Self {
        Self::new(result.map_err(|error| (&error).into()), TokenUsage::default(), at)
    }

    /// Adds the summary of the model request to the record.
    #[must_use]
    pub fn with_asked(self, asked: Asked) -> Self {
        Self { asked: Some(asked), ..self }
    }

    /// Returns the result of the model call.
    ///
    /// # Errors
    ///
    /// - [`DurableError::Provider`] if the call itself failed.
    /// - [`DurableError::Other`] if the record is not valid or has a newer version.
    pub fn into_llm(self) -> Result<CompletionResponse, DurableError> {
        let result = self.into_result()?;
        result.map_err(|error| DurableError::Provider(error.into_provider_error()))
    }

    /// Serialises the record as JSON of at most `limit` bytes.
    ///
    /// - If the JSON is too long, the [fields](Asked::fields) of the request are removed.
    /// - If it is still too long, or nested too deeply, an error that says so replaces the response.
    ///
    /// In each case the journal entry exists. A replay therefore does not make and pay for the call again.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the record with the error cannot be serialised either.
    pub fn to_json_within(&self, limit: usize) -> Result<Vec<u8>, DurableError> {
        let text = match self.to_json() {
            Ok(json) if json.len() <= limit => return Ok(json),
            Ok(_) => {
                // The fields serve only for error texts, so they are removed first.
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
    /// Creates the record of a tool call that ended at `at`. `usage` contains the tokens of the model calls that the
    /// tool made.
    #[must_use]
    pub fn of_tool(
        result: Result<ToolOutput, ToolError>,
        usage: TokenUsage,
        at: DateTime<Utc>,
    ) -> Self {
        Self::new(result.map_err(|error| (&error).into()), usage, at)
    }

    /// Returns the result of the tool call, and adds the call's tokens to `meter`, the meter of the call's context.
    ///
    /// If the tool has just run with this context, the meter has already counted the tokens. In this case use
    /// [`into_tool_uncounted`](Self::into_tool_uncounted) instead.
    ///
    /// # Errors
    ///
    /// - [`DurableError::Tool`] if the call itself failed.
    /// - [`DurableError::Other`] if the record is not valid or has a newer version.
    pub fn into_tool(self, meter: &UsageMeter) -> Result<ToolOutput, DurableError> {
        // Tokens of a failed call were charged too.
        meter.add(&self.usage);
        self.into_tool_uncounted()
    }

    /// Returns the result of the tool call. Unlike [`into_tool`](Self::into_tool), it does not count the call's tokens.
    ///
    /// # Errors
    ///
    /// - [`DurableError::Tool`] if the call itself failed.
    /// - [`DurableError::Other`] if the record is not valid or has a newer version.
    pub fn into_tool_uncounted(self) -> Result<ToolOutput, DurableError> {
        let result = self.into_result()?;
        result.map_err(|error| DurableError::Tool(error.into_tool_error()))
    }

    /// Serialises the record as JSON of at most `limit` bytes. If the JSON is too long or nested too deeply, an error
    /// that names the tool replaces the result. In each case the journal entry exists, so a replay does not run the
    /// tool again.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the record with the error cannot be serialised either.
    pub fn to_json_within(&self, tool_name: &str, limit: usize) -> Result<Vec<u8>, DurableError> {
        let what = || format!("the result of `{tool_name}`");
        let text = match self.to_json() {
            Ok(json) if json.len() <= limit => return Ok(json),
            Ok(json) => too_long(&what(), json.len(), limit),
            Err(error) => not_json(&what(), &error),
        };
        // The tool has run, so its effect is uncertain and a call with the same effect key must not repeat it.
        let error = ToolError::ExecutionFailed(Box::new(UncertainEffect(text)));
        let record = Self::of_tool(Err(error), self.usage.clone(), self.ended_at());
        Self { spending: self.spending.clone(), ..record }.to_json()
    }
}

fn too_long(what: &str, length: usize, limit: usize) -> String {
    format!("{what} takes {length} bytes in the journal, where a record may have {limit}")
}

fn not_json(what: &str, error: &DurableError) -> String {
    format!("{what} cannot be stored in the journal: {error}")
}

/// Returns a tool result which tells the model that the effect of an interrupted call is unknown. Use it for calls that
/// must not run twice.
#[must_use]
pub fn outcome_unknown(tool_name: &str) -> ToolOutput {
    let text = format!(
        "The outcome of this call of `{tool_name}` is unknown: the process that ran it ended before it \
         returned. It may have had its effect, wholly or in part, or none. It was not run again. Find \
         out what happened before you repeat it."
    );
    ToolOutput { is_error: true, ..ToolOutput::text(text) }
}

/// Decides how a run continues after a tool call was interrupted and must not run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnknownOutcome {
    /// The model receives [`outcome_unknown`] as the result of the call, and the run continues.
    #[default]
    TellModel,
    /// The run ends with [`DurableError::Other`]. Each resumption ends in the same way, until a person decides about
    /// the call.
    Fail,
}

impl UnknownOutcome {
    /// Returns the result of an interrupted call.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if this is [`UnknownOutcome::Fail`]. The error names the tool.
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

/// A tool call that another process runs, with the data that may leave this process.
///
/// The engine's journal stores the request. Therefore the request contains only the allowed environment variables of
/// the call. From [`ToolContext::extensions`] it contains only the [`ResumedApproval`] and the [`AgentPath`]. `Debug`
/// prints the names of the variables without their values.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolRequest {
    /// The tool call.
    pub call: ToolCall,
    /// The effect of running the call twice, as the tool declares it.
    pub effect: ToolEffect,
    /// Options of the engine for the call, such as timeouts and retries.
    pub options: ActivityOptions,
    /// Id of the run that makes the call.
    pub run_id: String,
    /// Id of the session. Empty if there is none.
    #[serde(default)]
    pub session_id: String,
    /// Key that is equal for all attempts of the call, so that a service can detect repetitions.
    pub idempotency_key: String,
    /// Number of the run's turn, counted from zero. `None` if it is unknown.
    #[serde(default)]
    pub turn: Option<usize>,
    /// Working directory of the call.
    pub cwd: PathBuf,
    /// Values of the allowed environment variables. The map is ordered, because engines compare the bytes of a request
    /// on replay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The approval with which an agent inside this tool call resumes. `None` if no agent in the call waited for an
    /// approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Box<ResumedApproval>>,
    /// Names of the agents that enclose the call, outermost first, as in [`AgentPath`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The run and the calls around the call that share its [effect key](neuron_types::Tool::effect_key). `None` if the
    /// engine needs no effect key for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_scope: Option<EffectScope>,
}

/// The scope of the [effect keys](neuron_types::Tool::effect_key) of a run and of the agents inside it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EffectScope {
    /// Id of the outermost run.
    pub run: String,
    /// Ids of the effects that the calls around this one carry out, as [`EffectScope::effect`] returns them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<String>,
}

impl EffectScope {
    /// Creates the scope of an outermost run.
    #[must_use]
    pub fn new(run: impl Into<String>) -> Self {
        Self { run: run.into(), carried: Vec::new() }
    }

    /// Returns the scope of a run that begins or continues with `start`. `run` is the id that the engine gave to the
    /// run. A run that continues from a stored state keeps the scope of the run that stored it.
    #[must_use]
    pub fn starting(start: &Start, run: &str) -> Self {
        let stored = match start {
            Start::Resume { pending, .. } => &*pending.run_id,
            Start::Snapshot(snapshot) => &*snapshot.run_id,
            _ => "",
        };
        Self::new(if stored.is_empty() { run } else { stored })
    }

    /// Returns the id of the effect of a call, which is the same for all calls of the outermost run with the same tool
    /// and effect key. Returns `None` if the call has no effect key.
    #[must_use]
    pub fn effect(&self, invocation: &ToolInvocation) -> Option<String> {
        let key = invocation.effect_key.as_ref()?;
        let named = serde_json::json!([self.run, invocation.call.name, key]).to_string();
        Some(hexadecimal(&Sha256::digest(named)))
    }

    /// Returns the error of a call that wants to carry out `effect`, if a call around it carries out the same effect and
    /// would wait for it. Otherwise returns `None`.
    #[must_use]
    pub fn refusal(&self, effect: Option<&String>) -> Option<DurableError> {
        effect.filter(|effect| self.carried.contains(effect))?;
        let text = "a call around this one carries out the same effect";
        Some(DurableError::Tool(ToolError::ExecutionFailed(text.into())))
    }

    /// Returns the scope for the calls inside the call that carries out `effect`.
    #[must_use]
    pub fn inside(&self, effect: Option<String>) -> Self {
        let mut inside = self.clone();
        inside.carried.extend(effect);
        inside
    }
}

impl ToolRequest {
    /// Creates the request of a call. `environment` names the variables that are copied from the call's environment.
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
            effect_scope: None,
        }
    }

    /// Returns the id of the call for [`StepRecord::call`]. A call that resumes an agent after an approval has the same
    /// idempotency key as before, and another id.
    #[must_use]
    pub fn call_id(&self) -> String {
        match &self.resumed {
            None => self.idempotency_key.clone(),
            Some(resumed) => {
                let resumed = serde_json::to_string(resumed).unwrap_or_default();
                format!("{}/{}", self.idempotency_key, hexadecimal(&Sha256::digest(resumed)))
            }
        }
    }

    /// Creates the context in which another process runs the call. The context has a new cancellation token and a new
    /// usage meter.
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

    /// Returns the tools of the agent that makes the call, and the [context](Self::context) of the call.
    ///
    /// `agent` is the outermost run's agent, and `tools` are its tools. The calling agent is this agent, or an agent
    /// nested inside it at any depth. Without an `agent`, agents inside the call inherit nothing from it.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if `tools` do not contain the agents around the call.
    pub fn place(
        &self,
        agent: Option<&dyn DurableAgent>,
        tools: Arc<dyn ToolSet>,
    ) -> Result<(Arc<dyn ToolSet>, ToolContext), DurableError> {
        let mut ctx = self.context();
        if let Some(agent) = agent {
            agent.extend_context(&mut ctx);
        }
        let found =
            AgentPath::find(&self.agents, tools.clone(), |agent| agent.extend_context(&mut ctx))?;
        let own = found.as_deref().and_then(ToolDyn::agent).map(AgentTool::tools);
        Ok((own.unwrap_or(tools), ctx))
    }
}

impl fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets.
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
