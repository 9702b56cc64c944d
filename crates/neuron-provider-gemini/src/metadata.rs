//! Metadata of a response: citations, search results, log probabilities, and details of the stop reason.

use neuron_model::AnswerMetadata;
use serde_json::{Map, Value, json};

/// Names of the fields of a candidate that contain sources.
const SOURCES: [&str; 3] = ["groundingMetadata", "citationMetadata", "urlContextMetadata"];

/// Names of the fields of a candidate that explain its stop reason.
const DETAILS: [&str; 4] = ["finishReason", "finishMessage", "safetyRatings", "continuationToken"];

/// The fields of a candidate except its content and index.
#[derive(Debug, Default)]
pub(crate) struct CandidateFields(Map<String, Value>);

impl CandidateFields {
    /// Merges the fields of a later chunk. Log probabilities are appended, and any other value replaces an earlier
    /// value. An unspecified finish reason does not replace another reason.
    pub(crate) fn update(&mut self, later: Map<String, Value>) {
        for (key, value) in later {
            match self.0.get_mut(&key) {
                _ if value.is_null() => {}
                Some(_) if key == "finishReason" && reason(&value).is_none() => {}
                Some(known) if key == "logprobsResult" => append(known, value),
                _ => {
                    self.0.insert(key, value);
                }
            }
        }
    }

    /// Returns the reason why the model stopped, in the words of the API.
    pub(crate) fn finish_reason(&self) -> Option<&str> {
        reason(self.0.get("finishReason")?)
    }

    /// Returns the metadata of the response.
    pub(crate) fn into_metadata(mut self) -> AnswerMetadata {
        let mut metadata = AnswerMetadata::default();
        metadata.logprobs = self.0.remove("logprobsResult");
        for key in SOURCES {
            if let Some(value) = self.0.remove(key).filter(|value| !is_empty(value)) {
                metadata.sources.push(json!({ key: value }));
            }
        }
        let is_usual = matches!(self.finish_reason(), None | Some("STOP" | "MAX_TOKENS"));
        if !is_usual || self.0.contains_key("finishMessage") {
            let details = DETAILS.iter().filter_map(|key| self.0.remove_entry(*key));
            metadata.stop_details = Some(Value::Object(details.collect()));
        }
        metadata
    }
}

/// The default value of the enum in the API, which means that there is no reason.
const UNSPECIFIED: &str = "FINISH_REASON_UNSPECIFIED";

/// Returns the finish reason in the value of this field. Returns `None` for an unspecified reason.
fn reason(value: &Value) -> Option<&str> {
    value.as_str().filter(|reason| !reason.is_empty() && *reason != UNSPECIFIED)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Appends the lists in an object to the lists of the same names. Any other value replaces the earlier value.
fn append(known: &mut Value, later: Value) {
    match (known, later) {
        (Value::Object(known), Value::Object(later)) => {
            for (key, value) in later {
                match known.get_mut(&key) {
                    Some(known) => append(known, value),
                    None => {
                        known.insert(key, value);
                    }
                }
            }
        }
        (Value::Array(known), Value::Array(mut later)) => known.append(&mut later),
        (known, later) => *known = later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(chunks: &[Value]) -> AnswerMetadata {
        let mut fields = CandidateFields::default();
        for chunk in chunks {
            fields.update(chunk.as_object().cloned().unwrap());
        }
        fields.into_metadata()
    }

    #[test]
    fn metadata_of_all_chunks_is_collected() {
        let grounding =
            json!({"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "u"}}]});
        let citations = json!({"citations": [{"startIndex": 1, "uri": "u"}]});
        let metadata = metadata(&[
            json!({"logprobsResult": {"chosenCandidates": [1]}, "groundingMetadata": {}}),
            json!({"logprobsResult": {"chosenCandidates": [2], "topCandidates": [3]}}),
            json!({
                "citationMetadata": citations, "groundingMetadata": grounding,
                "logprobsResult": null, "finishReason": "STOP", "avgLogprobs": -0.1,
            }),
        ]);
        let logprobs = json!({"chosenCandidates": [1, 2], "topCandidates": [3]});
        assert_eq!(metadata.logprobs, Some(logprobs));
        assert_eq!(
            metadata.sources,
            [json!({"groundingMetadata": grounding}), json!({"citationMetadata": citations})]
        );
        assert_eq!(metadata.stop_details, None);
    }

    #[test]
    fn unusual_stop_reason_has_details() {
        let ratings = json!([{"category": "HARM_CATEGORY_HARASSMENT", "blocked": true}]);
        let cut = json!({"finishReason": "SAFETY", "safetyRatings": ratings, "index": 0});
        let details = json!({"finishReason": "SAFETY", "safetyRatings": ratings});
        assert_eq!(metadata(&[cut]).stop_details, Some(details));
        let said = json!({"finishReason": "STOP", "finishMessage": "why"});
        assert_eq!(metadata(std::slice::from_ref(&said)).stop_details, Some(said));
        assert!(metadata(&[json!({"finishReason": "MAX_TOKENS"})]).is_empty());
        assert!(metadata(&[json!({"finishReason": UNSPECIFIED})]).is_empty());
    }

    #[test]
    fn unspecified_finish_reason_does_not_replace_another() {
        let mut fields = CandidateFields::default();
        for (sent, kept) in [
            (json!(""), None),
            (json!("STOP"), Some("STOP")),
            (json!("MAX_TOKENS"), Some("MAX_TOKENS")),
            (json!(UNSPECIFIED), Some("MAX_TOKENS")),
            (json!(""), Some("MAX_TOKENS")),
            (json!(null), Some("MAX_TOKENS")),
        ] {
            fields.update(Map::from_iter([("finishReason".to_owned(), sent)]));
            assert_eq!(fields.finish_reason(), kept);
        }
    }
}
