//! A minimal durable engine. Its journals are files with one JSON value per line.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use neuron_conformance_durable::{
    DurableEngine, EffectLog, RunFailure, Scenario, ScenarioProvider, boundary,
};
use neuron_durable::{
    Asked, EffectKeys, LocalDurableContext, RequestLog, StepRecord, execute_as_batch,
    outcome_unknown, tool_digest,
};
use neuron_types::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum size of a journal record in bytes.
const LIMIT: usize = 1 << 20;

/// Name of the broken behaviour. A misspelt name breaks nothing, and its test fails.
pub(crate) type Mutation = &'static str;

/// A durable engine without a server. Its runs are files in a directory.
pub(crate) struct Reference {
    place: PathBuf,
    mutation: Mutation,
    cancelled: Mutex<HashMap<String, ToolContext>>,
}

impl Reference {
    pub(crate) fn new(place: impl Into<PathBuf>) -> Self {
        Self::broken(place, "")
    }

    pub(crate) fn broken(place: impl Into<PathBuf>, mutation: Mutation) -> Self {
        Self { place: place.into(), mutation, cancelled: Mutex::default() }
    }

    fn path(&self, run_id: &str, what: &str) -> PathBuf {
        self.place.join(format!("{run_id}.{what}"))
    }
}

impl DurableEngine for Reference {
    // Its agents have no common journal in which a call could claim an effect.
    fn shares_effect_keys(&self) -> bool {
        false
    }

    async fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        let ctx = ToolContext::default();
        self.cancelled.lock().unwrap().insert(run_id.to_owned(), ctx.clone());
        let agent = scenario.agent(log).cancelled_with(&ctx);
        let mut start = scenario.start();
        for execution in 0.. {
            let journal = self.path(run_id, &format!("journal-{execution}"));
            let journal = Journal::open(journal, self.path(run_id, "signals"), self.mutation);
            let state = journal.state.clone();
            let context = JournalContext::new(run_id, scenario, log, journal);
            if self.mutation != "ContinuesWithoutEffects" {
                context.effects.restart(&start);
            }
            match agent.run(start, Durability::new(context)).await {
                Err(LoopError::Durable(DurableError::ContinueAsNew(_)))
                    if self.mutation != "ContinuesWithoutEnd" =>
                {
                    let state = state.lock().unwrap().take().expect("the state");
                    let mut snapshot: RunSnapshot = serde_json::from_value(state).unwrap();
                    let run = &mut snapshot.loop_state["tally"]["run"];
                    match self.mutation {
                        "ContinuesWithoutUsage" => run["usage"] = json!({}),
                        "ContinuesWithoutTurns" => {
                            (run["turns"], run["requests"]) = (json!(0), json!(0))
                        }
                        _ => {}
                    }
                    start = snapshot.into();
                }
                Ok(mut result) if self.mutation == "DropsLastMessage" => {
                    result.messages.pop();
                    return Ok(result);
                }
                Err(_) if self.mutation == "CancelIsAFailure" => {
                    return Err(RunFailure::new("something went wrong"));
                }
                result => return result.map_err(RunFailure::from),
            }
        }
        unreachable!("executions do not end by themselves")
    }

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        append(&self.path(run_id, "signals"), &(name, value));
        Ok(())
    }

    async fn cancel(&self, run_id: &str) -> Option<Result<(), RunFailure>> {
        self.cancelled.lock().unwrap()[run_id].cancellation_token.cancel();
        Some(Ok(()))
    }

    async fn journal_bytes(&self, run_id: &str) -> Option<u64> {
        Some(std::fs::metadata(self.path(run_id, "journal-0")).unwrap().len())
    }
}

/// A line of a journal.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    /// Input of the step, which a replay compares with its own input. A tool call has a digest as its input. Any other
    /// step has the JSON of an [`Asked`].
    #[serde(default)]
    digest: String,
    /// Result of the step. `None` if the step has only begun.
    #[serde(default)]
    record: Option<Value>,
}

struct Journal {
    path: PathBuf,
    signals: PathBuf,
    lines: Mutex<HashMap<String, Line>>,
    state: Arc<Mutex<Option<Value>>>,
    mutation: Mutation,
}

impl Journal {
    fn open(path: PathBuf, signals: PathBuf, mutation: Mutation) -> Self {
        let lines: Vec<Line> = read(&path);
        let lines = lines.into_iter().map(|line| (line.key.clone(), line)).collect();
        Self { path, signals, lines: Mutex::new(lines), state: Arc::default(), mutation }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    fn write(&self, key: &str, digest: &str, record: Option<Value>) {
        boundary(&format!("journal: {key} is not there"));
        let line = Line { key: key.into(), digest: digest.into(), record };
        append(&self.path, &line);
        boundary(&format!("journal: {key} is there"));
        self.lines.lock().unwrap().insert(key.into(), line);
    }

    /// Returns the recorded state of the step `key`. Fails if the input of the recorded step differs from `digest`.
    fn find(&self, key: &str, digest: &str) -> Result<Found, DurableError> {
        let lines = self.lines.lock().unwrap();
        let Some(line) = lines.get(key) else { return Ok(Found::Nothing) };
        if line.digest != digest && !self.is("IgnoresDigests") {
            if self.is("PoisonsRuns") {
                append(&self.path, &Line { key: key.into(), digest: digest.into(), record: None });
            }
            return Err(self.differs(key, &line.digest, digest));
        }
        Ok(line.record.clone().map_or(Found::Begun, Found::Ended))
    }

    /// Creates the error for a step whose input differs from the journal.
    fn differs(&self, key: &str, recorded: &str, now: &str) -> DurableError {
        let asked = |json| serde_json::from_str::<Asked>(json).ok();
        match (asked(recorded), asked(now)) {
            (Some(recorded), Some(now)) if !self.is("NamesNoField") => {
                RequestLog::default().replay(key, &now, &recorded).unwrap_err()
            }
            _ => {
                let (expected, got) = (format!("{key} of the journal"), "another".into());
                DurableError::NonDeterminism { expected, got }
            }
        }
    }
}

enum Found {
    Nothing,
    Begun,
    Ended(Value),
}

struct JournalContext {
    run_id: String,
    journal: Journal,
    /// Calls the model and the tools.
    local: LocalDurableContext<ScenarioProvider>,
    tools: Arc<neuron_tool::ToolRegistry>,
    effects: EffectKeys,
    /// Number of steps of each kind.
    steps: Mutex<HashMap<&'static str, usize>>,
    /// The latest time of the journal, in milliseconds since 1970.
    now: AtomicI64,
}

impl JournalContext {
    fn new(run_id: &str, scenario: &Scenario, log: &EffectLog, journal: Journal) -> Self {
        let tools = scenario.tools(log);
        let local = LocalDurableContext::new(Arc::new(scenario.provider(log)), tools.clone());
        let run_id = run_id.to_owned();
        let (steps, effects, now) = (Mutex::default(), EffectKeys::default(), AtomicI64::new(0));
        let context = Self { run_id, journal, local, tools, effects, steps, now };
        context.stamp("start");
        context
    }

    async fn run_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let batch_key = self.next_key("tools");
        let options = match self.journal.mutation {
            "NoRetries" => ActivityOptions { retry_policy: None, ..options },
            _ => options,
        };
        let first = batch.first().map(|invocation| invocation.scope.clone()).unwrap_or_default();
        let calls = batch.into_iter().enumerate().map(|(index, mut invocation)| {
            if self.journal.is("RunsInOneScope") {
                invocation.scope = first.clone();
            }
            self.tool(format!("{batch_key}/{index}"), invocation, options.clone())
        });
        if self.journal.is("ResultsAsTheyCome") {
            let calls = calls.collect::<futures_util::stream::FuturesUnordered<_>>();
            return futures_util::StreamExt::collect(calls).await;
        }
        join_all(calls).await
    }

    /// Returns the journal key of the next step of a kind, such as `tools/0`, and increments the number of this kind.
    fn next_key(&self, kind: &'static str) -> String {
        let mut steps = self.steps.lock().unwrap();
        let number = steps.entry(kind).or_default();
        *number += 1;
        format!("{kind}/{}", *number - 1)
    }

    /// Sets `now` to the current time, and writes this time to the journal under `key`. On replay, sets `now` to the
    /// recorded time.
    fn stamp(&self, key: &str) {
        let at = match self.journal.find(key, "") {
            Ok(Found::Ended(at)) => at.as_i64().unwrap(),
            _ => {
                let now = Utc::now().timestamp_millis();
                self.journal.write(key, "", Some(now.into()));
                now
            }
        };
        self.see(at);
    }

    fn see(&self, at: i64) {
        self.now.fetch_max(at, Ordering::SeqCst);
    }

    async fn llm(
        &self,
        request: RequestRef<'_>,
        work: impl Future<Output = Result<CompletionResponse, DurableError>>,
    ) -> Result<CompletionResponse, DurableError> {
        let key = self.next_key("llm");
        let mut asked = RequestLog::default().ask(request)?;
        let journal = &self.journal;
        if journal.is("DigestsOneMessage") {
            let messages = request.messages.last().cloned().into_iter().collect();
            let request = CompletionRequest { messages, ..Default::default() };
            asked = RequestLog::default().ask(request.view())?;
        }
        let digest = serde_json::to_string(&asked).unwrap();
        if journal.is("JournalsRequests") {
            append(
                &journal.path,
                &Line {
                    key: format!("request of {key}"),
                    digest: String::new(),
                    record: Some(serde_json::to_value(request).unwrap()),
                },
            );
        }
        let is_forgotten = journal.is("ForgetsAnswers")
            || (journal.is("ForgetsSummaries") && request.tools.is_empty());
        let json = match self.journal.find(&key, &digest)? {
            Found::Ended(record) if !is_forgotten => serde_json::to_vec(&record).unwrap(),
            _ => {
                let result = match work.await {
                    Ok(response) => Ok(response),
                    Err(DurableError::Provider(error)) if journal.is("ErrorsAreTexts") => {
                        Err(ProviderError::Other(error.to_string().into()))
                    }
                    Err(DurableError::Provider(error)) if !journal.is("ForgetsErrors") => {
                        Err(error)
                    }
                    Err(error) => return Err(error),
                };
                let limit = if journal.is("NoRecordLimit") { usize::MAX } else { LIMIT };
                let record = StepRecord::of_llm(result, Utc::now());
                let json = record.to_json_within(limit)?;
                if journal.is("HugeIsNotRecorded") && record.to_json()?.len() > LIMIT {
                    return StepRecord::<CompletionResponse>::from_json(&json)?.into_llm();
                }
                self.journal.write(&key, &digest, Some(serde_json::from_slice(&json).unwrap()));
                json
            }
        };
        let record = StepRecord::<CompletionResponse>::from_json(&json)?;
        self.see(record.at);
        record.into_llm()
    }

    async fn tool(
        &self,
        key: String,
        invocation: ToolInvocation,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let ToolInvocation { call, mut ctx, effect, scope, .. } = invocation;
        let journal = &self.journal;
        if journal.is("NewKeys") {
            ctx.idempotency_key = format!("{:?}", std::time::Instant::now());
        }
        let digest = tool_digest(&call)?;
        let found = self.journal.find(&key, &digest)?;
        let is_begun = !matches!(found, Found::Nothing);
        if let Found::Ended(record) = found
            && !journal.is("ForgetsTools")
        {
            let record =
                StepRecord::<ToolOutput>::from_json(&serde_json::to_vec(&record).unwrap())?;
            self.see(record.at);
            if journal.is("ReplaysInScope") {
                scope.run(async {}).await;
            }
            return match journal.mutation {
                "ForgetsToolUsage" => record.into_tool_uncounted(),
                _ => record.into_tool(&ctx.usage),
            };
        }
        let must_not_repeat = match journal.mutation {
            "RunsAgain" | "ForgetsTools" => false,
            "NeverRepeats" => true,
            _ => effect == ToolEffect::AtMostOnce,
        };
        let result = if is_begun && must_not_repeat {
            Ok(outcome_unknown(&call.name))
        } else {
            if journal.is("RecordsBeforeItRuns") {
                let (nothing, usage) = (ToolOutput::text(""), TokenUsage::default());
                let record = StepRecord::of_tool(Ok(nothing), usage, Utc::now()).to_json()?;
                journal.write(&key, &digest, Some(serde_json::from_slice(&record).unwrap()));
            } else if !journal.is("WritesNoIntent") {
                journal.write(&key, &digest, None);
            }
            let work =
                self.local.execute_tool(&call.name, call.input.clone(), &ctx, options.clone());
            let mut result = match journal.mutation {
                "RunsInNoScope" => work.await,
                _ => scope.run(work).await,
            };
            if journal.is("RetriesAll") && result.is_err() {
                result = self.local.execute_tool(&call.name, call.input, &ctx, options).await;
            }
            match result {
                Ok(output) => Ok(output),
                Err(DurableError::Tool(ToolError::ModelRetry(text)))
                    if journal.is("RetryIsFailure") =>
                {
                    Err(ToolError::ExecutionFailed(text.into()))
                }
                Err(DurableError::Tool(error)) => Err(error),
                Err(error) => return Err(error),
            }
        };
        let limit = if journal.is("NoRecordLimit") { usize::MAX } else { LIMIT };
        let record = StepRecord::of_tool(result, ctx.usage.total(), Utc::now());
        let json = record.to_json_within(&call.name, limit)?;
        if journal.is("HugeIsNotRecorded") && record.to_json()?.len() > LIMIT {
            return StepRecord::<ToolOutput>::from_json(&json)?.into_tool_uncounted();
        }
        if journal.is("CountsToolUsageTwice") {
            ctx.usage.add(&ctx.usage.total());
        }
        self.journal.write(&key, &digest, Some(serde_json::from_slice(&json).unwrap()));
        let record = StepRecord::<ToolOutput>::from_json(&json)?;
        self.see(record.at);
        record.into_tool_uncounted()
    }

    async fn signal(&self, name: &str, timeout: Duration) -> Result<Option<Value>, DurableError> {
        let key = self.next_key("signal");
        let taken = |record: &Value| record.get("signal").is_some();
        let before = {
            let lines = self.journal.lines.lock().unwrap();
            let of_name = lines.values().filter(|line| line.digest == name);
            of_name.filter(|line| line.record.as_ref().is_some_and(taken)).count()
        };
        let journal = &self.journal;
        if let Found::Ended(value) = journal.find(&key, name)? {
            let is_forgotten = journal.is("ForgetsSignals")
                || (journal.is("ForgetsThatNoneCame") && !taken(&value));
            if !is_forgotten {
                return Ok(value.get("signal").cloned());
            }
        }
        let lost = match journal.mutation {
            "LosesEarlySignals" => read::<(String, Value)>(&journal.signals).len(),
            _ => 0,
        };
        let waited = tokio::time::timeout(timeout, async {
            loop {
                let sent: Vec<(String, Value)> = read(&self.journal.signals);
                let sent = sent.into_iter().skip(lost).filter(|(sent, _)| sent == name);
                let mut sent: Vec<_> = sent.collect();
                if journal.is("NewestSignalFirst") {
                    sent.reverse();
                }
                match sent.into_iter().nth(before) {
                    Some((_, value)) => return value,
                    None => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        });
        let value = waited.await.ok();
        let none = || serde_json::json!({});
        let record = value.as_ref().map_or_else(none, |value| serde_json::json!({"signal": value}));
        self.journal.write(&key, name, Some(record));
        Ok(value)
    }
}

impl DurableContext for JournalContext {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.execute_llm_call_ref(request.view(), options).await
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.llm(request, self.local.execute_llm_call_ref(request, options)).await
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        match self.journal.mutation {
            "NoDeltas" => self.execute_llm_call_ref(request, options).await,
            "DeltasTwice" => {
                let response = self
                    .llm(request, self.local.execute_llm_stream(request, options, sink))
                    .await?;
                for delta in message_events(&response.message).collect::<Vec<_>>() {
                    sink.send(delta).await;
                }
                Ok(response)
            }
            _ => self.llm(request, self.local.execute_llm_stream(request, options, sink)).await,
        }
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let call = ToolCall { id: ctx.call_id.clone(), name: tool_name.into(), input };
        execute_as_batch(self, &*self.tools, call, ctx, options).await
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        match self.journal.is("ForgetsEffects") {
            true => self.run_tools(batch, options).await,
            false => self.effects.run(batch, |batch| self.run_tools(batch, options)).await,
        }
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        match self.journal.find(name, "")? {
            Found::Ended(recorded) if !self.journal.is("RecordsNothing") => Ok(recorded),
            _ => {
                self.journal.write(name, "", Some(value.clone()));
                Ok(value)
            }
        }
    }

    async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        parse_signal(self.signal(signal_name, timeout).await?)
    }

    fn should_continue_as_new(&self) -> bool {
        false
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        self.effects.to_stored()
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        *self.journal.state.lock().unwrap() = Some(state);
        Err(DurableError::ContinueAsNew(self.run_id.clone()))
    }

    async fn sleep(&self, duration: Duration) {
        self.stamp(&self.next_key("sleep"));
        let end = self.now() + duration;
        tokio::time::sleep((end - Utc::now()).to_std().unwrap_or_default()).await;
        self.see(end.timestamp_millis());
        if self.journal.is("ClockGoesBack") {
            self.now.fetch_sub(1000, Ordering::SeqCst);
        }
    }

    fn now(&self) -> DateTime<Utc> {
        if self.journal.is("LivingClock") {
            return Utc::now();
        }
        DateTime::from_timestamp_millis(self.now.load(Ordering::SeqCst)).expect("a time")
    }

    fn run_id(&self) -> Option<&str> {
        Some(&self.run_id)
    }
}

/// Appends a line. A kill may have cut the last line, so this one begins with the end of a line.
fn append(path: &Path, line: &impl Serialize) {
    let mut json = vec![b'\n'];
    serde_json::to_writer(&mut json, line).unwrap();
    json.push(b'\n');
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(&json)).unwrap();
}

/// Reads the lines. A line that a kill has cut was not written.
fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
