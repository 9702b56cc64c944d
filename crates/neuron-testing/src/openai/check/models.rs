//! OpenAI's rules that apply only to some models.

use serde_json::Value;

use super::ApiError;
use super::wording::{Object, refused};

/// Name prefixes of the reasoning models for which Chat Completions calls a sampling parameter itself unsupported.
///
/// For other reasoning models, the error calls only the value of the parameter unsupported.
const O_SERIES: [&str; 3] = ["o1", "o3", "o4"];

/// Returns `true` if `model` is the name of a reasoning model.
fn reasons(model: &str) -> bool {
    let is_gpt = is_one_of(model, &["gpt-5", "gpt-6"]) && !model.starts_with("gpt-5-chat");
    is_gpt || is_one_of(model, &O_SERIES)
}

/// Returns `true` if the name `model` starts with one of `families`.
fn is_one_of(model: &str, families: &[&str]) -> bool {
    families.iter().any(|family| model.starts_with(family))
}

/// Checks the sampling parameters of a request to either API. A reasoning model accepts only the default value 1 unless
/// the reasoning effort is `none`. Other models pass.
pub(super) fn check_sampling(
    body: &Object<'_>,
    model: &str,
    effort: Option<&str>,
) -> Result<(), ApiError> {
    if !reasons(model) || effort == Some("none") || body.vendor.is_lenient {
        return Ok(());
    }
    for key in ["temperature", "top_p"] {
        let value = body.get(key).and_then(Value::as_f64).unwrap_or(1.0);
        if value == 1.0 {
            continue;
        }
        return Err(match body.fields.contains_key("input") {
            // A body with `input` is a request to the Responses API, whose error has no code.
            true => ApiError { code: None, ..unsupported(key) },
            false if is_one_of(model, &O_SERIES) => unsupported(key),
            false => {
                let text = format!(
                    "Unsupported value: '{key}' does not support {value} with this model. Only \
                     the default (1) value is supported."
                );
                refused(key, text).code("unsupported_value")
            }
        });
    }
    Ok(())
}

/// Checks the parameters that Chat Completions rejects for reasoning models. Other models pass.
pub(super) fn check_chat_parameters(body: &Object<'_>, model: &str) -> Result<(), ApiError> {
    if !reasons(model) || body.vendor.is_lenient {
        return Ok(());
    }
    if body.has("max_tokens") {
        let text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                    'max_completion_tokens' instead.";
        return Err(refused("max_tokens", text).code("unsupported_parameter"));
    }
    if body.has("stop") {
        return Err(unsupported("stop"));
    }
    let effort = body.str("reasoning_effort");
    check_sampling(body, model, effort)?;
    // gpt-5.4 reasons only if the request sets an effort. gpt-5.5 and gpt-5.6 reason by default.
    let families: &[&str] = match effort {
        Some("none") => &[],
        Some(_) => &["gpt-5.4", "gpt-5.5", "gpt-5.6"],
        None => &["gpt-5.5", "gpt-5.6"],
    };
    let has_functions = body.objects("tools").iter().any(|tool| tool.has("function"));
    if has_functions && is_one_of(model, families) {
        let text = format!(
            "Function tools with reasoning_effort are not supported for {model} in \
             /v1/chat/completions. To use function tools, use /v1/responses or set \
             reasoning_effort to 'none'."
        );
        return Err(refused("reasoning_effort", text));
    }
    Ok(())
}

/// Returns the 400 for a parameter that the model does not support.
fn unsupported(key: &str) -> ApiError {
    let message = format!("Unsupported parameter: '{key}' is not supported with this model.");
    refused(key, message).code("unsupported_parameter")
}
