//! The rules of some models only.

use super::ApiError;
use super::wording::Object;

/// Returns `true` if a model reasons, by its name.
fn reasons(model: &str) -> bool {
    let versions = ["gpt-5", "gpt-6"];
    is_o_series(model)
        || (versions.iter().any(|version| model.starts_with(version))
            && !model.starts_with("gpt-5-chat"))
}

fn is_o_series(model: &str) -> bool {
    ["o1", "o3", "o4"].iter().any(|version| model.starts_with(version))
}

/// Checks the parameters that reasoning models do not take, whatever the endpoint.
pub(super) fn check_sampling(
    body: &Object<'_>,
    model: &str,
    effort: Option<&str>,
) -> Result<(), ApiError> {
    if !reasons(model) || effort == Some("none") || body.vendor.is_lenient {
        return Ok(());
    }
    let mut numbers = ["temperature", "top_p"].into_iter().filter_map(|key| {
        let value = body.get(key)?.as_f64().filter(|value| *value != 1.0)?;
        Some((key, value))
    });
    let Some((key, value)) = numbers.next() else { return Ok(()) };
    Err(match body.fields.contains_key("input") {
        // The Responses API has no code here.
        true => ApiError { code: None, ..unsupported(key) },
        false if is_o_series(model) => unsupported(key),
        false => ApiError::invalid_request(format!(
            "Unsupported value: '{key}' does not support {value} with this model. Only the default \
             (1) value is supported."
        ))
        .param(key)
        .code("unsupported_value"),
    })
}

/// Checks what Chat Completions refuses from reasoning models.
pub(super) fn check_chat_parameters(body: &Object<'_>, model: &str) -> Result<(), ApiError> {
    if !reasons(model) || body.vendor.is_lenient {
        return Ok(());
    }
    if body.get("max_tokens").is_some() {
        return Err(ApiError::invalid_request(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
             'max_completion_tokens' instead.",
        )
        .param("max_tokens")
        .code("unsupported_parameter"));
    }
    if body.get("stop").is_some() {
        return Err(unsupported("stop"));
    }
    let effort = body.str("reasoning_effort");
    check_sampling(body, model, effort)?;
    check_tools_while_reasoning(body, model, effort)
}

/// Checks that the models of 2026 do not reason with function tools in this API. gpt-5.4 reasons if
/// an effort is set, its successors by default.
fn check_tools_while_reasoning(
    body: &Object<'_>,
    model: &str,
    effort: Option<&str>,
) -> Result<(), ApiError> {
    let reasons_here = match effort {
        Some("none") => false,
        Some(_) => ["gpt-5.4", "gpt-5.5", "gpt-5.6"].iter().any(|name| model.starts_with(name)),
        None => ["gpt-5.5", "gpt-5.6"].iter().any(|name| model.starts_with(name)),
    };
    let has_functions = body.objects("tools").iter().any(|tool| tool.get("function").is_some());
    if !reasons_here || !has_functions {
        return Ok(());
    }
    Err(ApiError::invalid_request(format!(
        "Function tools with reasoning_effort are not supported for {model} in \
         /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort \
         to 'none'."
    ))
    .param("reasoning_effort"))
}

fn unsupported(key: &str) -> ApiError {
    let message = format!("Unsupported parameter: '{key}' is not supported with this model.");
    ApiError::invalid_request(message).param(key).code("unsupported_parameter")
}
