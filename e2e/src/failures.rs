//! Failures that every vendor can report, before an answer begins and within it.

use std::time::Duration;

use neuron_testing::{Reply, ServerReply};
use neuron_types::ProviderError;
use serde_json::json;

use crate::serve::Case;

/// Makes an error, which cannot be cloned.
type MakeError = fn() -> ProviderError;

/// Errors in place of an answer: once for a whole answer, once for a stream.
pub(crate) fn refusals() -> Vec<Case> {
    let errors: [(&'static str, MakeError); 9] = [
        ("a rate limit", || ProviderError::RateLimit { retry_after: None }),
        ("a rate limit with a delay", || ProviderError::RateLimit {
            retry_after: Some(Duration::from_secs(7)),
        }),
        ("an overload", || ProviderError::ServiceUnavailable("come back later".into())),
        ("a failed authentication", || ProviderError::Authentication("no such key".into())),
        ("an invalid request", || ProviderError::InvalidRequest("that makes no sense".into())),
        ("an unknown model", || ProviderError::ModelNotFound("no-such-model".into())),
        ("an empty account", || ProviderError::InsufficientResources("pay first".into())),
        ("a timeout", || ProviderError::Timeout(Duration::from_secs(60))),
        ("an internal error", || ProviderError::Other("something broke".into())),
    ];
    let refusal = |(name, error): (&str, MakeError)| Case {
        name: name.into(),
        replies: vec![Reply::error(error()).into(), Reply::error(error()).into()],
        means: json!({
            "failure": error().kind(),
            "text": error().to_string(),
            "retry_after": error().retry_after().map(|delay| delay.as_secs()),
        }),
    };
    errors.into_iter().map(refusal).collect()
}

/// Streams that break after some of a text.
pub(crate) fn breaks() -> Vec<Case> {
    const TEXT: &str = "This will never be read to its end.";
    let broken = |name: &str, error: MakeError| {
        let reply = Reply::text(TEXT).chunk_chars(4).fail_after(6, error());
        Case {
            name: name.into(),
            replies: vec![ServerReply::from(reply)],
            means: json!({"break": error().kind(), "text": error().to_string(), "of": TEXT}),
        }
    };
    vec![
        broken("an overload within a stream", || {
            ProviderError::ServiceUnavailable("come back later".into())
        }),
        broken("a rate limit within a stream", || ProviderError::RateLimit { retry_after: None }),
        broken("an internal error within a stream", || {
            ProviderError::StreamError("something broke".into())
        }),
        broken("a connection that breaks", || ProviderError::Network("gone".into())),
    ]
}

/// Requests of the client's own choice: right ones, each of which gets `ok`, and wrong ones, which
/// the server must refuse by itself.
pub(crate) fn of_the_clients_choice(right: usize) -> Vec<Case> {
    vec![
        Case {
            name: "what is right is taken".into(),
            replies: (0..right).map(|_| "ok".into()).collect(),
            means: json!({"text": "ok"}),
        },
        Case { name: "what is wrong is refused".into(), replies: Vec::new(), means: json!({}) },
    ]
}
