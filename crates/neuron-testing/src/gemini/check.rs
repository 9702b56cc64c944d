//! Gemini's rules for the body of a request. `rules.json` has them, as far as they need no code.
//!
//! An error text is Gemini's own if it is known from Google's documentation or from an issue of a client.

mod names;

use std::sync::LazyLock;

use serde_json::{Value, json};

use self::names::in_camel_case;
use super::ApiError;
use super::route::{Method, Platform, Route};
use super::signature::is_valid;
use crate::checker::{
    Checked, Checker, Conversation, Kind, Null, Refusal, Table, Turn, Variation, in_brackets, join,
    parts_of, text, values_at,
};

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("rules.json"), Null::Missing, in_snake_case));

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
    let checker = Checker::new(&TABLE);
    let body = &in_camel_case(body);
    checker.check("", body, &"request".into())?;
    checker.check_rows("refused", body, &facts(route, route.generation()))?;
    Ok(check_contents(checker, body, route)?)
}

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
    let checker = Checker::new(&TABLE);
    let (body, shape) = match (route.method, route.platform) {
        // The instances are free JSON, so their fields have no second name.
        (Method::Predict, _) => (body.clone(), "prediction"),
        (Method::EmbedContent, _) => (in_camel_case(body), "vertex_embed_request"),
        (_, Platform::GoogleAi) => (in_camel_case(body), "embeddings"),
        (_, Platform::Vertex) => (in_camel_case(body), "vertex_embeddings"),
    };
    checker.check("", &body, &shape.into())?;
    Ok(checker.check_rows("refused_embeddings", &body, &facts(route, route.generation()))?)
}

/// Returns what decides beside the body.
fn facts(Route { platform, method, model, .. }: &Route, generation: u32) -> Value {
    let (platform, method) = (format!("{platform:?}"), format!("{method:?}"));
    let resource = format!("models/{model}");
    json!({"platform": platform, "method": method, "model": model, "resource": resource, "generation": generation})
}

fn check_contents(checker: Checker<'_>, body: &Value, route: &Route) -> Checked {
    let variations = vec![Variation::Ordered, Variation::RepeatsIdsInTurn, Variation::ResultsOnly];
    let mut conversation = Conversation::new(checker, variations);
    let names = TABLE.entry("shapes", "part")["exactly one"].as_str().unwrap_or_default();
    for (path, content) in values_at(body, "contents.*") {
        let parts = parts_of(&content["parts"], &join(&path, "parts"), |part| {
            let name = names.split(' ').find(|name| !part[*name].is_null()).unwrap_or_default();
            let kind = match name {
                "functionCall" => Kind::Call,
                "functionResponse" => Kind::Result,
                _ => Kind::Content,
            };
            // Models before the third generation have no call ids.
            let id = if route.has_signatures() { text(&part[name], "id") } else { "" };
            (name, kind, format!("{id} {}", text(&part[name], "name")))
        });
        let follows_model = conversation.turns.last().is_some_and(Turn::is_model);
        if follows_model && parts.iter().any(|part| part.kind == Kind::Call) {
            return checker.refuse("call turn", &path, &[]);
        }
        conversation.add(text(content, "role"), &path, parts)?;
    }
    check_signatures(checker, body, conversation.current(), route)?;
    conversation.check()
}

/// Checks that the first function call of each content of the current turn has a signature, and that every signature
/// of the current turn belongs to its part.
///
/// Source: <https://ai.google.dev/gemini-api/docs/thought-signatures>.
fn check_signatures(
    checker: Checker<'_>,
    body: &Value,
    current: &[Turn<'_>],
    route: &Route,
) -> Checked {
    if !route.has_signatures() {
        return Ok(());
    }
    for turn in current.iter().filter(|turn| turn.is_model()) {
        let parts = turn.parts.iter().flat_map(|part| values_at(body, &part.path));
        let parts: Vec<(String, &Value)> = parts.collect();
        let is_wrong = |part: &Value| {
            let signature = text(part, "thoughtSignature");
            !signature.is_empty() && !is_valid(signature, part, route)
        };
        if let Some((path, _)) = parts.iter().find(|(_, part)| is_wrong(part)) {
            return checker.refuse("signature", path, &[]);
        }
        let first = parts.iter().find(|(_, part)| !part["functionCall"].is_null());
        let first = first.filter(|_| route.needs_signatures());
        if let Some((path, part)) = first
            && text(part, "thoughtSignature").is_empty()
        {
            let index = turn.path.rsplit('.').next().and_then(|index| index.parse().ok());
            let position = (index.unwrap_or(0_usize) + 1).to_string();
            let name = text(&part["functionCall"], "name");
            let values = [("name", name), ("position", &*position)];
            return checker.refuse("no signature", path, &values);
        }
    }
    Ok(())
}

/// Writes a path in the names of protocol buffers, which Gemini parses a request into.
fn in_snake_case(path: &str) -> String {
    let mut snake = String::with_capacity(path.len() + 8);
    for c in in_brackets(path).chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        // Gemini names no place for a field of the request itself.
        let text = refusal.text.replace(" at '':", ":");
        match refusal.code.as_str() {
            "" => Self::invalid_argument(text),
            status => Self::new(400, status, text),
        }
    }
}

#[cfg(test)]
mod tests;
