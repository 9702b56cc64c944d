//! OpenAI's rules for the body of a request, with a file per endpoint. `shapes.json` defines the structure of the body.
//!
//! The error texts are OpenAI's where they are known. Each rule has a source, which is OpenAI's documentation, a type
//! in OpenAI's SDKs, or a reported error.

mod chat;
mod demands;
mod embeddings;
mod format;
mod items;
mod messages;
mod models;
mod parts;
mod responses;
mod schema;
mod tools;
mod wording;

use serde_json::Value;

use super::ApiError;

pub(super) use chat::check_chat;
pub(super) use demands::check_demands;
pub(super) use embeddings::check_embeddings;
pub(super) use responses::check_responses;

/// Checks the body of a request to Chat Completions as OpenAI does.
///
/// # Errors
///
/// Returns a 400 for the first broken rule.
///
/// # Example
///
/// ```
/// use neuron_testing::openai::check_chat_request;
/// use serde_json::json;
///
/// let mut body = json!({
///     "model": "gpt-5.4-mini",
///     "messages": [{"role": "user", "content": "hi"}],
/// });
/// assert!(check_chat_request(&body).is_ok());
///
/// body["max_token"] = json!(256);
/// let error = check_chat_request(&body).unwrap_err();
/// assert_eq!(error.message, "Unknown parameter: 'max_token'.");
/// ```
pub fn check_chat_request(body: &Value) -> Result<(), ApiError> {
    check_chat(body, false)
}

/// Checks the body of a request to the Responses API as OpenAI does.
///
/// # Errors
///
/// Returns a 400 for the first broken rule, or a 404 for a reference to reasoning that OpenAI did not store.
pub fn check_responses_request(body: &Value) -> Result<(), ApiError> {
    check_responses(body, false)
}

/// Checks the body of a request for embeddings as OpenAI does.
///
/// # Errors
///
/// Returns a 400 for the first broken rule.
pub fn check_embeddings_request(body: &Value) -> Result<(), ApiError> {
    check_embeddings(body, false)
}

#[cfg(test)]
mod tests;
