//! OpenAI's rules for the body of a request. `rules.json` has them, as far as they need no code.
//!
//! The error texts are OpenAI's where they are known. Each rule has a source, which is OpenAI's documentation, a type
//! in OpenAI's SDKs, or a reported error.

mod demands;

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::checker::{
    Checked, Checker, Conversation, Kind, Null, Part, Refusal, Table, Variation, in_brackets, join,
    text, values_at,
};

pub(super) use demands::check_demands;

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("rules.json"), Null::Missing, in_brackets));

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

/// Checks the body of a request to Chat Completions. If `is_lenient` is `true`, unknown parameters are accepted, and
/// parameters may be unsuitable for the model.
pub(super) fn check_chat(body: &Value, is_lenient: bool) -> Result<(), ApiError> {
    let checker = Checker::new(&TABLE).lenient(is_lenient);
    checker.check("", body, &"chat".into())?;
    checker.check_rows("refused_chat", body, &Value::Null)?;
    if !is_lenient {
        checker.check_rows("refused_chat_by_model", body, &Value::Null)?;
    }
    check_schemas(body, "tools.*.function[strict=true].parameters", "invalid_function_parameters")?;
    let format = "response_format.json_schema[strict=true].schema";
    check_schemas(body, format, "invalid_json_schema")?;
    Ok(check_messages(checker, body)?)
}

/// Checks the body of a request to the Responses API. If `is_lenient` is `true`, unknown parameters are accepted, and
/// parameters may be unsuitable for the model.
pub(super) fn check_responses(body: &Value, is_lenient: bool) -> Result<(), ApiError> {
    let checker = Checker::new(&TABLE).lenient(is_lenient).with_words("words_responses");
    checker.check("", body, &"responses".into())?;
    checker.check_rows("refused_responses", body, &Value::Null)?;
    if !is_lenient {
        checker.check_rows("refused_responses_by_model", body, &Value::Null)?;
    }
    check_schemas(body, "tools.*[strict=true].parameters", "invalid_function_parameters")?;
    check_schemas(body, "text.format[strict=true].schema", "invalid_json_schema")?;
    Ok(check_items(checker, body)?)
}

/// Checks the body of a request for embeddings. With `is_lenient`, unknown parameters are accepted.
pub(super) fn check_embeddings(body: &Value, is_lenient: bool) -> Result<(), ApiError> {
    let checker = Checker::new(&TABLE).lenient(is_lenient);
    checker.check("", body, &"embeddings".into())?;
    Ok(checker.check_rows("refused_embeddings", body, &Value::Null)?)
}

/// Checks the strict schemas at a place. Every object must require all of its properties and forbid other properties.
fn check_schemas(body: &Value, place: &str, code: &str) -> Result<(), ApiError> {
    for (path, schema) in values_at(body, place) {
        if let Some(problem) = strict_problem(schema, "") {
            let text = format!("Invalid schema for '{}': {problem}", in_brackets(&path));
            return Err(ApiError::invalid_request(text).param(in_brackets(&path)).code(code));
        }
    }
    Ok(())
}

/// Returns the first problem of a strict schema and its subschemas. `context` is the path of the schema in its root.
fn strict_problem(schema: &Value, context: &str) -> Option<String> {
    let kind = &schema["type"];
    if kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&"object".into())) {
        let context = context.replace('.', "', '");
        if schema["additionalProperties"] != false {
            let what = "'additionalProperties' is required to be supplied and to be false.";
            return Some(format!("In context=('{context}'), {what}"));
        }
        let required = schema["required"].as_array();
        let is_missing = |name: &str| required.is_none_or(|names| !names.contains(&name.into()));
        let mut properties = schema["properties"].as_object().into_iter().flatten();
        if let Some((name, _)) = properties.find(|(name, _)| is_missing(name)) {
            let what = "'required' is required to be supplied and to be an array including every \
                        key in properties.";
            return Some(format!("In context=('{context}'), {what} Missing '{name}'."));
        }
    }
    let places = ["properties.*", "$defs.*", "definitions.*", "anyOf.*", "allOf.*", "items"];
    let mut children = places.iter().flat_map(|place| values_at(schema, place));
    children.find_map(|(path, child)| strict_problem(child, &join(context, path)))
}

fn check_messages(checker: Checker<'_>, body: &Value) -> Checked {
    let variations = vec![Variation::MayBegin, Variation::MayEnd, Variation::RepeatsIds];
    let mut conversation = Conversation::new(checker, variations);
    let messages = values_at(body, "messages.*");
    // All results of a turn count as one message.
    let is_result = |message: &Value| text(message, "role") == "tool";
    for turn in messages.chunk_by(|(_, one), (_, next)| is_result(one) && is_result(next)) {
        let Some((path, message)) = turn.first() else { continue };
        let mut parts: Vec<Part<'_>> = Vec::new();
        for (path, message) in turn {
            let part = |name, kind, id: &str| Part {
                path: path.clone(),
                name,
                kind,
                id: id.to_owned(),
                text: None,
            };
            if is_result(message) {
                parts.push(part("result", Kind::Result, text(message, "tool_call_id")));
                continue;
            }
            let said = ["content", "refusal", "audio", "function_call"];
            let said = said.into_iter().filter(|key| !message[*key].is_null());
            parts.extend(said.map(|key| part(key, Kind::Content, "")));
            let calls = values_at(message, "tool_calls.*").into_iter();
            parts.extend(calls.map(|(_, call)| part("call", Kind::Call, text(call, "id"))));
        }
        conversation.add(text(message, "role"), path, parts)?;
    }
    conversation.check()
}

/// Checks that each call has its output, and that each reasoning is followed by what it produced.
fn check_items(checker: Checker<'_>, body: &Value) -> Checked {
    let mut variations = vec![
        Variation::MayBegin,
        Variation::MayEnd,
        Variation::MayWait,
        Variation::RepeatsIdsInTurn,
    ];
    let earlier = ["previous_response_id", "conversation", "prompt"];
    let has_earlier = earlier.iter().any(|key| !body[*key].is_null());
    variations.extend(has_earlier.then_some(Variation::HasEarlierCalls));
    let mut conversation = Conversation::new(checker, variations);
    for (path, item) in values_at(body, "input.*") {
        let (role, kind) = match text(item, "type") {
            "function_call" => ("assistant", Kind::Call),
            "function_call_output" => ("tool", Kind::Result),
            "reasoning" => ("assistant", Kind::Reasoning),
            name if name.ends_with("_output") => ("tool", Kind::Content),
            _ if item["role"].is_string() => (text(item, "role"), Kind::Content),
            _ => ("assistant", Kind::Content),
        };
        let id = text(item, "call_id").to_owned();
        conversation.add(
            role,
            &path,
            vec![Part { path: path.clone(), name: "item", kind, id, text: None }],
        )?;
    }
    let mut turns = conversation.turns.iter().peekable();
    while let Some(turn) = turns.next() {
        let is_reasoning = turn.parts.iter().any(|part| part.kind == Kind::Reasoning);
        if is_reasoning && !turns.peek().is_some_and(|next| next.is_model()) {
            return checker.refuse("no follower", &turn.path, &[]);
        }
    }
    conversation.check()
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { code, path, text } = refusal;
        let error = Self {
            param: Some(path).filter(|path| !path.is_empty()),
            ..Self::invalid_request(text)
        };
        match code.as_str() {
            "" => error,
            "404" => Self { status: 404, ..error },
            code => error.code(code),
        }
    }
}

#[cfg(test)]
mod tests;
