//! The models' rules for the fields that Bedrock passes on unchanged (`additionalModelRequestFields`).

use serde_json::Value;

use super::ApiError;
use super::messages::Turn;
use super::wording::{Object, Wording, invalid, of_the_model};
use crate::bedrock::route::Family;
use crate::shape::{Problem, Wording as _, words};

/// Smallest thinking budget, in tokens.
const LEAST_BUDGET: u64 = 1024;

/// Checks the additional fields of a request to Claude, and the fields for thinking of GPT and Nova 2. Bedrock does not
/// know the fields of a model.
pub(super) fn check_fields(
    body: &Object<'_>,
    turns: &[Turn<'_>],
    family: Family,
) -> Result<(), ApiError> {
    let Some(fields) = body.object("additionalModelRequestFields") else { return Ok(()) };
    match family {
        Family::Claude => {}
        Family::Gpt if fields.has("reasoning_effort") => {
            return Err(of_the_model("Unknown parameter: 'reasoning_effort'."));
        }
        Family::Nova => return check_effort(&fields, body),
        _ => return Ok(()),
    }
    let is_known =
        |key: &str| words(Wording.shape("claude_fields"), "unchecked").any(|known| known == key);
    if let Some(key) = fields.fields.keys().find(|key| !is_known(key)) {
        return Err(fields.error(key, Problem::Unknown));
    }
    let choice = body.object("toolConfig").and_then(|config| config.object("toolChoice"));
    if choice.is_some() && fields.has("tool_choice") {
        return Err(invalid(
            "The additional field tool_choice conflicts with the existing field toolConfig.toolChoice.",
        ));
    }
    match fields.object("thinking") {
        Some(thinking) => {
            check_thinking(&thinking, body, choice.as_ref())?;
            match thinking.str("type") {
                Some("enabled") => check_current_turn(turns),
                _ => Ok(()),
            }
        }
        None => Ok(()),
    }
}

/// Checks that a request to Nova 2 with the highest effort sets neither a maximum of tokens nor the sampling.
fn check_effort(fields: &Object<'_>, body: &Object<'_>) -> Result<(), ApiError> {
    let effort = fields.object("reasoningConfig");
    let is_high = effort.is_some_and(|effort| effort.str("maxReasoningEffort") == Some("high"));
    let config = body.object("inferenceConfig").filter(|_| is_high);
    let mut names = ["maxTokens", "temperature", "topP"].into_iter();
    match config.and_then(|config| names.find(|name| config.has(name))) {
        Some(name) => Err(of_the_model(&format!(
            "{name} cannot be used with maxReasoningEffort set to high."
        ))),
        None => Ok(()),
    }
}

/// Checks the kind and the budget of thinking, and that neither a tool is forced nor a temperature is set.
fn check_thinking(
    thinking: &Object<'_>,
    body: &Object<'_>,
    choice: Option<&Object<'_>>,
) -> Result<(), ApiError> {
    match thinking.str("type") {
        Some("enabled") => {}
        Some("adaptive" | "disabled" | "between_tools") => return Ok(()),
        _ => {
            return Err(of_the_model(
                "thinking: Input tag does not match any of the expected tags: 'adaptive', \
                 'disabled', 'enabled'",
            ));
        }
    }
    let config = body.object("inferenceConfig");
    let number = |key: &str| config.as_ref().and_then(|config| config.get(key));
    let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or_default();
    // Bedrock's default limit is not known for every model, so a missing limit is not checked.
    let limit = number("maxTokens").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let is_forced = choice.is_some_and(|choice| !choice.has("auto"));
    Err(of_the_model(if budget < LEAST_BUDGET {
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    } else if budget >= limit {
        "`max_tokens` must be greater than `thinking.budget_tokens`."
    } else if number("temperature").and_then(Value::as_f64).is_some_and(|value| value < 1.0) {
        "`temperature` may only be set to 1 when thinking is enabled."
    } else if is_forced {
        "Thinking may not be enabled when tool_choice forces tool use."
    } else {
        return Ok(());
    }))
}

/// Checks that everything after the last message of the user that has more than results of tools begins with reasoning.
/// Claude requires this if thinking has a budget.
///
/// Source: <https://github.com/anomalyco/opencode/issues/3077>.
fn check_current_turn(turns: &[Turn<'_>]) -> Result<(), ApiError> {
    let is_said = |block: &Object<'_>| !block.has("toolResult") && !block.has("cachePoint");
    let is_prompt = |turn: &Turn<'_>| turn.role != "assistant" && turn.blocks.iter().any(is_said);
    let start = turns.iter().rposition(is_prompt).map_or(0, |last| last + 1);
    let current = turns.get(start..).unwrap_or_default();
    let is_open = current.last().is_some_and(|turn| turn.role == "user");
    let first = current.iter().find(|turn| turn.role == "assistant");
    match first.and_then(|turn| turn.blocks.first()).filter(|_| is_open) {
        Some(block) if !block.has("reasoningContent") => {
            let found = if block.has("toolUse") { "tool_use" } else { "text" };
            Err(of_the_model(&format!(
                "{}.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is enabled, \
                 a final `assistant` message must start with a thinking block (preceeding the lastmost set of \
                 `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. \
                 To avoid this requirement, disable `thinking`.",
                block.path,
            )))
        }
        _ => Ok(()),
    }
}
