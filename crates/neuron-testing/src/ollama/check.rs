//! Ollama's rules for the body of a request. Ollama decodes a body into Go structs. Most errors are therefore errors of
//! Go's JSON decoder, and unknown fields are ignored. `rules.json` has the rules.

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::checker::{Checker, Null, Refusal, Table};

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("rules.json"), Null::Fits, without_indexes));

/// Checks the body of a request to `/api/chat` as Ollama does.
///
/// # Errors
///
/// Returns a 400 for the first broken rule. Returns a 500 for an option of a wrong type, as Ollama does.
///
/// # Example
///
/// ```
/// use neuron_testing::ollama::check_chat_request;
/// use serde_json::json;
///
/// let mut body = json!({
///     "model": "llama3.2",
///     "messages": [{"role": "user", "content": "hi"}],
/// });
/// assert!(check_chat_request(&body).is_ok());
///
/// body["messages"][0]["content"] = json!(["hi"]);
/// let error = check_chat_request(&body).unwrap_err();
/// assert_eq!(
///     error.message,
///     "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type \
///      string"
/// );
/// ```
pub fn check_chat_request(body: &Value) -> Result<(), ApiError> {
    check(body, "chat", "words")
}

/// Checks the body of a request to `/api/embed` as Ollama does.
///
/// # Errors
///
/// Returns a 400 for the first broken rule. Returns a 500 for an option of a wrong type, as Ollama does.
pub fn check_embed_request(body: &Value) -> Result<(), ApiError> {
    check(body, "embed", "words_embed")
}

fn check(body: &Value, shape: &str, words: &'static str) -> Result<(), ApiError> {
    let checker = Checker::new(&TABLE).lenient(true).with_words(words);
    checker.check("", body, &shape.into())?;
    checker.check_rows("refused", body, &Value::Null)?;
    Ok(checker.with_words("words_options").check("", &body["options"], &"options".into())?)
}

/// Writes a path without indexes, as Go's errors have it.
fn without_indexes(path: &str) -> String {
    let names = path.split('.').filter(|step| step.parse::<usize>().is_err());
    names.collect::<Vec<_>>().join(".")
}

impl From<Refusal> for ApiError {
    fn from(Refusal { code, text, .. }: Refusal) -> Self {
        Self::new(code.parse().unwrap_or(400), text)
    }
}

#[cfg(test)]
mod tests;
