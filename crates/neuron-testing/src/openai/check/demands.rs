//! The rules of a [`Dialect`] that reject requests which OpenAI accepts.

use serde_json::Value;

use super::ApiError;
use crate::checker::values_at;
use crate::openai::Dialect;

/// Checks the body of a request against the additional rules of a server that imitates OpenAI's API. `dialect` selects
/// the rules. OpenAI itself does not have them. Returns a 400 for the first broken rule.
pub(in super::super) fn check_demands(body: &Value, dialect: &Dialect) -> Result<(), ApiError> {
    let has = |places: &str| !values_at(body, places).is_empty();
    let is_refused = |field: &&&str| has(&format!("{field}|messages.*.{field}"));
    if let Some(field) = dialect.refused.iter().find(is_refused) {
        return refuse(&format!("Extra inputs are not permitted: {field}"));
    }
    let unexplained =
        "messages.*[tool_calls,!reasoning_content]|messages.*[tool_calls,reasoning_content=]";
    if dialect.reasoning_with_calls && has(unexplained) {
        return refuse("The `reasoning_content` must be passed back to the API.");
    }
    let ids = values_at(body, "messages.*.tool_calls.*.id|messages.*.tool_call_id").into_iter();
    let is_short = |id: &&str| id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
    let mut long = ids.filter_map(|(_, id)| id.as_str()).filter(|id| !is_short(id));
    match long.next().filter(|_| dialect.short_call_ids) {
        Some(id) => {
            refuse(&format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."))
        }
        None => Ok(()),
    }
}

fn refuse(text: &str) -> Result<(), ApiError> {
    Err(ApiError::invalid_request(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn check_demands_rejects_each_broken_rule() {
        let message = |fields: Value| json!({ "messages": [fields] });
        let call = |id: &str| json!([{ "id": id, "function": { "name": "a", "arguments": "{}" } }]);
        let refusing = Dialect::default().refusing(&["max_tokens", "padding"]);
        let (reasoning, short) =
            (Dialect::default().reasoning_with_calls(), Dialect::default().short_call_ids());
        for (dialect, body, is_accepted) in [
            (&refusing, json!({ "messages": [] }), true),
            (&refusing, json!({ "max_tokens": 1, "messages": [] }), false),
            (&refusing, message(json!({ "padding": "a" })), false),
            (&reasoning, message(json!({ "content": "a" })), true),
            (
                &reasoning,
                message(json!({ "tool_calls": call("a"), "reasoning_content": " " })),
                true,
            ),
            (
                &reasoning,
                message(json!({ "tool_calls": call("a"), "reasoning_content": "" })),
                false,
            ),
            (&reasoning, message(json!({ "tool_calls": call("a") })), false),
            (&short, message(json!({ "tool_calls": call("aB3456789") })), true),
            (&short, message(json!({ "tool_calls": call("a_3456789") })), false),
            (&short, message(json!({ "tool_call_id": "call_1" })), false),
        ] {
            assert_eq!(check_demands(&body, dialect).is_ok(), is_accepted, "{body}");
        }
    }
}
