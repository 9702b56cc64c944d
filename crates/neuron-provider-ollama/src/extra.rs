//! The place of the caller's own fields in a body.
//!
//! The server ignores an unknown field at the top, and all parameters of a model are in `options`.
//! <https://github.com/ollama/ollama/blob/main/api/types.go>

use std::borrow::Cow;

use neuron_types::ProviderError;
use serde_json::{Map, Value};

/// The fields of `ChatRequest`.
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

/// The fields of `EmbedRequest`, and `stream`, which no request may set.
pub(crate) const EMBED_FIELDS: [&str; 7] =
    ["model", "input", "keep_alive", "truncate", "dimensions", "options", "stream"];

/// Moves the fields that the API does not have at the top into `options`. Fields in `options` itself
/// take precedence.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if there are fields to move and `options` is not an object.
pub(crate) fn placed<'a>(extra: &'a Value, top: &[&str]) -> Result<Cow<'a, Value>, ProviderError> {
    let is_option = |key: &str| !top.contains(&key);
    let Value::Object(fields) = extra else {
        return Ok(Cow::Borrowed(extra));
    };
    let Some(first) = fields.keys().find(|key| is_option(key)) else {
        return Ok(Cow::Borrowed(extra));
    };
    let (mut options, mut placed): (Map<_, _>, Map<_, _>) =
        fields.clone().into_iter().partition(|(key, _)| is_option(key));
    match placed.shift_remove("options") {
        None => {}
        Some(Value::Object(own)) => options.extend(own),
        Some(_) => {
            return Err(ProviderError::InvalidRequest(format!(
                "`extra.options` must be a JSON object, because `{first}` in `extra` is an option"
            )));
        }
    }
    placed.insert("options".to_owned(), Value::Object(options));
    Ok(Cow::Owned(Value::Object(placed)))
}
