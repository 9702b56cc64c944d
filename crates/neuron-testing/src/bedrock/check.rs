//! Bedrock's rules for the body of a request. `rules.json` has them, as far as they need no code.
//!
//! The structure is AWS's service model for the Converse API. An error text is Bedrock's own if it is known from an issue
//! of a client.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::ApiError;
use super::route::{Family, Route};
use super::signature::is_foreign;
use crate::checker::{
    Checked, Checker, Conversation, Kind, Null, Part, Refusal, Table, Variation, join, parts_of,
    text, values_at,
};

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("rules.json"), Null::Missing, of_members));

/// Checks the body of a request to `converse` or `converse-stream` as Bedrock does. `route` is the path of the request.
///
/// Some rules depend on the family of the model, which follows from the vendor in its id, such as `anthropic.`. A model
/// of an unknown vendor accepts the requests that any other family accepts.
///
/// # Errors
///
/// Returns a 400 for the first broken rule, or a 403 for a cache point that the model does not support.
///
/// # Example
///
/// ```
/// use neuron_testing::bedrock::{Route, check_request};
/// use serde_json::json;
///
/// let route = Route::parse("/model/anthropic.claude-opus-4-6-v1/converse").unwrap();
/// let mut body = json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]});
/// assert!(check_request(&body, &route).is_ok());
///
/// body["inferenceConfig"] = json!({"maxTokens": 0});
/// let error = check_request(&body, &route).unwrap_err();
/// assert_eq!(
///     error.message,
///     "1 validation error detected: Value '0' at 'inferenceConfig.maxTokens' failed to satisfy \
///      constraint: Member must have value greater than or equal to 1"
/// );
/// ```
pub fn check_request(body: &Value, route: &Route) -> Result<(), ApiError> {
    let checker = Checker::new(&TABLE);
    let family = route.family();
    checker.check("", body, &"request".into())?;
    let more = &body["additionalModelRequestFields"];
    if family == Family::Claude && !more.is_null() {
        checker.check("additionalModelRequestFields", more, &"claude".into())?;
    }
    let (of, method) = (format!("{family:?}"), format!("{:?}", route.method));
    let facts = json!({"family": of, "method": method, "model": route.model});
    checker.check_rows("refused", body, &facts)?;
    check_cache_points(checker, body, family)?;
    Ok(check_messages(checker, body, route)?)
}

fn check_messages(checker: Checker<'_>, body: &Value, route: &Route) -> Checked {
    let family = route.family();
    let is_claude = family == Family::Claude;
    let thinking = body.pointer("/additionalModelRequestFields/thinking/type");
    let variations = [
        (Variation::Merges, true),
        (Variation::SystemBetween, true),
        (Variation::MayBegin, family.may_begin()),
        (Variation::MayEnd, !route.is_claude_since((4, 6))),
        (Variation::Trims, is_claude),
        (Variation::ResultsWithoutFiles, is_claude),
        (Variation::ResultsOnly, family.has_result_turns()),
        (Variation::Thinks, is_claude && thinking.is_some_and(|kind| kind == "enabled")),
    ];
    let variations = variations.into_iter().filter_map(|(variation, has)| has.then_some(variation));
    let mut conversation = Conversation::new(checker, variations.collect());
    let system = parts_of(&body["system"], "system", read_block);
    if !system.is_empty() {
        conversation.add("system", "system", system)?;
    }
    for (path, message) in values_at(body, "messages.*") {
        let path = join(&path, "content");
        let parts = parts_of(&message["content"], &path, read_block);
        let has = |name: &str| parts.iter().any(|part| part.name == name);
        if has("document") && !has("text") {
            return checker.refuse("document without text", &path, &[]);
        }
        // New models of Claude take reasoning alone for a response to continue, even if the user follows.
        let is_reasoning = |part: &Part<'_>| part.kind == Kind::Reasoning;
        if route.is_claude_since((5, 0)) && !parts.is_empty() && parts.iter().all(is_reasoning) {
            return checker.refuse("end", &path, &[]);
        }
        conversation.add(text(message, "role"), &path, parts)?;
    }
    let reasoning = "messages.*.content.*.reasoningContent.reasoningText";
    for (path, it) in values_at(body, reasoning) {
        if is_foreign(text(it, "signature"), text(it, "text"), route) {
            return checker.refuse("changed reasoning", &path, &[]);
        }
    }
    conversation.check()
}

fn read_block(block: &Value) -> (&str, Kind, String) {
    let mut fields = block.as_object().into_iter().flatten();
    let set = fields.find(|(_, value)| !value.is_null());
    let (name, value) = set.map_or(("", &Value::Null), |(name, value)| (name.as_str(), value));
    let kind = match name {
        // The vendor runs a call with a type itself, and has its result in the same message.
        _ if !value["type"].is_null() && name != "cachePoint" => Kind::Content,
        "toolUse" => Kind::Call,
        "toolResult" => Kind::Result,
        "reasoningContent" => Kind::Reasoning,
        "cachePoint" => Kind::Mark,
        _ => Kind::Content,
    };
    (name, kind, text(value, "toolUseId").to_owned())
}

/// Checks the number and the order of cache points, and that a point of Nova follows a text.
///
/// Sources: <https://github.com/zeroclaw-labs/zeroclaw/issues/8720>,
/// <https://github.com/danny-avila/LibreChat/issues/13838>.
fn check_cache_points(checker: Checker<'_>, body: &Value, family: Family) -> Checked {
    let places = ["toolConfig.tools.*", "system.*", "messages.*.content.*"];
    let blocks = values_at(body, &places.join("|"));
    // A point is never the first block of its list, so the block before it is in the same list.
    for (before, (path, block)) in blocks.iter().zip(blocks.iter().skip(1)) {
        if family == Family::Nova && block["cachePoint"].is_object() && before.1["text"].is_null() {
            return checker.refuse("cache point of Nova", &join(path, "cachePoint"), &[]);
        }
    }
    checker
        .check_cache(&values_at(body, &places.map(|place| format!("{place}.cachePoint")).join("|")))
}

/// Writes a path as Coral does, the framework of AWS's services, which counts the members of a list from 1.
fn of_members(path: &str) -> String {
    let steps = path.split('.').map(|step| match step.parse::<usize>() {
        Ok(index) => format!("{}.member", index + 1),
        Err(_) => step.to_owned(),
    });
    steps.collect::<Vec<_>>().join(".")
}

impl From<Refusal> for ApiError {
    fn from(Refusal { code, text, .. }: Refusal) -> Self {
        match code.as_str() {
            "" => Self::validation(text),
            exception @ "AccessDeniedException" => Self::new(403, exception, text),
            exception => Self::new(400, exception, text),
        }
    }
}

#[cfg(test)]
mod tests;
