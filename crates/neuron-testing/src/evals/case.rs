//! The inputs of an eval.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Check;

/// An input for an agent, with the checks that score the agent's runs.
#[derive(Debug, Clone)]
#[must_use]
pub struct Case {
    name: String,
    input: String,
    data: Value,
    pub(super) checks: Vec<Check>,
}

/// The JSON form of a [`Case`] in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    name: String,
    input: String,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    expect: Expected,
}

/// The field `expect` of a case in a file, which lists the checks of the case.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    response: Option<String>,
    response_contains: Vec<String>,
    calls: Vec<Call>,
    call_order: Option<Vec<String>>,
    never_calls: Vec<String>,
    max_tokens: Option<usize>,
    max_turns: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Case {
    /// Creates a case without checks. `name` is unique in its [`Eval`](super::Eval).
    pub fn new(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self { name: name.into(), input: input.into(), data: Value::Null, checks: Vec::new() }
    }

    /// Adds a check.
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Sets data of the case, in addition to the input, that the agent and the checks can read.
    pub fn with_data(mut self, data: impl Into<Value>) -> Self {
        self.data = data.into();
        self
    }

    /// Reads cases from a JSON list.
    ///
    /// Each case has a `name` and an `input`, and optionally `data` and `expect`. The fields of `expect` are
    /// `response`, `response_contains`, `calls`, `call_order`, `never_calls`, `max_tokens` and `max_turns`. Each field
    /// adds the check of the same name in [`Check`], and `response` adds [`Check::response_is`].
    ///
    /// # Errors
    ///
    /// Returns an error for JSON that is not a list of cases. The error has the line and the column.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_testing::evals::Case;
    ///
    /// let cases = Case::from_json(
    ///     r#"[{
    ///         "name": "bern",
    ///         "input": "How is the weather in Bern?",
    ///         "expect": {
    ///             "response_contains": ["sunny"],
    ///             "calls": [{"tool": "weather", "arguments": {"city": "Bern"}}],
    ///             "max_turns": 2
    ///         }
    ///     }]"#,
    /// )?;
    /// assert_eq!(cases[0].name(), "bern");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn from_json(json: &str) -> Result<Vec<Self>, serde_json::Error> {
        let stored: Vec<Stored> = serde_json::from_str(json)?;
        Ok(stored.into_iter().map(Self::from).collect())
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the input for the agent.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.input
    }

    /// Returns the data of [`with_data`](Self::with_data). `null` by default.
    #[must_use]
    pub fn data(&self) -> &Value {
        &self.data
    }
}

impl From<Stored> for Case {
    fn from(stored: Stored) -> Self {
        let Stored { name, input, data, expect } = stored;
        let calls = expect.calls.into_iter().map(|call| match call.arguments.is_empty() {
            true => Check::calls(call.tool),
            false => Check::calls_with(call.tool, Value::Object(call.arguments)),
        });
        let checks = (expect.response.into_iter().map(Check::response_is))
            .chain(expect.response_contains.into_iter().map(Check::response_contains))
            .chain(calls)
            .chain(expect.call_order.into_iter().map(Check::call_order))
            .chain(expect.never_calls.into_iter().map(Check::never_calls))
            .chain(expect.max_tokens.map(Check::max_tokens))
            .chain(expect.max_turns.map(Check::max_turns));
        Self { name, input, data, checks: checks.collect() }
    }
}
