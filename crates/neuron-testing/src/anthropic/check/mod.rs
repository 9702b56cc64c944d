//! Anthropic's rules for the body of a request. `shapes.json` defines the structure of the body.
//!
//! The error texts are close to Anthropic's. Each rule has a source, which is Anthropic's documentation, a type in
//! Anthropic's SDKs, or a recorded error.

mod blocks;
mod cache;
mod messages;
mod tools;
mod wording;

use serde_json::Value;

use self::wording::{Object, Wording, invalid};
use super::ApiError;
use crate::shape::{Problem, Wording as _, words};

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
    let body = Object::new(Wording, "", body)?;
    check_beta_fields(&body, betas)?;
    // The rules in `shapes.json` are stricter than Anthropic, which accepts `max_tokens: 0` to warm its cache.
    body.fits("request")?;
    if body.text("model")?.is_empty() {
        return Err(invalid("model: String should have at least 1 character"));
    }
    let sequences = body.get("stop_sequences").and_then(Value::as_array).into_iter().flatten();
    if sequences.filter_map(Value::as_str).any(|sequence| sequence.trim().is_empty()) {
        return Err(invalid("stop_sequences: each stop sequence must contain non-whitespace"));
    }
    check_thinking(&body)?;
    check_context_management(&body, betas)?;
    let system = body.objects("system");
    system.iter().try_for_each(|block| blocks::check_block(block, "system", &[]))?;
    tools::check_tools(&body, betas)?;
    messages::check_messages(&body, betas)?;
    cache::check_breakpoints(&body)
}

/// Checks that all fields of a body exist in the API version `version`, which is the value of the `anthropic-version`
/// header.
///
/// # Errors
///
/// Returns a 400 if the version does not exist, or if the body has a field that this version does not have.
pub fn check_version(body: &Value, version: &str) -> Result<(), ApiError> {
    match version {
        "2023-06-01" => Ok(()),
        "2026-10-21" => {
            let sampling = ["temperature", "top_p", "top_k"];
            match sampling.iter().find(|key| body.get(key).is_some()) {
                Some(key) => Err(Wording.error(key, Problem::Unknown)),
                None => Ok(()),
            }
        }
        other => Err(invalid(format!("anthropic-version: \"{other}\" is not a valid version"))),
    }
}

/// Returns `true` if one of `betas` enables `name`, which is a field or a context edit. A `*` in `shapes.json` means
/// that any beta enables the name.
fn is_available(name: &str, betas: &[&str]) -> bool {
    let mut needed = words(Wording.shape("betas"), name);
    needed.any(|beta| betas.contains(&beta) || beta == "*" && !betas.is_empty())
}

/// Rejects top-level fields that are in beta and whose beta is not in `betas`.
fn check_beta_fields(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let is_refused = |field: &&String| {
        Wording.shape("betas").get(field).is_some() && !is_available(field, betas)
    };
    match body.fields.keys().find(is_refused) {
        Some(field) => Err(body.error(field, Problem::Unknown)),
        None => Ok(()),
    }
}

/// Checks the thinking budget against `max_tokens`, and that thinking is not combined with a temperature below 1.
fn check_thinking(body: &Object<'_>) -> Result<(), ApiError> {
    let Some(thinking) = body.object("thinking").filter(|it| it.str("type") == Some("enabled"))
    else {
        return Ok(());
    };
    let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
    let budget = number(thinking.get("budget_tokens"));
    let temperature = body.get("temperature").and_then(Value::as_f64);
    Err(invalid(if budget < 1024 {
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    } else if budget >= number(body.get("max_tokens")) {
        "`max_tokens` must be greater than `thinking.budget_tokens`"
    } else if temperature.is_some_and(|temperature| temperature < 1.0) {
        "`temperature` may only be set to 1 when thinking is enabled"
    } else {
        return Ok(());
    }))
}

/// Checks the fields of every context edit, and that one of `betas` enables the edit.
fn check_context_management(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let edits = Wording.shape("edit").as_object().into_iter().flatten().map(|(edit, _)| &**edit);
    let available: Vec<&str> = edits.filter(|edit| is_available(edit, betas)).collect();
    let Some(management) = body.object("context_management") else { return Ok(()) };
    for edit in management.objects("edits") {
        let found = edit.text("type")?;
        if !available.contains(&found) {
            let problem = Problem::Tag { key: "type", tags: &available, found };
            return Err(Wording.error(&edit.path, problem));
        }
        edit.tagged("edit", "type")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
