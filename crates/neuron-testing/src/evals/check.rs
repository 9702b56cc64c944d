//! The checks of a run.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use neuron_types::TokenUsage;
use serde_json::Value;

use super::{Case, Run};

type Scorer = dyn for<'a> Fn(&'a Case, &'a Run) -> BoxFuture<'a, Score> + Send + Sync;

/// A check that scores a run of an agent, from 0 to 1. The check passes if the score reaches its threshold.
#[derive(Clone)]
#[must_use]
pub struct Check {
    name: String,
    scorer: Arc<Scorer>,
    threshold: f64,
}

/// The result of a check, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// The score, from 0 to 1. A number outside of this range is limited to it, and a number that is not finite counts
    /// as 0.
    pub value: f64,
    /// The reason for the score. May be empty for a full score.
    pub reason: String,
}

impl Score {
    /// Creates a score with its reason.
    #[must_use]
    pub fn new(value: f64, reason: impl Into<String>) -> Self {
        Self { value, reason: reason.into() }
    }

    /// Returns the score, limited to the range from 0 to 1. A value that is not finite becomes 0.
    pub(super) fn bounded(&self) -> f64 {
        if self.value.is_finite() { self.value.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Converts `true` to the score 1, and `false` to the score 0.
impl From<bool> for Score {
    fn from(passes: bool) -> Self {
        Self::new(if passes { 1.0 } else { 0.0 }, "")
    }
}

/// A score without a reason.
impl From<f64> for Score {
    fn from(value: f64) -> Self {
        Self::new(value, "")
    }
}

/// Converts `Ok` to the score 1, and `Err` to the score 0 with the error as the reason.
impl<E: fmt::Display> From<Result<(), E>> for Score {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::from(true),
            Err(reason) => Self::new(0.0, reason.to_string()),
        }
    }
}

impl Check {
    /// Creates a check from the function `score`, which gets a case and a run of this case. The function may return a
    /// [`Score`], a `bool`, an `f64` or a `Result`.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_testing::evals::Check;
    ///
    /// let check = Check::new("is short", |_, run| run.response().len() <= 80);
    /// let check = Check::new("names both cities", |_, run| {
    ///     let cities = ["Bern", "Basel"].iter().filter(|city| run.response().contains(**city));
    ///     cities.count() as f64 / 2.0
    /// });
    /// ```
    pub fn new<S: Into<Score>>(
        name: impl Into<String>,
        score: impl Fn(&Case, &Run) -> S + Send + Sync + 'static,
    ) -> Self {
        Self::new_async(name, move |case, run| {
            let score = score(case, run).into();
            Box::pin(std::future::ready(score))
        })
    }

    /// Creates a check from the asynchronous function `score`, which gets a case and a run of this case. Use it for a
    /// check that waits, for example for a model or a database.
    pub fn new_async(
        name: impl Into<String>,
        score: impl for<'a> Fn(&'a Case, &'a Run) -> BoxFuture<'a, Score> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), scorer: Arc::new(score), threshold: 1.0 }
    }

    /// Sets the minimum score with which the check passes. Default: 1.
    pub fn threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    /// Passes if the response contains a text.
    pub fn response_contains(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(format!("response contains {text:?}"), move |_, run| {
            match run.response().contains(&text) {
                true => Ok(()),
                false => Err(format!("the response is {:?}", run.response())),
            }
        })
    }

    /// Passes if the response is a text, apart from white space around it.
    pub fn response_is(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(format!("response is {text:?}"), move |_, run| {
            match run.response().trim() == text.trim() {
                true => Ok(()),
                false => Err(format!("the response is {:?}", run.response())),
            }
        })
    }

    /// Passes if the agent calls a tool at least once.
    pub fn calls(tool: impl Into<String>) -> Self {
        let tool = tool.into();
        Self::new(format!("calls `{tool}`"), move |_, run| {
            match run.tool_calls().any(|(name, _)| name == tool) {
                true => Ok(()),
                false => Err(called(run)),
            }
        })
    }

    /// Passes if the agent calls a tool at least once with these arguments. The call may have further arguments.
    pub fn calls_with(tool: impl Into<String>, arguments: impl Into<Value>) -> Self {
        let (tool, arguments) = (tool.into(), arguments.into());
        Self::new(format!("calls `{tool}` with {arguments}"), move |_, run| {
            let is_meant =
                |(name, given): (&str, &Value)| name == tool && contains(given, &arguments);
            match run.tool_calls().any(is_meant) {
                true => Ok(()),
                false => Err(called(run)),
            }
        })
    }

    /// Passes if the agent calls exactly these tools in this order.
    pub fn call_order(tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
        Self::new(format!("calls {} in this order", tools.join(", ")), move |_, run| {
            match run.tool_calls().map(|(name, _)| name).eq(tools.iter().map(String::as_str)) {
                true => Ok(()),
                false => Err(called(run)),
            }
        })
    }

    /// Passes if the agent never calls a tool.
    pub fn never_calls(tool: impl Into<String>) -> Self {
        let tool = tool.into();
        Self::new(format!("never calls `{tool}`"), move |_, run| {
            match run.tool_calls().all(|(name, _)| name != tool) {
                true => Ok(()),
                false => Err(called(run)),
            }
        })
    }

    /// Passes if the run uses at most this number of input and output tokens.
    pub fn max_tokens(tokens: usize) -> Self {
        Self::new(format!("at most {tokens} tokens"), move |_, run| {
            match run.usage().total_tokens() {
                used if used <= tokens => Ok(()),
                used => Err(format!("it used {used} tokens")),
            }
        })
    }

    /// Passes if the run makes at most this number of model calls.
    pub fn max_turns(turns: usize) -> Self {
        Self::new(format!("at most {turns} turns"), move |_, run| match run.turns() {
            made if made <= turns => Ok(()),
            made => Err(format!("it made {made} turns")),
        })
    }

    /// Passes if the run costs at most `amount`. `price` returns the cost of the run's tokens, in the currency of
    /// `amount`.
    pub fn max_cost(
        amount: f64,
        price: impl Fn(&TokenUsage) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self::new(format!("costs at most {amount}"), move |_, run| match price(run.usage()) {
            cost if cost <= amount => Ok(()),
            cost => Err(format!("it cost {cost}")),
        })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn score(&self, case: &Case, run: &Run) -> (Score, bool) {
        let score = (self.scorer)(case, run).await;
        let passes = score.bounded() >= self.threshold;
        (score, passes)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("threshold", &self.threshold)
            .finish_non_exhaustive()
    }
}

/// Returns the names of the called tools as a text for the reason of a score.
fn called(run: &Run) -> String {
    let calls: Vec<String> =
        run.tool_calls().map(|(name, arguments)| format!("`{name}` with {arguments}")).collect();
    match calls.is_empty() {
        true => "it called no tool".to_owned(),
        false => format!("it called {}", calls.join(", ")),
    }
}

/// Returns `true` if `value` has all fields of `part`, including those of nested objects. Lists and plain values must
/// be equal. Numbers are compared by value, because a model may write 5 as 5.0.
fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(fields), Value::Object(part)) => part
            .iter()
            .all(|(name, part)| fields.get(name).is_some_and(|value| contains(value, part))),
        (Value::Number(value), Value::Number(part)) => {
            value == part || value.as_f64() == part.as_f64() && (value.is_f64() || part.is_f64())
        }
        (value, part) => value == part,
    }
}
