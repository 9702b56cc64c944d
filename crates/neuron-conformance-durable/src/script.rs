//! What the model of each scenario says.

use neuron_types::ErrorRecord;
use neuron_types::ProviderError;
use serde_json::{Value, json};
use std::time::Duration;

use crate::agent::COMPACTS_ABOVE;
use crate::scenario::Kind;

/// What precedes the number of an answer in its text, by which the model finds where it is in the script:
/// summaries carry it on.
const MARK: &str = "[answer ";

/// One answer of the model.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Tools and their arguments.
    pub(crate) calls: Vec<(&'static str, Value)>,
    /// How large the model says that the prompt was.
    pub(crate) input_tokens: usize,
    /// How the call fails, and whether each time.
    pub(crate) fails: Option<(ErrorRecord, Fails)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fails {
    Always,
    /// It succeeds when it is made again.
    Once,
}

impl Answer {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new(), input_tokens: 100, fails: None }
    }

    fn call(mut self, tool: &'static str, input: Value) -> Self {
        self.calls.push((tool, input));
        self
    }

    fn failing(self, error: &ProviderError, fails: Fails) -> Self {
        Self { fails: Some((error.into(), fails)), ..self }
    }
}

/// The number of the newest answer in a text.
pub(crate) fn newest_answer(text: &str) -> Option<usize> {
    let number = |rest: &str| rest.split(']').next()?.parse().ok();
    text.split(MARK).skip(1).filter_map(number).max()
}

/// The text that carries an answer's number.
pub(crate) fn marked(number: usize) -> String {
    format!("{MARK}{number}]")
}

/// What the model of a scenario says.
pub(crate) fn of(kind: Kind) -> Vec<Answer> {
    let done = || Answer::new("All is done.");
    let look = |place: &str| json!({ "place": place });
    match kind {
        Kind::Crash => crash(),
        Kind::Errors | Kind::Streams => vec![
            Answer::new("I order nothing.").call("order", json!({"quantity": 0})),
            Answer::new("I try what fails.").call("break", json!({"what": "a leg"})),
            Answer::new("I try what there is not.").call("vanish", json!({})),
            Answer::new("I steal, and look.")
                .call("steal", json!({"what": "a horse"}))
                .call("look", look("Oslo")),
            done(),
        ],
        Kind::ToolFails => vec![Answer::new("I break it.").call("break", json!({})), done()],
        Kind::Parallel => vec![
            Answer::new("I do four things.")
                .call("ponder", json!({"millis": 60}))
                .call("look", look("Oslo"))
                .call("order", json!({"quantity": 0}))
                .call("ponder", json!({"millis": 20})),
            done(),
        ],
        Kind::ModelFails => {
            let error = ProviderError::RateLimit { retry_after: Some(Duration::from_millis(7250)) };
            let fails = done().failing(&error, Fails::Always);
            vec![Answer::new("I look.").call("look", look("Oslo")), fails]
        }
        Kind::Retries => {
            let error = ProviderError::ServiceUnavailable("it sleeps".into());
            vec![
                Answer::new("I do what fails at first.")
                    .call("flicker", json!({}))
                    .call("snap", json!({}))
                    .failing(&error, Fails::Once),
                done(),
            ]
        }
        Kind::Denied | Kind::NotDecided | Kind::Cancelled => vec![
            Answer::new("I look, and wire.")
                .call("look", look("Oslo"))
                .call("wire", json!({"amount": 9000})),
            done(),
        ],
        Kind::ToolLimit => vec![
            Answer::new("I look twice.").call("look", look("Oslo")).call("look", look("Bergen")),
            Answer::new("I look twice.").call("look", look("Oslo")).call("look", look("Bergen")),
            done(),
        ],
        Kind::TokenLimit => vec![
            Answer::new("I look.").call("look", look("Oslo")),
            Answer::new("I let another agent look.").call("research", json!({})),
            Answer::new("I look again.").call("look", look("Oslo")),
            done(),
        ],
        Kind::HugeResult => vec![Answer::new("I read it all.").call("read", json!({})), done()],
        Kind::HugeAnswer => vec![
            Answer::new("I look.").call("look", look("Oslo")),
            Answer::new("x".repeat(crate::tools::HUGE)),
        ],
        Kind::MaxTurns => long(4),
        Kind::Long(turns) => long(turns),
        Kind::Continues | Kind::ContinuesToLimit | Kind::ToLimit => long(6),
        Kind::Signals | Kind::Clock => Vec::new(),
    }
}

/// Parallel tools of every effect, a retry, an approval, a compaction by a model, a tool that takes tokens.
fn crash() -> Vec<Answer> {
    vec![
        Answer::new("I look, book and pay at the same time.")
            .call("look", json!({"place": "Oslo"}))
            .call("book", json!({"room": 7}))
            .call("pay", json!({"amount": 120})),
        Answer::new("I order nothing.").call("order", json!({"quantity": 0})),
        Answer {
            input_tokens: COMPACTS_ABOVE,
            ..Answer::new("I order one, wire the rest, and look again.")
                .call("order", json!({"quantity": 1}))
                .call("wire", json!({"amount": 80}))
                .call("look", json!({"place": "Bergen"}))
        },
        Answer::new("I let another agent look into it.")
            .call("research", json!({"topic": "trains"})),
        Answer::new("All is done."),
    ]
}

/// So many turns, in each of which but the last four kilobytes come.
fn long(turns: usize) -> Vec<Answer> {
    let fetch = |page| Answer::new("I fetch a page.").call("fetch", json!({ "page": page }));
    let mut answers: Vec<_> = (1..turns).map(fetch).collect();
    answers.push(Answer::new("I have read all pages."));
    answers
}
