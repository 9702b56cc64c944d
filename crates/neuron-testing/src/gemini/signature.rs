//! Thought signatures. Gemini encrypts its thoughts into a signature beside a part, and reads them when the part comes
//! back.
//!
//! A signature of this server encodes the platform, the model and a hash of the signed part. So the server validates a
//! signature without storing it, and detects a signature that was moved to another part.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::route::{Platform, Route};
use crate::base64;

/// The value that Gemini accepts instead of a signature, for a call that Gemini did not make.
///
/// Source: <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const SKIP: &str = "skip_thought_signature_validator";

/// Returns the signature that a [`GeminiServer`](super::GeminiServer) sends with `part`, a part of a response to a
/// request to `route`.
///
/// A server signs the first function call of a response. Of a response without calls, it signs the last part that is
/// no thought. A stream signs a text with a last part, whose text is empty. Gemini documents the same.
///
/// Use this function for a conversation that a test writes itself.
///
/// # Example
///
/// ```
/// use neuron_testing::gemini::{Route, check_request, thought_signature};
/// use serde_json::json;
///
/// let route = Route::parse("/v1beta/models/gemini-3.8-flash:generateContent").unwrap();
/// let mut call = json!({"functionCall": {"name": "now", "args": {}}});
/// call["thoughtSignature"] = json!(thought_signature(&call, &route));
/// let answer = json!({"functionResponse": {"name": "now", "response": {"output": "noon"}}});
/// let body = json!({"contents": [
///     {"role": "user", "parts": [{"text": "What time is it?"}]},
///     {"role": "model", "parts": [call]},
///     {"role": "user", "parts": [answer]},
/// ]});
/// assert!(check_request(&body, &route).is_ok());
/// ```
#[must_use]
pub fn thought_signature(part: &Value, route: &Route) -> String {
    base64::encode(&signature(part, route))
}

/// Adds a signature to a part. A part that has a signature keeps it.
pub(super) fn sign(part: &mut Value, route: &Route) {
    let signature = thought_signature(part, route);
    if let Some(fields) = part.as_object_mut() {
        fields.entry("thoughtSignature").or_insert_with(|| signature.into());
    }
}

/// Returns `true` if `text` is the server's signature of `part`, or the value that skips validation.
pub(super) fn is_valid(text: &str, part: &Value, route: &Route) -> bool {
    if text == SKIP {
        return true;
    }
    base64::decode_lenient(text)
        .is_some_and(|bytes| bytes == SKIP.as_bytes() || bytes == signature(part, route))
}

/// Returns the bytes of a signature. A client may change the order of the arguments of a call, so the order is not
/// part of the hash.
fn signature(part: &Value, route: &Route) -> Vec<u8> {
    let call = part.get("functionCall");
    let field = |key: &str| call.and_then(|call| call.get(key)).filter(|value| !value.is_null());
    let mut signed = match call {
        Some(_) => json!([
            field("name"),
            // A call without arguments is the same call as one with an empty object.
            field("args").cloned().unwrap_or_else(|| json!({})),
            field("id").cloned().unwrap_or_default(),
        ]),
        None => {
            let mut part = part.clone();
            if let Some(fields) = part.as_object_mut() {
                fields.shift_remove("thoughtSignature");
            }
            part
        }
    };
    signed.sort_all_objects();
    let mut hasher = DefaultHasher::new();
    signed.to_string().hash(&mut hasher);
    let platform = match route.platform {
        Platform::GoogleAi => "google-ai",
        Platform::Vertex => "vertex",
    };
    format!("{platform}/{}/{:016x}", route.model, hasher.finish()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> Route {
        Route::parse(path).unwrap()
    }

    #[test]
    fn signature_is_valid_only_for_its_part_model_and_platform() {
        let own = route("/v1beta/models/gemini-3.8-flash:generateContent");
        let call = json!({"functionCall": {"id": "a", "name": "f", "args": {"x": 1, "y": 2}}});
        let text = thought_signature(&call, &own);
        assert!(is_valid(&text, &call, &own));

        let reordered = json!({"functionCall": {"name": "f", "args": {"y": 2, "x": 1}, "id": "a"}});
        assert!(is_valid(&text, &reordered, &own));
        let streamed = route("/v1/models/gemini-3.8-flash:streamGenerateContent");
        assert!(is_valid(&text, &call, &streamed));

        let others = [
            json!({"functionCall": {"id": "b", "name": "f", "args": {"x": 1, "y": 2}}}),
            json!({"functionCall": {"name": "f", "args": {"x": 1, "y": 2}}}),
            json!({"functionCall": {"id": "a", "name": "f"}}),
            json!({"text": ""}),
        ];
        for other in others {
            assert!(!is_valid(&text, &other, &own), "{other}");
        }
        let other_model = route("/v1beta/models/gemini-3.7-flash:generateContent");
        assert!(!is_valid(&text, &call, &other_model));
        let vertex = route("/v1/publishers/google/models/gemini-3.8-flash:generateContent");
        assert!(!is_valid(&text, &call, &vertex));
    }

    #[test]
    fn signature_is_valid_in_both_alphabets_and_the_dummy_everywhere() {
        let own = route("/v1beta/models/gemini-3.8-flash:generateContent");
        let part = json!({"text": "hi"});
        let text = thought_signature(&part, &own).replace('+', "-").replace('/', "_");
        assert!(is_valid(text.trim_end_matches('='), &part, &own));
        assert!(is_valid(SKIP, &part, &own));
        assert!(is_valid(&base64::encode(SKIP.as_bytes()), &part, &own));
        assert!(!is_valid("c2ln", &part, &own));
        assert!(!is_valid("?", &part, &own));
    }
}
