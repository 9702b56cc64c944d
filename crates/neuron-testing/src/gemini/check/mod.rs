//! Gemini's rules for the body of a request. `shapes.json` defines the structure of the body.
//!
//! An error text is Gemini's own if it is known from Google's documentation or from an issue of a client.

mod calls;
mod config;
mod contents;
mod embeddings;
mod names;
mod schema;
mod signatures;
mod tools;
mod wording;

use serde_json::Value;

use self::wording::{Object, Wording, invalid};
use super::ApiError;
use super::route::{Platform, Route};
use crate::shape::{Problem, Wording as _, words};

pub use embeddings::check_embeddings_request;

/// Checks the body of a `generateContent` or `streamGenerateContent` request as Gemini does. `route` is the path of the
/// request.
///
/// Some rules depend on the generation of the model, such as call ids and thought signatures, which Gemini has since
/// its third generation. A model without a number in its name has the rules of the newest models. The exception is a
/// model whose name does not begin with `gemini-`, which accepts a function call without a signature.
///
/// # Errors
///
/// Returns a 400 for the first broken rule.
///
/// # Example
///
/// ```
/// use neuron_testing::gemini::{Route, check_request};
/// use serde_json::json;
///
/// let route = Route::parse("/v1beta/models/gemini-3.8-flash:generateContent").unwrap();
/// let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
/// assert!(check_request(&body, &route).is_ok());
///
/// body["generationConfig"] = json!({"maxTokens": 256});
/// let error = check_request(&body, &route).unwrap_err();
/// assert_eq!(
///     error.message,
///     "Invalid JSON payload received. Unknown name \"maxTokens\" at 'generation_config': Cannot \
///      find field."
/// );
/// ```
pub fn check_request(body: &Value, route: &Route) -> Result<(), ApiError> {
    let body = names::in_camel_case(body);
    let body = Object::new(Wording, "", &body)?;
    body.fits("request")?;
    check_platform(&body, "request", route)?;
    let contents = contents::check_contents(&body, route)?;
    config::check_config(&body, route)?;
    tools::check_tools(&body, route)?;
    check_cache(&body)?;
    calls::check_calls(&contents, route)?;
    signatures::check_signatures(&contents, route)?;
    contents::check_end(&contents)
}

/// Rejects fields that only the other platform has. `shape` is the name of the object's shape.
fn check_platform(object: &Object<'_>, shape: &str, route: &Route) -> Result<(), ApiError> {
    let others = match route.platform {
        Platform::GoogleAi => "vertex_only",
        Platform::Vertex => "google_ai_only",
    };
    match words(Wording.shape(others), shape).find(|key| object.has(key)) {
        Some(key) => Err(object.error(key, Problem::Unknown)),
        None => Ok(()),
    }
}

/// Checks that a request with cached content does not set the fields that the cache has.
fn check_cache(body: &Object<'_>) -> Result<(), ApiError> {
    let is_set = ["systemInstruction", "tools", "toolConfig"].into_iter().any(|key| body.has(key));
    match body.has("cachedContent") && is_set {
        true => Err(invalid(
            "CachedContent can not be used with GenerateContent request setting \
             system_instruction, tools or tool_config.\n\nProposed fix: move those values to \
             CachedContent from GenerateContent request.",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
