//! Signatures of reasoning. Claude encrypts its reasoning into a signature beside the text, and reads the signature
//! when the reasoning comes back.
//!
//! A signature of this server encodes a hash of the model and the text. So the server validates a signature without
//! storing it, and detects a signature beside another text.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::route::{Family, Route};
use crate::base64;

/// The first bytes of a decoded signature of this server.
const MARK: &str = "neuron-bedrock/";

/// Returns the signature that a [`BedrockServer`](super::BedrockServer) sends with the reasoning `text` in a response to
/// a request to `route`.
///
/// A server signs the reasoning of Claude models, if the script has no signature. Use this function for a conversation
/// that a test writes itself.
///
/// # Example
///
/// ```
/// use neuron_testing::bedrock::{Route, check_request, reasoning_signature};
/// use serde_json::json;
///
/// let route = Route::parse("/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse").unwrap();
/// let signature = reasoning_signature("Hm.", &route);
/// let body = |text: &str| {
///     let reasoning = json!({"reasoningText": {"text": text, "signature": signature}});
///     json!({"messages": [
///         {"role": "user", "content": [{"text": "hi"}]},
///         {"role": "assistant", "content": [{"reasoningContent": reasoning}, {"text": "Hello."}]},
///         {"role": "user", "content": [{"text": "And now?"}]},
///     ]})
/// };
/// assert!(check_request(&body("Hm."), &route).is_ok());
/// assert!(check_request(&body("Hm!"), &route).is_err());
/// ```
#[must_use]
pub fn reasoning_signature(text: &str, route: &Route) -> String {
    let mut hasher = DefaultHasher::new();
    (route.model.as_str(), text).hash(&mut hasher);
    base64::encode(format!("{MARK}{:016x}", hasher.finish()).as_bytes())
}

/// Returns the signature that the server adds to the reasoning `text`. `None` if the model sends no signatures.
pub(super) fn own_signature(text: &str, route: &Route) -> Option<String> {
    (route.family() == Family::Claude).then(|| reasoning_signature(text, route))
}

/// Returns `true` if `signature` is the server's signature of another text, or of another model. A signature that the
/// server did not create is a signature of the script, and is valid.
pub(super) fn is_foreign(signature: &str, text: &str, route: &Route) -> bool {
    let is_own =
        base64::decode_lenient(signature).is_some_and(|bytes| bytes.starts_with(MARK.as_bytes()));
    is_own && signature != reasoning_signature(text, route)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(model: &str) -> Route {
        Route::parse(&format!("/model/{model}/converse")).unwrap()
    }

    #[test]
    fn signature_is_valid_only_for_its_text_and_model() {
        let claude = route("anthropic.claude-opus-4-6-v1");
        let signature = reasoning_signature("hm", &claude);
        assert!(!is_foreign(&signature, "hm", &claude));
        let streamed = Route::parse("/model/anthropic.claude-opus-4-6-v1/converse-stream").unwrap();
        assert!(!is_foreign(&signature, "hm", &streamed));
        assert!(is_foreign(&signature, "hm!", &claude));
        assert!(is_foreign(&signature, "hm", &route("anthropic.claude-sonnet-4-6")));
    }

    #[test]
    fn signatures_of_a_script_are_not_checked() {
        let claude = route("anthropic.claude-opus-4-6-v1");
        for signature in ["c2lnbmF0dXJl", "?", ""] {
            assert!(!is_foreign(signature, "hm", &claude), "{signature}");
        }
    }

    #[test]
    fn only_claude_signs() {
        assert!(own_signature("hm", &route("us.anthropic.claude-opus-4-6-v1")).is_some());
        assert_eq!(own_signature("hm", &route("deepseek.r1-v1")), None);
    }
}
