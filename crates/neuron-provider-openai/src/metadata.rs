//! Metadata of a response, parsed from the fields of OpenAI and of compatible servers.

use neuron_model::{AnswerMetadata, Message};
use serde::Deserialize;
use serde_json::Value;

use crate::lenient;
use crate::message_fields::own_fields;
use crate::request::PROVIDER;
use crate::usage::WireUsage;

/// The metadata fields of a response, which a stream repeats in its chunks.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireMetadata {
    #[serde(deserialize_with = "lenient::or_default")]
    service_tier: Option<String>,
    /// URLs that Perplexity cites. In a stream, each chunk contains all citations so far.
    #[serde(deserialize_with = "lenient::or_default")]
    citations: Vec<Value>,
    /// Search results of Perplexity. In a stream, each chunk contains all results so far.
    #[serde(deserialize_with = "lenient::or_default")]
    search_results: Vec<Value>,
}

impl WireMetadata {
    /// Merges the metadata of a later chunk. A later value replaces the earlier value, but a list never replaces a
    /// longer list.
    pub(crate) fn update(&mut self, later: Self) {
        self.service_tier = later.service_tier.or(self.service_tier.take());
        for (list, later) in [
            (&mut self.citations, later.citations),
            (&mut self.search_results, later.search_results),
        ] {
            if later.len() >= list.len() {
                *list = later;
            }
        }
    }

    /// Combines these fields with the cost in `usage`, the log probabilities, and the citations in `message`.
    pub(crate) fn into_metadata(
        self,
        usage: &WireUsage,
        logprobs: Value,
        message: &Message,
    ) -> AnswerMetadata {
        let mut metadata = AnswerMetadata::default();
        metadata.service_tier = self.service_tier;
        // Search results contain the URLs of the citations and more, so the first list that is not empty is used.
        let lists = [self.search_results, self.citations, annotations(message)];
        metadata.sources = lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default();
        metadata.cost = usage.cost();
        metadata.server_tool_usage = usage.server_tools().collect();
        metadata.logprobs = (!logprobs.is_null()).then_some(logprobs);
        metadata
    }
}

/// Returns the citations that OpenAI's search models send in the message field `annotations`.
fn annotations(message: &Message) -> Vec<Value> {
    let lists =
        message.content.iter().filter_map(|block| own_fields(block, PROVIDER)?.get("annotations"));
    lists.filter_map(Value::as_array).flatten().cloned().collect()
}

/// Appends the log probabilities of a chunk to the log probabilities of all earlier chunks.
pub(crate) fn add_logprobs(all: &mut Value, more: Value) {
    match (all, more) {
        (all @ Value::Null, more @ Value::Object(_)) => *all = more,
        (Value::Object(all), Value::Object(more)) => {
            for (name, value) in more {
                match (all.get_mut(&name), value) {
                    (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
                    (Some(known), Value::Null) if !known.is_null() => {}
                    (_, value) => drop(all.insert(name, value)),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{FutureExt, stream};
    use neuron_model::CompletionResponse;
    use serde_json::json;

    use super::*;
    use crate::wire;

    /// Checks the metadata of a response with the fields `top`. The response is parsed as a whole, and as a stream that
    /// is split at every byte. `expected` is the metadata without the log probabilities.
    #[track_caller]
    fn check(top: &Value, usage: &Value, expected: &Value) {
        let (first, second) = (logprob("Hel"), logprob("lo"));
        let mut whole = json!({
            "id": "a", "model": "m", "usage": usage,
            "choices": [{
                "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "Hello" },
                "logprobs": { "content": [first, second], "refusal": null },
            }],
        });
        let chunk = |text: &str, logprob: &Value| {
            json!({
                "id": "a", "model": "m", "usage": null,
                "choices": [{
                    "index": 0, "delta": { "content": text }, "finish_reason": null,
                    "logprobs": { "content": [logprob], "refusal": null },
                }],
            })
        };
        let mut chunks = [
            json!({ "id": "a", "model": "m", "choices": [{ "index": 0, "delta": { "role": "assistant" } }] }),
            chunk("Hel", &first),
            chunk("lo", &second),
            json!({ "id": "a", "model": "m", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
            json!({ "id": "a", "model": "m", "choices": [], "usage": usage }),
        ];
        for body in chunks.iter_mut().chain([&mut whole]) {
            body.as_object_mut().unwrap().extend(top.as_object().unwrap().clone());
        }
        let whole = wire::read_response(whole.to_string().as_bytes()).unwrap();
        let mut expected = expected.clone();
        expected["logprobs"] = json!({ "content": [first, second], "refusal": null });
        let metadata = whole.message.metadata().unwrap();
        assert_eq!(serde_json::to_value(metadata).unwrap(), expected);
        let bytes: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        let bytes = bytes + "data: [DONE]\n\n";
        for split in 0..=bytes.len() {
            let (first, second) = bytes.as_bytes().split_at(split);
            let pieces = [first, second].map(|piece| Ok(Bytes::copy_from_slice(piece)));
            let streamed = wire::read_stream(stream::iter(pieces)).into_response();
            let streamed: CompletionResponse = streamed.now_or_never().unwrap().unwrap();
            assert_eq!(streamed, whole, "split at {split}");
        }
    }

    fn logprob(token: &str) -> Value {
        json!({ "token": token, "logprob": -0.5, "bytes": [1], "top_logprobs": [] })
    }

    /// The response format is documented at <https://platform.openai.com/docs/api-reference/chat/object>.
    #[test]
    fn metadata_of_openai_is_parsed() {
        check(
            &json!({ "service_tier": "default", "system_fingerprint": "fp_1" }),
            &json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 }),
            &json!({ "service_tier": "default" }),
        );
    }

    /// The response format is documented at <https://openrouter.ai/docs/use-cases/usage-accounting>.
    #[test]
    fn metadata_of_openrouter_is_parsed() {
        check(
            &json!({ "provider": "DeepInfra", "system_fingerprint": null }),
            &json!({
                "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cost": 0.00014,
                "server_tool_use": { "web_search_requests": 3 },
            }),
            &json!({
                "cost": 0.00014, "server_tool_usage": { "web_search_requests": 3 },
            }),
        );
    }

    /// The response format is documented at <https://docs.perplexity.ai/api-reference/chat-completions-post>.
    #[test]
    fn metadata_of_perplexity_is_parsed() {
        let result = json!({ "title": "T", "url": "https://example.com", "date": null });
        check(
            &json!({ "citations": ["https://example.com"], "search_results": [result] }),
            &json!({
                "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "num_search_queries": 2,
                "cost": { "input_tokens_cost": 0.1, "total_cost": 0.25 },
            }),
            &json!({
                "cost": 0.25, "sources": [result], "server_tool_usage": { "num_search_queries": 2 },
            }),
        );
    }

    /// The response format is documented at <https://docs.x.ai/docs/key-information/usage-explorer>. A US dollar has
    /// 10^10 ticks.
    #[test]
    fn metadata_of_xai_is_parsed() {
        check(
            &json!({ "citations": ["https://example.com"] }),
            &json!({
                "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2,
                "num_sources_used": 4, "cost_in_usd_ticks": 25_000_000,
            }),
            &json!({
                "cost": 0.0025, "sources": ["https://example.com"],
                "server_tool_usage": { "num_sources_used": 4 },
            }),
        );
    }

    /// The response format is documented at <https://platform.openai.com/docs/guides/tools-web-search?api-mode=chat>.
    #[test]
    fn citations_of_search_model_become_sources() {
        let citation =
            json!({ "type": "url_citation", "url_citation": { "url": "https://example.com" } });
        let message = json!({ "content": "a", "annotations": [citation] });
        let whole = json!({ "choices": [{ "message": message, "finish_reason": "stop" }] });
        let whole = wire::read_response(whole.to_string().as_bytes()).unwrap();
        let chunk = json!({ "choices": [{ "delta": message, "finish_reason": "stop" }] });
        let bytes = Bytes::from(format!("data: {chunk}\n\ndata: [DONE]\n\n"));
        let streamed = wire::read_stream(stream::iter([Ok(bytes)])).into_response();
        for response in [whole, streamed.now_or_never().unwrap().unwrap()] {
            assert_eq!(
                response.message.metadata().unwrap().sources,
                std::slice::from_ref(&citation)
            );
        }
    }

    #[test]
    fn response_without_metadata_fields_has_no_metadata() {
        let body = br#"{"choices":[{"message":{"content":"a"},"logprobs":null}],"service_tier":7,"citations":null}"#;
        let response = wire::read_response(body).unwrap();
        assert_eq!(response.message, neuron_model::Message::assistant("a"));
    }
}
