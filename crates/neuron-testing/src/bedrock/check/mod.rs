//! Bedrock's rules for the body of a request. `shapes.json` defines the structure of the body.
//!
//! The structure is AWS's service model for the Converse API. An error text is Bedrock's own if it is known from an issue
//! of a client.

mod cache;
mod calls;
mod config;
mod media;
mod messages;
mod thinking;
mod tools;
mod wording;

use serde_json::Value;

use self::wording::{Object, Wording};
use super::ApiError;
use super::route::{Method, Route};
use crate::shape::Problem;

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
    let body = Object::new(Wording, "", body)?;
    body.fits("request")?;
    if let Some(guardrail) = body.object("guardrailConfig")
        && guardrail.has("streamProcessingMode")
        && route.method == Method::Converse
    {
        return Err(guardrail.error("streamProcessingMode", Problem::Unknown));
    }
    if route.is_prompt() {
        config::check_prompt(&body)?;
    }
    let family = route.family();
    config::check_config(&body, family)?;
    let turns = messages::check_messages(&body, route)?;
    media::check_media(&body, family)?;
    tools::check_tools(&body, family)?;
    calls::check_calls(&turns, &body, route)?;
    cache::check_cache_points(&body, family)?;
    thinking::check_fields(&body, &turns, family)
}

#[cfg(test)]
mod tests;
