//! Ollama's rules for the body of a request. Ollama decodes a body into Go structs. Most errors are therefore errors of
//! Go's JSON decoder, and unknown fields are ignored.

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::base64;
use crate::shape::{self, Null, Problem, Wording as _, words};

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
    shape::check(Wording, "ChatRequest", body, &"api.ChatRequest".into())?;
    let mut messages = body["messages"].as_array().into_iter().flatten();
    let logprobs = body["top_logprobs"].as_i64().filter(|count| !(0..=20).contains(count));
    let problem = messages
        .find_map(message_problem)
        .or_else(|| think_problem(&body["think"]))
        .or_else(|| keep_alive_problem(&body["keep_alive"]))
        .or_else(|| model_problem(&body["model"]))
        .or_else(|| format_problem(&body["format"]))
        .or_else(|| logprobs.map(|_| "top_logprobs must be between 0 and 20".into()));
    refuse(problem)?;
    check_options(&body["options"])
}

/// Checks the body of a request to `/api/embed` as Ollama does.
///
/// # Errors
///
/// Returns a 400 for the first broken rule. Returns a 500 for an option of a wrong type, as Ollama does.
pub fn check_embed_request(body: &Value) -> Result<(), ApiError> {
    shape::check(Wording, "EmbedRequest", body, &"api.EmbedRequest".into())?;
    let is_text = match &body["input"] {
        Value::Array(texts) => texts.iter().all(Value::is_string),
        input => input.is_null() || input.is_string(),
    };
    let problem = keep_alive_problem(&body["keep_alive"])
        .or_else(|| model_problem(&body["model"]))
        .or_else(|| (!is_text).then(|| "invalid input type".into()));
    refuse(problem)?;
    check_options(&body["options"])
}

/// Returns a 400 with the text `problem`. Returns `Ok` if there is no problem.
fn refuse(problem: Option<String>) -> Result<(), ApiError> {
    problem.map_or(Ok(()), |text| Err(ApiError::invalid_request(text)))
}

/// Returns the error text for a missing or empty model, or `None` if there is a model.
fn model_problem(model: &Value) -> Option<String> {
    model.as_str().is_none_or(str::is_empty).then(|| "model is required".into())
}

/// Returns the error text for a message with an unknown role or with an image that is not base64. Returns `None` for a
/// valid message.
fn message_problem(message: &Value) -> Option<String> {
    let role = message["role"].as_str().unwrap_or_default().to_lowercase();
    if !["system", "user", "assistant", "tool"].contains(&role.as_str()) {
        return Some(format!(
            "invalid role: \"{role}\" (must be \"system\", \"user\", \"assistant\", or \"tool\")"
        ));
    }
    let images = message["images"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let at = images.filter_map(base64::first_error).next()?;
    Some(format!("illegal base64 data at input byte {at}"))
}

/// Returns the error text for a value of `think` that is neither a boolean nor a known level. Returns `None` for a
/// valid or missing value.
fn think_problem(think: &Value) -> Option<String> {
    match think {
        Value::Null | Value::Bool(_) => None,
        Value::String(level) if ["high", "medium", "low", "max"].contains(&level.as_str()) => None,
        Value::String(level) => Some(format!(
            "invalid think value: \"{level}\" (must be \"high\", \"medium\", \"low\", \"max\", \
             true, or false)"
        )),
        _ => Some(
            "think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", true, or \
             false)"
                .into(),
        ),
    }
}

/// Returns the error text for a value of `keep_alive` that is neither a number nor a duration in Go's syntax. Returns
/// `None` for a valid or missing value.
fn keep_alive_problem(keep_alive: &Value) -> Option<String> {
    match keep_alive {
        Value::Null | Value::Number(_) => None,
        Value::String(text) => {
            duration_error(text).map(|what| format!("time: {what} duration \"{text}\""))
        }
        other => Some(format!("unsupported type: '{}'", go_kind_of(other))),
    }
}

/// Returns the error of Go's `time.ParseDuration` for a text, or `None` if the text is a duration such as `1h30m` or
/// `0`.
fn duration_error(text: &str) -> Option<&'static str> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return Some("invalid");
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if after.len() == rest.len() {
            return Some("invalid");
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, later) = after.split_at(end);
        match unit {
            "" => return Some("missing unit in"),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = later,
            _ => return Some("unknown unit in"),
        }
    }
    None
}

/// Returns the error text for a value of `format` that is neither empty, `json`, nor an object. Returns `None` for a
/// valid or missing value.
fn format_problem(format: &Value) -> Option<String> {
    let fits = match format {
        Value::String(text) => text.is_empty() || text == "json",
        format => format.is_null() || format.is_object(),
    };
    (!fits).then(|| "invalid format: expected \"json\" or a valid JSON Schema object".into())
}

/// Checks the types of the known options. Ollama ignores unknown options, and sends a 500 for a wrong type.
fn check_options(options: &Value) -> Result<(), ApiError> {
    let types = Wording.shape("options");
    for (key, value) in options.as_object().into_iter().flatten() {
        let is_listed = |kind: &&str| words(types, kind).any(|option| option == key);
        let kind = ["integer", "float32", "array"].into_iter().find(is_listed);
        let fits = match kind {
            Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Some("float32") => value.is_number(),
            Some(_) => value.is_array(),
            None => true,
        };
        if !fits {
            let kind = kind.unwrap_or_default();
            return Err(ApiError::new(500, format!("option \"{key}\" must be of type {kind}")));
        }
    }
    Ok(())
}

/// Ollama's shapes (the structure of its requests), and the error texts of Go's JSON decoder.
#[derive(Debug, Clone, Copy)]
struct Wording;

impl shape::Wording for Wording {
    type Error = ApiError;

    const NULL: Null = Null::Fits;

    fn shapes(self) -> &'static Value {
        static SHAPES: LazyLock<Value> =
            LazyLock::new(|| shape::parse(include_str!("shapes.json")));
        &SHAPES
    }

    fn is_lenient(self) -> bool {
        true
    }

    /// Returns the path of the list itself, because Go's errors do not contain the index of an item.
    fn item(self, path: &str, _index: usize) -> String {
        path.to_owned()
    }

    fn error(self, path: &str, problem: Problem<'_>) -> ApiError {
        let Problem::Type { expected, found } = problem else {
            return ApiError::invalid_request(format!("{path}: {problem:?}"));
        };
        let kind = match expected {
            "text" => "string",
            "boolean" => "bool",
            "object" => "map[string]interface {}",
            "list of text" => "[]api.ImageData",
            "list of api.Tool" => "api.Tools",
            shape => &shape.replace("list of ", "[]"),
        };
        let target = match path.contains('.') {
            true => format!("struct field {path}"),
            false => "value".to_owned(),
        };
        ApiError::invalid_request(format!(
            "json: cannot unmarshal {} into Go {target} of type {kind}",
            go_kind_of(found)
        ))
    }
}

/// Returns the word for a JSON type in the errors of Go's JSON decoder.
fn go_kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
