//! What the vendor refuses: the rules for a request's body, top level first.
//!
//! The texts are close to the vendor's. A rule that no documentation, no type of the vendor's
//! clients and no recorded error shows is not here.

mod blocks;
mod cache;
mod messages;
mod object;
mod tools;

use serde_json::Value;

use self::object::{Object, expected, invalid};
use super::ApiError;

/// Checks a request's body as the vendor does.
///
/// `betas` are the names in the `anthropic-beta` header: fields and blocks that are in beta need
/// theirs.
///
/// # Errors
///
/// A 400 with a text close to the vendor's, for the first rule that is broken.
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
    let body = Object::new("", body)?;
    check_keys(&body, betas)?;
    if body.text("model")?.is_empty() {
        return Err(invalid("model: String should have at least 1 character"));
    }
    let max_tokens = check_max_tokens(&body)?;
    check_sampling(&body)?;
    check_stop_sequences(&body)?;
    check_small_objects(&body)?;
    check_thinking(&body, max_tokens)?;
    check_context_management(&body, betas)?;
    check_system(&body)?;
    tools::check_tools(&body, betas)?;
    messages::check_messages(&body, betas)?;
    cache::check_breakpoints(&body)
}

/// Checks a body's fields against the API version in the `anthropic-version` header.
///
/// # Errors
///
/// A 400 for a version that does not exist, and for a field that the version does not have.
pub fn check_version(body: &Value, version: &str) -> Result<(), ApiError> {
    match version {
        "2023-06-01" => Ok(()),
        "2026-10-21" => match SAMPLING.iter().find(|key| body.get(key).is_some()) {
            Some(key) => Err(extra(key)),
            None => Ok(()),
        },
        other => Err(invalid(format!("anthropic-version: \"{other}\" is not a valid version"))),
    }
}

const STABLE: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "stop_sequences",
    "stream",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
    "container",
    "metadata",
    "service_tier",
    "speed",
    "inference_geo",
    "diagnostics",
];

/// Of the oldest version only.
const SAMPLING: &[&str] = &["temperature", "top_p", "top_k"];

/// Fields in beta, with the betas that have them. An empty list means any.
const BETA: &[(&str, &[&str])] = &[
    ("context_management", &["compact-2026-01-12", "context-management-2025-06-27"]),
    ("compaction", &["compact-2026-09-04"]),
    ("output_format", &["structured-outputs-2025-11-13"]),
    ("mcp_servers", &[]),
    ("fallbacks", &[]),
    ("fallback_credit_token", &[]),
    ("thread", &[]),
    ("billing_policy", &[]),
];

fn check_keys(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let known = |key: &str| {
        STABLE.contains(&key)
            || SAMPLING.contains(&key)
            || BETA.iter().any(|(field, needed)| {
                *field == key
                    && !betas.is_empty()
                    && (needed.is_empty() || needed.iter().any(|beta| betas.contains(beta)))
            })
    };
    match body.fields.keys().find(|key| !known(key)) {
        Some(key) => Err(extra(key)),
        None => Ok(()),
    }
}

fn extra(path: &str) -> ApiError {
    invalid(format!("{path}: Extra inputs are not permitted"))
}

/// Stricter than the vendor, which takes 0 as a wish to warm its cache only: here it is a mistake.
fn check_max_tokens(body: &Object<'_>) -> Result<u64, ApiError> {
    match body.required("max_tokens")?.as_u64() {
        None => Err(invalid("max_tokens: Input should be a valid integer")),
        Some(0) => Err(invalid("max_tokens: Input should be greater than or equal to 1")),
        Some(tokens) => Ok(tokens),
    }
}

fn check_sampling(body: &Object<'_>) -> Result<(), ApiError> {
    for key in ["temperature", "top_p"] {
        match body.get(key).map(Value::as_f64) {
            None => {}
            Some(Some(number)) if (0.0..=1.0).contains(&number) => {}
            Some(Some(_)) => return Err(invalid(format!("{key}: range: 0..1"))),
            Some(None) => return Err(invalid(format!("{key}: Input should be a valid number"))),
        }
    }
    if body.get("stream").is_some_and(|stream| !stream.is_boolean()) {
        return Err(invalid("stream: Input should be a valid boolean"));
    }
    Ok(())
}

fn check_stop_sequences(body: &Object<'_>) -> Result<(), ApiError> {
    for (index, sequence) in body.list("stop_sequences")?.iter().enumerate() {
        let Some(sequence) = sequence.as_str() else {
            return Err(invalid(format!("stop_sequences.{index}: Input should be a valid string")));
        };
        if sequence.trim().is_empty() {
            return Err(invalid("stop_sequences: each stop sequence must contain non-whitespace"));
        }
    }
    Ok(())
}

fn check_small_objects(body: &Object<'_>) -> Result<(), ApiError> {
    if let Some(metadata) = body.object("metadata")? {
        metadata.only(&[&["user_id"]])?;
    }
    if let Some(config) = body.object("output_config")? {
        config.only(&[&["effort", "format", "task_budget"]])?;
        let efforts = ["low", "medium", "high", "xhigh", "max"];
        if let Some(effort) = config.get("effort")
            && !efforts.iter().any(|known| effort == known)
        {
            return Err(expected("output_config.effort", &efforts));
        }
        if let Some(format) = config.object("format")? {
            format.only(&[&["type", "schema"]])?;
            format.text("type")?;
            format.required("schema")?;
        }
    }
    Ok(())
}

fn check_thinking(body: &Object<'_>, max_tokens: u64) -> Result<(), ApiError> {
    let Some(thinking) = body.object("thinking")? else {
        return Ok(());
    };
    let allowed: &[&str] = match thinking.text("type")? {
        "enabled" => &["type", "budget_tokens", "display"],
        "adaptive" => &["type", "display"],
        "disabled" | "between_tools" => &["type"],
        other => {
            let kinds = ["enabled", "adaptive", "disabled", "between_tools"];
            return Err(object::unknown_tag("thinking", other, kinds.into_iter()));
        }
    };
    thinking.only(&[allowed])?;
    if thinking.text("type")? != "enabled" {
        return Ok(());
    }
    let budget = thinking.required("budget_tokens")?.as_u64().unwrap_or(0);
    if budget < 1024 {
        return Err(invalid(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ));
    }
    if budget >= max_tokens {
        return Err(invalid("`max_tokens` must be greater than `thinking.budget_tokens`"));
    }
    match body.get("temperature").and_then(Value::as_f64) {
        Some(temperature) if temperature < 1.0 => {
            Err(invalid("`temperature` may only be set to 1 when thinking is enabled"))
        }
        _ => Ok(()),
    }
}

fn check_context_management(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let Some(management) = body.object("context_management")? else {
        return Ok(());
    };
    management.only(&[&["edits"]])?;
    for (index, edit) in management.list("edits")?.iter().enumerate() {
        let path = format!("context_management.edits.{index}");
        let edit = Object::new(&path, edit)?;
        let kind = edit.text("type")?;
        let edits: [(&str, &str, &[&str]); 3] = [
            (
                "compact_20260112",
                "compact-2026-01-12",
                &["type", "trigger", "pause_after_compaction", "instructions"],
            ),
            (
                "clear_tool_uses_20250919",
                "context-management-2025-06-27",
                &[
                    "type",
                    "trigger",
                    "keep",
                    "clear_at_least",
                    "exclude_tools",
                    "clear_tool_inputs",
                ],
            ),
            ("clear_thinking_20251015", "context-management-2025-06-27", &["type", "keep"]),
        ];
        let available = || edits.iter().filter(|(_, beta, _)| betas.contains(beta));
        match available().find(|(name, ..)| *name == kind) {
            Some((.., allowed)) => edit.only(&[allowed])?,
            None => {
                let names = available().map(|(name, ..)| *name);
                return Err(object::unknown_tag(&path, kind, names));
            }
        }
    }
    Ok(())
}

fn check_system(body: &Object<'_>) -> Result<(), ApiError> {
    match body.get("system") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(system)) => system.iter().enumerate().try_for_each(|(index, block)| {
            blocks::check_system_block(&format!("system.{index}"), block)
        }),
        Some(_) => Err(invalid("system: Input should be a valid list")),
    }
}

#[cfg(test)]
mod tests;
