//! The code execution container of a request, which the metadata of the last response names.

use chrono::{DateTime, Utc};
use neuron_model::{Message, RequestRef, Role};
use serde_json::{Value, json};

/// Returns the code execution container of the last response, for the next request. The value is the container's id, or
/// an object with the id if `extra` adds fields to the container. Returns `None` if the container has expired, or if
/// the request has no code execution tool.
///
/// A code execution may wait for the result of a tool and then continue in the same container. The API rejects the tool
/// result with status 400 if the request does not name the container.
///
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling>
pub(crate) fn of(request: RequestRef<'_>) -> Option<Value> {
    let tools = request.extra?.get("tools")?.as_array()?;
    // A history from another server or agent may name a container that this request cannot use.
    tools.iter().find(|tool| text_of(tool, "type").starts_with("code_execution"))?;
    let is_answer = |message: &&Message| message.role == Role::Assistant;
    let container = request.messages.iter().rfind(is_answer)?.metadata()?.container?;
    // If the expiry is missing or invalid, the container is sent and the API decides.
    let expiry = DateTime::parse_from_rfc3339(text_of(&container, "expires_at"));
    if expiry.is_ok_and(|expiry| expiry < Utc::now()) {
        return None;
    }
    let id = container.get("id")?;
    let adds_fields =
        request.extra.and_then(|extra| extra.get("container")).is_some_and(Value::is_object);
    Some(if adds_fields { json!({ "id": id }) } else { id.clone() })
}

/// Returns the text of the field `key`, or an empty text if the field is missing or is not a text.
fn text_of<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use neuron_model::{AnswerMetadata, CompletionRequest};
    use serde_json::json;

    use super::*;
    use crate::wire;

    /// Returns a container with this expiry. Its format is documented in
    /// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool#container-reuse>.
    fn own_container(expiry: &str) -> Value {
        json!({ "id": "container_1", "expires_at": expiry })
    }

    const LATER: &str = "2999-01-01T00:00:00Z";

    /// Returns the field `container` of the request after a response with `container`. `own` is the caller's field
    /// `container` in `extra`.
    fn sent(container: Value, own: Option<Value>) -> Value {
        let mut extra =
            json!({ "tools": [{ "type": "code_execution_20260521", "name": "code_execution" }] });
        if let Some(own) = own {
            extra["container"] = own;
        }
        sent_with(container, Some(extra))
    }

    fn sent_with(container: Value, extra: Option<Value>) -> Value {
        let mut metadata = AnswerMetadata::default();
        metadata.container = Some(container);
        let request = CompletionRequest {
            messages: vec![
                Message::user("a"),
                Message::assistant("b").with_metadata(&metadata),
                Message::user("c"),
            ],
            extra,
            ..CompletionRequest::default()
        };
        let body = wire::write_request(request.view(), false).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["messages"][1]["content"], json!([{ "type": "text", "text": "b" }]));
        body["container"].clone()
    }

    #[test]
    fn container_is_sent_back_until_it_expires() {
        assert_eq!(sent(own_container(LATER), None), "container_1");
        assert_eq!(sent(json!({ "id": "c" }), None), "c");
        assert_eq!(sent(own_container("2001-01-01T00:00:00Z"), None), json!(null));
        assert_eq!(sent(json!("damaged"), None), json!(null));
        let both = json!({ "id": "container_1", "skills": [1] });
        assert_eq!(sent(own_container(LATER), Some(json!({ "skills": [1] }))), both);
        assert_eq!(sent(own_container(LATER), Some(json!("other"))), "other");
        assert_eq!(sent_with(own_container(LATER), None), json!(null), "no code runs");
    }
}
