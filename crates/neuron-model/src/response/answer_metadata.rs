//! Metadata of a response other than its content, usage and stop reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::marks;
use crate::{AnswerRoute, Message};

/// Metadata that a provider reported for a response, such as the request id, rate limits and cost. Returned by
/// [`Message::metadata`].
///
/// The metadata is stored in a block at the end of the message, and so becomes part of sessions, snapshots and
/// journals. The block is never sent to a model. A provider adds the block only if the server reported metadata.
///
/// # Example
///
/// ```
/// use neuron_model::{AnswerMetadata, Message};
///
/// let mut metadata = AnswerMetadata::default();
/// metadata.request_id = Some("req_011CSHoEeqs5C35K2UUqR7Fy".into());
/// let message = Message::assistant("Hello!").with_metadata(&metadata);
/// assert_eq!(message.text(), "Hello!");
/// assert_eq!(message.metadata(), Some(metadata));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AnswerMetadata {
    /// The vendor's id of the request, for questions to the vendor's support. From a header such as `request-id` or
    /// `x-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Values of the rate limit headers by lower-case name, for example `x-ratelimit-remaining-tokens`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rate_limits: BTreeMap<String, String>,
    /// Service tier that processed the request, for example `priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// Stop sequence that ended the response. `None` if no stop sequence ended the response, or if not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequence: Option<String>,
    /// Details of the stop reason, in the vendor's format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_details: Option<Value>,
    /// The container in which the server ran code, in the vendor's format. Anthropic requires the container in later
    /// requests that run code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Value>,
    /// Citations and search results that the vendor sends outside of the content, in the vendor's format and order.
    ///
    /// Citations inside text blocks, as sent by Anthropic's API and OpenAI's Responses API, are not repeated here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Value>,
    /// Number of uses of each server-side tool, for example `web_search_requests`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub server_tool_usage: BTreeMap<String, u64>,
    /// Log probabilities of the response's tokens, in the vendor's format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Value>,
    /// Cost of the call in US dollars, as reported by the vendor. `None` if not reported.
    ///
    /// Budgets and [`TokenUsage::cost`](crate::TokenUsage::cost) do not use it, because most vendors report no cost, and
    /// none before the call. To compare it with the price list, convert it with
    /// [`Money::from_f64`](crate::Money::from_f64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Route that answered the call, and the routes that failed before. `None` if no router chose the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<AnswerRoute>,
}

impl AnswerMetadata {
    /// Returns `true` if no metadata was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Message {
    /// Adds metadata to the message. Metadata fields that the message already has keep their values. Empty metadata
    /// changes nothing.
    #[must_use]
    pub fn with_metadata(mut self, metadata: &AnswerMetadata) -> Self {
        self.add_metadata(metadata);
        self
    }

    /// Adds metadata to the message in place, like [`with_metadata`](Self::with_metadata).
    pub fn add_metadata(&mut self, metadata: &AnswerMetadata) {
        // Serialising cannot fail: every field has a JSON form.
        let Ok(Value::Object(fields)) = serde_json::to_value(metadata) else {
            return;
        };
        match self.content.iter_mut().rev().find_map(|block| marks::content_mut(block, KIND)) {
            _ if fields.is_empty() => {}
            Some(Value::Object(known)) => {
                for (name, fact) in fields {
                    known.entry(name).or_insert(fact);
                }
            }
            _ => self.content.push(marks::block(KIND, fields)),
        }
    }

    /// Returns the metadata of the response. Returns `None` if the provider reported no metadata.
    #[must_use]
    pub fn metadata(&self) -> Option<AnswerMetadata> {
        let fields = self.content.iter().rev().find_map(|block| marks::content(block, KIND))?;
        AnswerMetadata::deserialize(fields).ok()
    }
}

/// The `type` of the message block that stores [`AnswerMetadata`].
const KIND: &str = "metadata";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_stored_with_the_message() {
        let metadata = AnswerMetadata {
            request_id: Some("req-1".into()),
            rate_limits: BTreeMap::from([("x-ratelimit-remaining-tokens".into(), "5".into())]),
            cost: Some(0.25),
            route: Some(AnswerRoute::new("fast", "openai")),
            ..AnswerMetadata::default()
        };
        let message = Message::assistant("hi").with_metadata(&metadata).with_metadata(&metadata);
        assert_eq!(message.content.len(), 2);
        let stored = serde_json::to_value(&message).unwrap();
        assert_eq!(
            stored["content"][1],
            json!({
                "type": "raw",
                "provider": "neuron",
                "json": {
                    "type": "metadata",
                    "request_id": "req-1",
                    "rate_limits": { "x-ratelimit-remaining-tokens": "5" },
                    "cost": 0.25,
                    "route": { "name": "fast", "provider": "openai" },
                },
            })
        );
        let read: Message = serde_json::from_value(stored).unwrap();
        assert_eq!(read.metadata(), Some(metadata));
        assert_eq!(read.content.iter().map(ToString::to_string).collect::<String>(), "hi");
        let plain = Message::assistant("hi").with_metadata(&AnswerMetadata::default());
        assert_eq!((plain.content.len(), plain.metadata()), (1, None));
    }

    #[test]
    fn added_metadata_keeps_existing_fields() {
        let of_body = AnswerMetadata { cost: Some(1.0), ..AnswerMetadata::default() };
        let of_headers = AnswerMetadata {
            request_id: Some("r".into()),
            cost: Some(2.0),
            ..AnswerMetadata::default()
        };
        let message = Message::assistant("hi").with_metadata(&of_body).with_metadata(&of_headers);
        assert_eq!(message.metadata(), Some(AnswerMetadata { cost: Some(1.0), ..of_headers }));
    }

    #[test]
    fn metadata_and_pin_are_independent() {
        let metadata = AnswerMetadata { cost: Some(1.0), ..AnswerMetadata::default() };
        let message = Message::assistant("hi").with_metadata(&metadata).pinned();
        assert!(message.is_pinned());
        assert_eq!(message.unpinned().metadata(), Some(metadata.clone()));
        let message = Message::assistant("hi").pinned().with_metadata(&metadata);
        assert_eq!((message.is_pinned(), message.metadata()), (true, Some(metadata)));
    }

    #[test]
    fn metadata_of_a_newer_release_keeps_known_fields() {
        let fields = json!({ "cost": 1.5, "mood": "fine" }).as_object().cloned().unwrap();
        let message =
            Message { content: vec![marks::block(KIND, fields)], ..Message::assistant("") };
        assert_eq!(message.metadata().unwrap().cost, Some(1.5));
        let fields = json!({ "cost": "a lot" }).as_object().cloned().unwrap();
        let message =
            Message { content: vec![marks::block(KIND, fields)], ..Message::assistant("") };
        assert_eq!(message.metadata(), None);
    }
}
