//! Gemini's rules for a request for embeddings.

use serde_json::Value;

use super::ApiError;
use super::names::in_camel_case;
use super::wording::{Object, Wording, invalid};
use crate::gemini::route::Route;

/// Checks the body of a `batchEmbedContents` request as Gemini does. `route` is the path of the request.
///
/// # Errors
///
/// Returns a 400 for the first broken rule.
pub fn check_embeddings_request(body: &Value, route: &Route) -> Result<(), ApiError> {
    let body = in_camel_case(body);
    let body = Object::new(Wording, "", &body)?;
    body.fits("embeddings")?;
    let requests = body.objects("requests");
    if requests.is_empty() {
        return Err(refused("requests", "at least one request is required"));
    }
    for request in requests {
        let model = request.str("model").unwrap_or_default();
        if model.strip_prefix("models/") != Some(&route.model) {
            let what = "model must be the model of the batch";
            return Err(refused(&request.at("model"), what));
        }
        let parts = request.object("content").map(|content| content.objects("parts"));
        let is_text = |part: &Object<'_>| part.has("text");
        if !parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_text)) {
            return Err(refused(&request.at("content"), "content must have parts with text"));
        }
    }
    Ok(())
}

fn refused(path: &str, what: &str) -> ApiError {
    invalid(format!("* BatchEmbedContentsRequest.{path}: {what}"))
}
