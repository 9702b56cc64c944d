//! Runs of an agent with the cases of an eval.

use std::collections::HashSet;
use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use neuron_types::{AgentResult, Message, TokenUsage};
use serde_json::Value;
use tokio::time::Instant;

use super::report::{CaseReport, CheckReport, Report, RunReport};
use super::{Case, Check, Score};

/// A set of cases with their checks, and the settings for the runs of an agent.
#[derive(Debug, Clone)]
#[must_use]
pub struct Eval {
    name: String,
    cases: Vec<Case>,
    checks: Vec<Check>,
    repeat: usize,
    concurrency: usize,
    timeout: Duration,
}

impl Eval {
    /// Creates an eval without cases.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cases: Vec::new(),
            checks: Vec::new(),
            repeat: 1,
            concurrency: 4,
            timeout: Duration::from_secs(600),
        }
    }

    /// Adds a case.
    pub fn case(mut self, case: Case) -> Self {
        self.cases.push(case);
        self
    }

    /// Adds cases.
    pub fn cases(mut self, cases: impl IntoIterator<Item = Case>) -> Self {
        self.cases.extend(cases);
        self
    }

    /// Adds a check that scores the runs of all cases.
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Sets the number of runs of each case. Default and minimum: 1.
    pub fn repeat(mut self, runs: usize) -> Self {
        self.repeat = runs.max(1);
        self
    }

    /// Sets the maximum number of concurrent runs. Default: 4. Minimum: 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.concurrency = runs.max(1);
        self
    }

    /// Sets the maximum time of a run, and of each check. Default: 10 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs an agent with all cases, and scores the runs.
    ///
    /// `agent` is called with a case, runs the agent, and returns the result of the run. A run fails if `agent` returns
    /// an error, panics or takes too long. A check fails if it panics or takes too long. A failure does not stop the
    /// other runs.
    ///
    /// All runs are in the task of the caller, so `agent` must not block the thread.
    ///
    /// # Panics
    ///
    /// Panics if two cases have the same name, or outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all runs.
    pub async fn run<E: Display>(
        &self,
        agent: impl AsyncFn(&Case) -> Result<AgentResult, E>,
    ) -> Report {
        let mut names = HashSet::new();
        for case in &self.cases {
            assert!(names.insert(case.name()), "two cases have the name {:?}", case.name());
        }
        let agent = &agent;
        let runs = self.cases.iter().flat_map(|case| (0..self.repeat).map(move |_| case));
        let mut reports: Vec<(usize, RunReport)> = stream::iter(runs.enumerate())
            .map(async |(index, case)| (index, self.run_case(case, agent).await))
            .buffer_unordered(self.concurrency)
            .collect()
            .await;
        // Runs end in any order. The report has the order of the cases.
        reports.sort_by_key(|(index, _)| *index);
        let mut reports = reports.into_iter().map(|(_, report)| report);
        let cases = self.cases.iter().map(|case| CaseReport {
            name: case.name().to_owned(),
            runs: reports.by_ref().take(self.repeat).collect(),
        });
        Report { name: self.name.clone(), cases: cases.collect() }
    }

    async fn run_case<E: Display>(
        &self,
        case: &Case,
        agent: &impl AsyncFn(&Case) -> Result<AgentResult, E>,
    ) -> RunReport {
        let start = Instant::now();
        // The closure is called inside the future, so that a panic before its first `await` is caught too.
        let result = match self.guarded(async { agent(case).await }).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(reason) => Err(format!("the agent {reason}")),
        };
        let seconds = start.elapsed().as_secs_f64();
        let result = match result {
            Ok(result) => result,
            Err(error) => return RunReport::failed(error, seconds),
        };
        let run = Run(result);
        let mut checks = Vec::new();
        for check in case.checks.iter().chain(&self.checks) {
            let scored = self.guarded(async { check.score(case, &run).await }).await;
            let (score, passed) = scored
                .unwrap_or_else(|reason| (Score::new(0.0, format!("the check {reason}")), false));
            let name = check.name().to_owned();
            checks.push(CheckReport { name, score: score.bounded(), passed, reason: score.reason });
        }
        RunReport {
            error: None,
            checks,
            tokens: run.usage().total_tokens(),
            turns: run.turns(),
            seconds,
        }
    }

    /// Runs `work` within the time limit. Returns the reason as an error if `work` panics or takes too long.
    async fn guarded<T>(&self, work: impl Future<Output = T>) -> Result<T, String> {
        let work = AssertUnwindSafe(work).catch_unwind();
        match tokio::time::timeout(self.timeout, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(panic)) => Err(format!("panicked: {}", text_of(&*panic))),
            Err(_) => Err(format!("took longer than {:?}", self.timeout)),
        }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

/// A finished run of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Run(AgentResult);

impl Run {
    /// Returns the result of the agent.
    #[must_use]
    pub fn result(&self) -> &AgentResult {
        &self.0
    }

    /// Returns the text of the response.
    #[must_use]
    pub fn response(&self) -> &str {
        &self.0.response
    }

    /// Returns the whole conversation.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.0.messages
    }

    /// Returns the tokens of the run.
    #[must_use]
    pub fn usage(&self) -> &TokenUsage {
        &self.0.usage
    }

    /// Returns the number of model calls.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.0.turns
    }

    /// Returns the names and arguments of all tool calls in the conversation, in the model's order. If the conversation
    /// began before this run, earlier calls are included.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&str, &Value)> {
        let calls = self.0.messages.iter().flat_map(Message::tool_uses);
        calls.map(|call| (call.name, call.input))
    }
}

impl From<AgentResult> for Run {
    fn from(result: AgentResult) -> Self {
        Self(result)
    }
}
