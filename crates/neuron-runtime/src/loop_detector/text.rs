//! The texts of warnings and errors.

use neuron_types::RunTools;

use super::found::{Found, Pattern};
use super::step::{Call, Steps};

/// Maximum number of calls that a text names.
const MAX_CALLS: usize = 6;

/// Maximum number of characters of a call's arguments in an error.
const MAX_ARGUMENTS: usize = 200;

/// Returns the warning for the model. `end` is the count at which the run ends, if it ends.
///
/// The warnings of one loop have the same text. A compaction keeps only the newest of equal reminders, so many
/// repetitions do not fill the conversation.
///
/// The text has no arguments, and no name of a tool that does not exist. A model may have copied them from an untrusted
/// text, and models trust system messages more than other messages. A tool exists if it is in the requests, or if its
/// call succeeded. The list of deferred tools is not read, because a durable run may replay after it has changed.
pub(super) fn warning(
    found: Found,
    end: Option<usize>,
    steps: &mut Steps<'_>,
    tools: RunTools<'_>,
) -> String {
    let is_visible = |call: &Call<'_>| tools.visible.iter().any(|tool| tool.name == call.name);
    let name = |call: &Call<'_>| match is_visible(call) || call.succeeded() {
        true => format!("`{}`", call.name),
        false => "a tool".to_owned(),
    };
    let calls = calls(found, steps);
    let is_one = calls.len() == 1;
    let names = listed(calls.iter().map(name));
    let (call, result) = if is_one { ("this call", "result") } else { ("these calls", "results") };
    let what = match (found.pattern, is_one) {
        (Pattern::NoProgress, _) => {
            format!("Your calls of {names} returned the same {result} several times in a row")
        }
        (_, true) => format!("You called {names} several times in a row with the same arguments"),
        (_, false) => format!("You made the same calls of {names} several times in a row"),
    };
    let advice = match found.pattern {
        Pattern::SameResults if is_one => format!(
            ", and the result did not change. Do not make {call} again. Use the result that you have, try other \
             arguments or another tool"
        ),
        Pattern::SameResults => format!(
            ", and the results did not change. Do not make {call} again. Use the results that you have, try other \
             arguments or other tools"
        ),
        Pattern::AnyResults => format!(
            ". Unless {call} bring you closer to the goal, stop. Use the {result} that you have, try other arguments \
             or another tool"
        ),
        Pattern::NoProgress => {
            ". Other arguments do not help. Try another tool or another approach".to_owned()
        }
    };
    let end =
        end.map(|end| format!(" The run ends when this happens {} times in a row.", end.max(2)));
    let end = end.unwrap_or_default();
    format!("{what}{advice}, or give your final answer and say what is missing.{end}")
}

/// Returns the reason why the run ends, with the arguments of the calls.
pub(super) fn error(found: Found, steps: &mut Steps<'_>) -> String {
    let calls = calls(found, steps);
    let (count, is_one) = (found.count, calls.len() == 1);
    let described = listed(calls.iter().map(described));
    let noun = if is_one { "call" } else { "calls" };
    match found.pattern {
        Pattern::NoProgress => {
            format!(
                "loop detector: the last {count} responses of the model got the same result from {}; the last {noun}: \
                 {described}",
                listed(calls.iter().map(|call| format!("`{}`", call.name)))
            )
        }
        pattern => {
            let end = match (pattern, is_one) {
                (Pattern::SameResults, true) => ", and the result did not change",
                (Pattern::SameResults, false) => ", and the results did not change",
                _ => "",
            };
            format!(
                "loop detector: the model made the {noun} {described} {count} times in a row{end}"
            )
        }
    }
}

/// Returns the different calls of a loop's last sequence, oldest first.
fn calls<'a>(found: Found, steps: &mut Steps<'a>) -> Vec<Call<'a>> {
    let mut calls: Vec<Call<'a>> = Vec::new();
    for index in (0..found.period).rev() {
        for call in steps.get(index).into_iter().flat_map(|step| &step.0) {
            if !calls.iter().any(|other| other.is_same(call)) {
                calls.push(*call);
            }
        }
    }
    calls
}

/// Returns the first texts in a list, without repetitions, and the number of the others.
fn listed(texts: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    let others = all.len().saturating_sub(MAX_CALLS);
    all.truncate(MAX_CALLS);
    let listed = all.join(", ");
    match others {
        0 => listed,
        others => format!("{listed} and {others} others"),
    }
}

/// Returns the name of a call's tool with the beginning of the arguments.
fn described(call: &Call<'_>) -> String {
    let input = call.input.to_string();
    match input.char_indices().nth(MAX_ARGUMENTS) {
        Some((end, _)) => format!("`{}({}…)`", call.name, input.get(..end).unwrap_or_default()),
        None => format!("`{}({input})`", call.name),
    }
}
