//! Metadata of a response, and the code execution container of the next request.

use chrono::{DateTime, Utc};
use neuron_http::or_default;
use neuron_types::{AnswerMetadata, Message, RequestRef, Role};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::response::WireUsage;

/// The metadata fields of a response. In a stream they arrive together with the stop reason.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireMetadata {
    // A value of another type must not make the whole response fail.
    #[serde(deserialize_with = "or_default")]
    stop_sequence: Option<String>,
    stop_details: Option<Value>,
    container: Option<Value>,
}

impl WireMetadata {
    /// Merges the metadata of a later event. A later value replaces an earlier value of the same field.
    pub(crate) fn update(&mut self, later: Self) {
        self.stop_sequence = later.stop_sequence.or(self.stop_sequence.take());
        self.stop_details = later.stop_details.or(self.stop_details.take());
        self.container = later.container.or(self.container.take());
    }

    /// Combines these fields with the service tier and the uses of server tools, which are moved out of `usage`.
    pub(crate) fn into_metadata(self, usage: &mut WireUsage) -> AnswerMetadata {
        let mut metadata = AnswerMetadata::default();
        metadata.stop_sequence = self.stop_sequence;
        metadata.stop_details = self.stop_details;
        metadata.container = self.container;
        metadata.service_tier = usage.service_tier.take();
        let uses = usage.server_tool_use.take().unwrap_or_default().into_iter();
        let uses = uses.filter_map(|(name, count)| Some((name, count.as_u64()?)));
        metadata.server_tool_usage = uses.filter(|(_, count)| *count > 0).collect();
        metadata
    }
}

/// Returns the code execution container of the last response, for the next request. The value is the container's id, or
/// an object with the id if `extra` adds fields to the container. Returns `None` if the container has expired, or if
/// the request has no code execution tool.
///
/// A code execution may wait for the result of a tool and then continue in the same container. The API rejects the tool
/// result with status 400 if the request does not name the container.
///
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling>
pub(crate) fn container(request: RequestRef<'_>) -> Option<Value> {
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
    use bytes::Bytes;
    use futures_util::{FutureExt, stream};
    use neuron_types::{CompletionRequest, CompletionResponse};
    use serde_json::json;

    use super::*;
    use crate::wire;

    /// Returns a text block with a citation. Its format is documented in
    /// <https://platform.claude.com/docs/en/build-with-claude/citations>.
    fn cited() -> Value {
        json!({ "type": "text", "text": "Yes.", "citations": [source()] })
    }

    fn source() -> Value {
        json!({ "type": "web_search_result_location", "url": "https://example.com", "title": "T" })
    }

    /// Returns a container with this expiry. Its format is documented in
    /// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool#container-reuse>.
    fn own_container(expiry: &str) -> Value {
        json!({ "id": "container_1", "expires_at": expiry })
    }

    const LATER: &str = "2999-01-01T00:00:00Z";

    fn whole() -> CompletionResponse {
        let body = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [cited()],
            "stop_reason": "stop_sequence", "stop_sequence": "END",
            "stop_details": { "type": "sequence" }, "container": own_container(LATER),
            "usage": {
                "input_tokens": 1, "output_tokens": 1, "service_tier": "priority",
                "server_tool_use": { "web_search_requests": 2, "web_fetch_requests": 0 },
            },
        });
        wire::read_response(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn metadata_of_whole_response_is_parsed() {
        let message = whole().message;
        let metadata = message.metadata().unwrap();
        assert_eq!(message.text(), "Yes.");
        assert_eq!(metadata.stop_sequence.as_deref(), Some("END"));
        assert_eq!(metadata.stop_details, Some(json!({ "type": "sequence" })));
        assert_eq!(metadata.container, Some(own_container(LATER)));
        assert_eq!(metadata.service_tier.as_deref(), Some("priority"));
        assert_eq!(metadata.server_tool_usage, [("web_search_requests".to_owned(), 2)].into());
        let plain =
            br#"{"id":"msg_1","content":[{"type":"text","text":"a"}],"stop_sequence":null}"#;
        let plain = wire::read_response(plain).unwrap();
        assert_eq!(plain.message, Message::assistant("a"));
    }

    #[test]
    fn invalid_metadata_does_not_fail_a_response() {
        let body = br#"{"content":[{"type":"text","text":"a"}],"stop_sequence":false,
            "usage":{"input_tokens":3,"server_tool_use":[],"service_tier":{}}}"#;
        let response = wire::read_response(body).unwrap();
        assert_eq!((response.message, response.usage.input_tokens), (Message::assistant("a"), 3));
    }

    #[test]
    fn metadata_of_stream_is_equal_for_every_split() {
        let events = [
            json!({ "type": "message_start", "message": {
                "id": "msg_1", "model": "m", "content": [], "stop_sequence": null, "container": null,
                "usage": { "input_tokens": 1, "output_tokens": 1, "service_tier": "priority" },
            } }),
            json!({ "type": "content_block_start", "index": 0,
                    "content_block": { "type": "text", "text": "", "citations": [] } }),
            json!({ "type": "content_block_delta", "index": 0,
                    "delta": { "type": "text_delta", "text": "Yes." } }),
            json!({ "type": "content_block_delta", "index": 0,
                    "delta": { "type": "citations_delta", "citation": source() } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta",
                "delta": {
                    "stop_reason": "stop_sequence", "stop_sequence": "END",
                    "stop_details": { "type": "sequence" }, "container": own_container(LATER),
                },
                "usage": { "output_tokens": 1,
                           "server_tool_use": { "web_search_requests": 2, "web_fetch_requests": 0 } },
            }),
            json!({ "type": "message_stop" }),
        ];
        let bytes: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        for split in 0..=bytes.len() {
            let (first, second) = bytes.as_bytes().split_at(split);
            let pieces = [first, second].map(|piece| Ok(Bytes::copy_from_slice(piece)));
            let response = wire::read_stream(stream::iter(pieces)).into_response();
            let response = response.now_or_never().unwrap().unwrap();
            assert_eq!(response, whole(), "split at {split}");
        }
    }

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
