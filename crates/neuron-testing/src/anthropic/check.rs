//! Anthropic's rules for the body of a request. `rules.json` has them, as far as they need no code.
//!
//! The error texts are close to Anthropic's. Each rule has a source, which is Anthropic's documentation, a type in
//! Anthropic's SDKs, or a recorded error.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::ApiError;
use crate::checker::{
    Checked, Checker, Conversation, Kind, Null, Refusal, Table, Variation, join, parts_of, text,
    values_at,
};

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("rules.json"), Null::Value, str::to_owned));

/// Checks the body of a request to the Messages API as Anthropic does.
///
/// `betas` are the names in the `anthropic-beta` header. A beta field or a beta block is rejected unless `betas`
/// contains the name of its beta.
///
/// # Errors
///
/// Returns a 400 for the first broken rule. The error text is close to Anthropic's.
///
/// # Example
///
/// ```
/// use neuron_testing::anthropic::check_request;
/// use serde_json::json;
///
/// let mut body = json!({
///     "model": "claude-sonnet-4-6",
///     "max_tokens": 256,
///     "messages": [{"role": "user", "content": "hi"}],
/// });
/// assert!(check_request(&body, &[]).is_ok());
///
/// body["max_token"] = json!(256);
/// let error = check_request(&body, &[]).unwrap_err();
/// assert_eq!(error.message, "max_token: Extra inputs are not permitted");
/// ```
pub fn check_request(body: &Value, betas: &[&str]) -> Result<(), ApiError> {
    let checker = Checker::new(&TABLE);
    // The shape is stricter than Anthropic, which accepts `max_tokens: 0` to warm its cache.
    checker.check("", body, &"request".into())?;
    checker.check_rows("refused", body, &json!({"betas": betas}))?;
    check_messages(checker, body)?;
    let mut points = values_at(body, "tools.*.cache_control|system.*.cache_control");
    for (_, block) in values_at(body, "messages.*.content.*") {
        points.extend(values_at(block, "content.*.cache_control|cache_control"));
    }
    // `cache_control` at the top level is a breakpoint at the last block, so it comes last.
    points.extend(values_at(body, "cache_control"));
    Ok(checker.check_cache(&points)?)
}

/// Checks that all fields of a body exist in the API version `version`, which is the value of the `anthropic-version`
/// header.
///
/// # Errors
///
/// Returns a 400 if the version does not exist, or if the body has a field that this version does not have.
pub fn check_version(body: &Value, version: &str) -> Result<(), ApiError> {
    let fault = match version {
        "2023-06-01" => None,
        "2026-10-21" => {
            let mut sampling = ["temperature", "top_p", "top_k"].into_iter();
            let removed = sampling.find(|key| body.get(key).is_some());
            removed.map(|key| format!("{key}: Extra inputs are not permitted"))
        }
        other => Some(format!("anthropic-version: \"{other}\" is not a valid version")),
    };
    fault.map_or(Ok(()), |text| Err(ApiError::invalid_request(text)))
}

fn check_messages(checker: Checker<'_>, body: &Value) -> Checked {
    let mut variations =
        vec![Variation::Merges, Variation::MayEnd, Variation::Trims, Variation::ResultsFirst];
    let thinks = body.pointer("/thinking/type").is_some_and(|kind| kind == "enabled");
    variations.extend(thinks.then_some(Variation::Thinks));
    let mut conversation = Conversation::new(checker, variations);
    if body["system"].as_array().is_some_and(|blocks| !blocks.is_empty()) {
        conversation.add("system", "system", parts_of(&body["system"], "system", read_block))?;
    }
    let messages = values_at(body, "messages.*");
    for (index, (path, message)) in messages.iter().enumerate() {
        let (role, content) = (text(message, "role"), &message["content"]);
        // The model may begin its response with nothing.
        let is_empty = *content == "" || *content == json!([]);
        if is_empty && role == "assistant" && index + 1 == messages.len() {
            continue;
        }
        let parts = parts_of(content, &join(path, "content"), read_block);
        if parts.last().is_some_and(|part| part.kind == Kind::Reasoning) {
            // Source: https://github.com/tailcallhq/forgecode/issues/2107.
            return checker.refuse("last reasoning", path, &[]);
        }
        conversation.add(role, path, parts)?;
    }
    conversation.check()
}

fn read_block(block: &Value) -> (&str, Kind, String) {
    let name = text(block, "type");
    let (kind, id) = match name {
        "thinking" | "redacted_thinking" => (Kind::Reasoning, ""),
        "tool_use" => (Kind::Call, "id"),
        "tool_result" => (Kind::Result, "tool_use_id"),
        "server_tool_use" => (Kind::ServerCall, "id"),
        _ if name.ends_with("_tool_result") => (Kind::ServerResult, "tool_use_id"),
        _ => (Kind::Content, ""),
    };
    (name, kind, text(block, id).to_owned())
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::invalid_request(refusal.text)
    }
}

#[cfg(test)]
mod tests;
