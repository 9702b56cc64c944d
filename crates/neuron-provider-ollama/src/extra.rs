//! Placement of the caller's `extra` fields in the body of a request.
//!
//! The server expects all model parameters in the field `options`, and ignores unknown top-level fields.
//!
//! <https://github.com/ollama/ollama/blob/main/api/types.go>

use std::borrow::Cow;

use neuron_model::ProviderError;
use serde_json::{Map, Value};

/// Names of the top-level fields of a chat request, from the server's type `ChatRequest`.
pub(crate) const CHAT_FIELDS: [&str; 13] = [
    "model",
    "messages",
    "stream",
    "format",
    "keep_alive",
    "tools",
    "options",
    "think",
    "truncate",
    "shift",
    "logprobs",
    "top_logprobs",
    "_debug_render_only",
];

/// Names of the top-level fields of an embedding request, from the server's type `EmbedRequest`. The list also contains
/// `stream`, which [`with_options`] must not move into the options. [`write_json`](neuron_http::write_json) then
/// rejects it.
pub(crate) const EMBED_FIELDS: [&str; 7] =
    ["model", "input", "keep_alive", "truncate", "dimensions", "options", "stream"];

/// Moves the fields of `extra` into `options`, except for the top-level fields listed in `top`. A field that `options`
/// already contains keeps its value.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if a field must be moved and `options` is not an object.
pub(crate) fn with_options<'a>(
    extra: &'a Value,
    top: &[&str],
) -> Result<Cow<'a, Value>, ProviderError> {
    let is_option = |key: &str| !top.contains(&key);
    let Value::Object(fields) = extra else {
        return Ok(Cow::Borrowed(extra));
    };
    let Some(first) = fields.keys().find(|key| is_option(key)) else {
        return Ok(Cow::Borrowed(extra));
    };
    let (mut options, mut with_options): (Map<_, _>, Map<_, _>) =
        fields.clone().into_iter().partition(|(key, _)| is_option(key));
    match with_options.shift_remove("options") {
        None => {}
        Some(Value::Object(own)) => options.extend(own),
        Some(_) => {
            return Err(ProviderError::InvalidRequest(format!(
                "`extra.options` must be a JSON object, because `{first}` in `extra` is an option"
            )));
        }
    }
    with_options.insert("options".to_owned(), Value::Object(options));
    Ok(Cow::Owned(Value::Object(with_options)))
}
