//! The scripted model responses of each scenario.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::{Map, Value};

use crate::agent::COMPACTS_ABOVE;
use crate::scenario::Kind;
use crate::tools::HUGE;

/// Start of a mark such as `[answer 3]`. The text of each scripted response and of each summary contains a mark.
///
/// The scripted model keeps no state. The highest number in the marks of the conversation determines its next response.
const MARK: &str = "[answer ";

/// Returns the highest N of all marks `[answer N]` in a text. Returns `None` if the text has no such mark.
pub(crate) fn newest_response(text: &str) -> Option<usize> {
    let number = |rest: &str| rest.split(']').next()?.parse().ok();
    text.split(MARK).skip(1).filter_map(number).max()
}

/// Returns the text `[answer N]` for the response with the number N. It marks the response in the conversation.
pub(crate) fn marked(number: usize) -> String {
    format!("{MARK}{number}]")
}

/// Returns the text and the tool calls of a response of the outer agent. Returns `None` after the last response.
pub(crate) fn response(kind: Kind, number: usize) -> Option<(String, Vec<(String, Value)>)> {
    let line = match (kind, turns(kind)) {
        (Kind::HugeAnswer, _) if number == 1 => "x".repeat(HUGE),
        (_, Some(turns)) if number + 1 < turns => {
            format!("I fetch a page. | fetch page={}", number + 1)
        }
        (_, Some(turns)) if number + 1 == turns => "I have read all pages.".into(),
        _ => (*lines(kind).get(number)?).to_owned(),
    };
    parse(&line)
}

/// Parses a text and its tool calls, which are separated by ` | `.
pub(crate) fn parse(line: &str) -> Option<(String, Vec<(String, Value)>)> {
    let mut parts = line.split(" | ");
    let text = parts.next()?.to_owned();
    Some((text, parts.map(tool_call).collect()))
}

/// Parses a tool call with at most one argument, such as `look place=Oslo`.
fn tool_call(call: &str) -> (String, Value) {
    let (tool, argument) = call.split_once(' ').unwrap_or((call, ""));
    let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
    let argument = argument.split_once('=').map(|(name, text)| (name.to_owned(), parsed(text)));
    (tool.to_owned(), Value::Object(Map::from_iter(argument)))
}

/// Returns the number of turns of a scenario that fetches a page of four kilobytes in every turn except the last.
/// Returns `None` for any other scenario.
fn turns(kind: Kind) -> Option<usize> {
    match kind {
        Kind::MaxTurns => Some(4),
        Kind::Long(turns) => Some(turns),
        Kind::Continues | Kind::ContinuesToLimit | Kind::ToLimit => Some(6),
        _ => None,
    }
}

/// Returns the scripted model responses of a scenario. Each line has a text and its tool calls, separated by ` | `.
fn lines(kind: Kind) -> &'static [&'static str] {
    const DONE: &str = "All is done.";
    match kind {
        // Stored histories of engines contain these texts and arguments, so they must not change.
        Kind::Crash => &[
            "I look, book and pay at the same time. | look place=Oslo | book room=7 | pay amount=120",
            "I order nothing. | order quantity=0",
            "I order one, wire the rest, and look again. | order quantity=1 | wire amount=80 | look place=Bergen",
            "I let another agent look into it. | research topic=trains",
            DONE,
        ],
        Kind::Errors | Kind::Streams => &[
            "I order nothing. | order quantity=0",
            "I call a tool that fails. | break what=leg",
            "I call a tool that does not exist. | vanish",
            "I steal, and look. | steal what=horse | look place=Oslo",
            DONE,
        ],
        Kind::ToolFails => &["I break it. | break", DONE],
        Kind::Parallel => &[
            "I do four things. | ponder millis=60 | look place=Oslo | order quantity=0 | ponder millis=20",
            DONE,
        ],
        Kind::ModelFails => &["I look. | look place=Oslo", DONE],
        Kind::HugeAnswer => &["I look. | look place=Oslo"],
        Kind::Retries => &["I call tools that fail at first. | flicker | snap", DONE],
        Kind::Denied | Kind::NotDecided | Kind::Cancelled => {
            &["I look, and wire. | look place=Oslo | wire amount=9000", DONE]
        }
        Kind::ToolLimit => &[
            "I look twice. | look place=Oslo | look place=Bergen",
            "I look twice. | look place=Oslo | look place=Bergen",
            DONE,
        ],
        Kind::TokenLimit => &[
            "I look. | look place=Oslo",
            "I let another agent look. | research",
            "I look again. | look place=Oslo",
            DONE,
        ],
        Kind::HugeResult => &["I read it all. | read", DONE],
        Kind::EffectKeys => &[
            "I settle an invoice. | settle invoice=17",
            "I settle it again, and another one. | settle invoice=17 | settle invoice=18",
            "I settle another one twice. | settle invoice=19 | settle invoice=19",
            "I settle the first again. | settle invoice=17",
            DONE,
        ],
        Kind::Team => &[
            "I look, and ask an agent. | look place=Oslo | planner prompt=Plan",
            "I ask once more. | look place=Bergen",
            DONE,
        ],
        Kind::TeamSettles => &[
            "I ask two agents. | clerk prompt=Settle | planner prompt=Plan",
            "I ask once more. | clerk prompt=Settle",
            "I ask again, and settle it. | clerk prompt=Settle | settle invoice=17",
            DONE,
        ],
        Kind::TeamAsks => &["I ask two agents. | planner prompt=Plan | clerk prompt=Wire", DONE],
        _ => &[],
    }
}

/// Returns the scripted error of an attempt at model call `number`. The first attempt has number 1. Returns `None` if
/// the attempt succeeds.
pub(crate) fn failure(kind: Kind, number: usize, attempt: usize) -> Option<ProviderError> {
    match (kind, number, attempt) {
        (Kind::ModelFails, 1, _) => {
            Some(ProviderError::RateLimit { retry_after: Some(Duration::from_millis(7250)) })
        }
        (Kind::Retries, 0, 1) => Some(ProviderError::ServiceUnavailable("it sleeps".into())),
        _ => None,
    }
}

/// Returns the prompt size in tokens that the model reports. One size in the crash scenario is large enough to cause a
/// compaction.
pub(crate) fn input_tokens(kind: Kind, number: usize) -> usize {
    if (kind, number) == (Kind::Crash, 2) { COMPACTS_ABOVE } else { 100 }
}
