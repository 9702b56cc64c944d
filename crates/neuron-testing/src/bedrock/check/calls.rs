//! Bedrock's rules for tool calls and their results.

use std::collections::HashSet;

use super::ApiError;
use super::messages::Turn;
use super::wording::{Object, invalid};
use crate::bedrock::route::{Family, Route};

/// Checks that the turn after each turn with calls has exactly one result for each call.
pub(super) fn check_calls(
    turns: &[Turn<'_>],
    body: &Object<'_>,
    route: &Route,
) -> Result<(), ApiError> {
    let is_tool = |block: &Object<'_>| block.has("toolUse") || block.has("toolResult");
    let has_tools = turns.iter().any(|turn| turn.blocks.iter().any(is_tool));
    // A prompt has its own tools.
    if has_tools && !body.has("toolConfig") && !route.is_prompt() {
        return Err(invalid(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ));
    }
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for turn in turns.iter().filter(|turn| turn.role != "system") {
        match turn.role {
            "user" => check_results(turn, &open, route.family())?,
            _ if !open.is_empty() => return Err(missing(&turn.path, &open)),
            _ => {}
        }
        open.clear();
        // The vendor runs a call with a type itself.
        let calls = turn.having("toolUse").into_iter().filter(|call| !call.has("type"));
        for id in calls.filter_map(|call| call.str("toolUseId")) {
            if !seen.insert(id) {
                return Err(invalid(format!(
                    "The toolUse blocks at {} contain duplicate Ids: {id}",
                    turn.path
                )));
            }
            open.push(id);
        }
    }
    match turns.last() {
        Some(turn) if !open.is_empty() => Err(missing(&turn.path, &open)),
        _ => Ok(()),
    }
}

/// Checks the results in a turn of the user. `open` has the ids of the calls of the previous turn.
fn check_results(turn: &Turn<'_>, open: &[&str], family: Family) -> Result<(), ApiError> {
    let results = turn.having("toolResult");
    let ids: Vec<&str> = results.iter().filter_map(|result| result.str("toolUseId")).collect();
    let mut seen = HashSet::new();
    if let Some(id) = ids.iter().find(|id| !seen.insert(**id)) {
        return Err(invalid(format!(
            "The toolResult blocks at {} contain duplicate Ids: {id}",
            turn.path
        )));
    }
    if ids.len() > open.len() {
        return Err(invalid(format!(
            "The number of toolResult blocks at {} exceeds the number of toolUse blocks of previous \
             turn.",
            turn.path
        )));
    }
    let without: Vec<&str> = open.iter().copied().filter(|id| !ids.contains(id)).collect();
    if !without.is_empty() {
        return Err(missing(&turn.path, &without));
    }
    let is_refused = |block: &Object<'_>| match family {
        Family::Claude => block.has("document") || block.has("video"),
        _ => family.has_result_turns() && !block.has("toolResult"),
    };
    match !ids.is_empty() && turn.blocks.iter().any(is_refused) {
        true => Err(invalid(
            "Conversation blocks and tool result blocks cannot be provided in the same turn.",
        )),
        false => Ok(()),
    }
}

/// Returns the error for calls without results.
fn missing(path: &str, ids: &[&str]) -> ApiError {
    invalid(format!(
        "Expected toolResult blocks at {path} for the following Ids: {}",
        ids.join(", ")
    ))
}
