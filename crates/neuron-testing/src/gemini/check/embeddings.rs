//! Gemini's rules for a request for embeddings.

use serde_json::Value;

use super::ApiError;
use super::names::in_camel_case;
use super::wording::{Object, Wording, invalid};
use crate::gemini::route::{Method, Platform, Route};

/// Checks the body of a `batchEmbedContents`, `embedContent` or `predict` request as Gemini does. `route` is the path of
/// the request.
///
/// On Vertex AI, `predict` has the models before Gemini, and the other methods have Gemini and the open models, whose
/// names contain `maas`. Only `gemini-embedding-001` has all methods.
///
/// # Errors
///
/// Returns a 400 for the first broken rule.
pub fn check_embeddings_request(body: &Value, route: &Route) -> Result<(), ApiError> {
    check_method(route)?;
    if route.method == Method::Predict {
        // The instances are free JSON, so their fields have no second name.
        return check_prediction(&Object::new(Wording, "", body)?, route);
    }
    let body = in_camel_case(body);
    let body = Object::new(Wording, "", &body)?;
    match (route.method, route.platform) {
        (Method::EmbedContent, _) => {
            body.fits("vertex_embed_request")?;
            return check_content(&body);
        }
        (_, Platform::GoogleAi) => body.fits("embeddings")?,
        (_, Platform::Vertex) => body.fits("vertex_embeddings")?,
    }
    let requests = body.objects("requests");
    if requests.is_empty() {
        return Err(refused("requests", "at least one request is required"));
    }
    for request in requests {
        let model = request.str("model").unwrap_or_default();
        let is_google = route.platform == Platform::GoogleAi;
        if is_google && model.strip_prefix("models/") != Some(&route.model) {
            let what = "model must be the model of the batch";
            return Err(refused(&request.at("model"), what));
        }
        check_content(&request)?;
    }
    Ok(())
}

/// Checks that the model has the method.
fn check_method(Route { platform, model, method, .. }: &Route) -> Result<(), ApiError> {
    let is_newer = model.contains("gemini") || model.contains("maas");
    let has_method = match method {
        Method::Predict => !is_newer || model == FIRST,
        Method::BatchEmbedContents => !model.contains("maas") && is_newer,
        _ => is_newer,
    };
    match has_method || *platform == Platform::GoogleAi {
        true => Ok(()),
        false => Err(ApiError::new(400, "FAILED_PRECONDITION", "Precondition check failed.")),
    }
}

/// The first embedding model of Gemini. Its `predict` accepts one text.
const FIRST: &str = "gemini-embedding-001";

fn check_prediction(body: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    body.fits("prediction")?;
    match body.objects("instances").len() {
        0 => Err(invalid("Empty instances.")),
        2.. if route.model == FIRST => Err(invalid("at most 1 instance is allowed")),
        _ => Ok(()),
    }
}

fn check_content(request: &Object<'_>) -> Result<(), ApiError> {
    let parts = request.object("content").map(|content| content.objects("parts"));
    let is_text = |part: &Object<'_>| part.has("text");
    match parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_text)) {
        true => Ok(()),
        false => Err(refused(&request.at("content"), "content must have parts with text")),
    }
}

fn refused(path: &str, what: &str) -> ApiError {
    invalid(format!("* BatchEmbedContentsRequest.{path}: {what}"))
}
