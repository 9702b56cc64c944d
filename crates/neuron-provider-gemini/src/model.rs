//! Names of models: the path of a model in a URL, and the features that depend on its generation.

use neuron_model::ProviderError;

/// The server that receives the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Platform {
    GoogleAi,
    Vertex { project: String, location: String },
}

impl Platform {
    /// Returns the name of the platform in OpenTelemetry's conventions, which is also the name of its JSON format in a
    /// [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw). The names differ, because each platform rejects the
    /// thought signatures of the other.
    ///
    /// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/>
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::GoogleAi => GOOGLE_AI,
            Self::Vertex { .. } => VERTEX,
        }
    }

    /// Returns the path of a method of a model, for example `models/gemini-3.8-flash:generateContent`.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if the name of the model, the project or the location has characters that the
    /// path must not contain.
    pub(crate) fn path(&self, model: &str, method: &str) -> Result<String, ProviderError> {
        let resource = match self {
            Self::GoogleAi => resource(model),
            Self::Vertex { project, location } => {
                check_name("project", project)?;
                check_name("location", location)?;
                let parent = format!("projects/{project}/locations/{location}");
                match model.split_once('/') {
                    Some(("projects", _)) => model.to_owned(),
                    Some(("publishers", _)) => format!("{parent}/{model}"),
                    Some((publisher, model)) if publisher != "models" => {
                        format!("{parent}/publishers/{publisher}/models/{model}")
                    }
                    _ => format!("{parent}/publishers/google/models/{}", base_name(model)),
                }
            }
        };
        model.split('/').try_for_each(|segment| check_name("model", segment))?;
        Ok(format!("{resource}:{method}"))
    }
}

/// Checks a segment of a path or of a host name. `what` names the setting with the segment. Without this check, a name
/// could lead to another path or to another server.
fn check_name(what: &str, name: &str) -> Result<(), ProviderError> {
    // The project may be a number, an id, or an id with a domain, as in `example.com:id`.
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c) || c == ':' && what == "project";
    if name.chars().all(is_allowed) && !name.trim_matches('.').is_empty() {
        return Ok(());
    }
    Err(ProviderError::InvalidRequest(format!(
        "`{name}` cannot be the name of a {what}: it must consist of letters, digits, `-`, `_` and `.`"
    )))
}

/// Name of Google AI.
pub(crate) const GOOGLE_AI: &str = "gcp.gemini";
/// Name of Vertex AI.
pub(crate) const VERTEX: &str = "gcp.vertex_ai";

/// Returns the resource name of a model on Google AI, for example `models/gemini-3.8-flash`.
pub(crate) fn resource(model: &str) -> String {
    match model.contains('/') {
        true => model.to_owned(),
        false => format!("models/{model}"),
    }
}

/// Returns the part of a model's name after the last slash.
pub(crate) fn base_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or_default()
}

/// The generation of a model, which decides about thinking, call ids, thought signatures and media in tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Gemini 2.5 and older models.
    BeforeThree,
    /// Gemini 3 and newer models, and aliases such as `gemini-flash-latest`.
    Three,
    /// A model of another family, or a tuned model whose name does not contain its generation.
    Unknown,
}

impl Generation {
    pub(crate) fn of(model: &str) -> Self {
        match number_of_generation(model) {
            _ if !base_name(model).starts_with(GEMINI) => Self::Unknown,
            Some(0..=2) => Self::BeforeThree,
            _ => Self::Three,
        }
    }
}

/// Beginning of the names of Google's models.
const GEMINI: &str = "gemini-";

/// Returns the number of a model's generation, such as 4 for `gemini-4-argon`. Returns `None` if the name does not
/// contain it.
pub(crate) fn number_of_generation(model: &str) -> Option<u32> {
    let version = base_name(model).strip_prefix(GEMINI)?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(platform: &Platform, model: &str, expected: &str) {
        assert_eq!(platform.path(model, "m").unwrap(), format!("{expected}:m"));
    }

    #[test]
    fn each_form_of_a_model_name_has_a_path() {
        let google = Platform::GoogleAi;
        check(&google, "gemini-3.8-flash", "models/gemini-3.8-flash");
        check(&google, "models/gemini-3.8-flash", "models/gemini-3.8-flash");
        check(&google, "tunedModels/mine", "tunedModels/mine");
        let vertex = Platform::Vertex { project: "x.y:p".into(), location: "eu".into() };
        let at = |rest: &str| format!("projects/x.y:p/locations/eu/{rest}");
        check(&vertex, "gemini-4-argon", &at("publishers/google/models/gemini-4-argon"));
        check(&vertex, "models/gemini-4-argon", &at("publishers/google/models/gemini-4-argon"));
        check(&vertex, "publishers/x/models/y", &at("publishers/x/models/y"));
        check(&vertex, "x/y@001", &at("publishers/x/models/y@001"));
        let endpoint = "projects/q/locations/us/endpoints/123";
        check(&vertex, endpoint, endpoint);
    }

    #[test]
    fn model_name_cannot_leave_its_place_in_the_path() {
        for model in
            ["", "../x", "a/../b", "a?key=1", "a#b", "a b", "a:b", "a%2e", "modèle", "a//b"]
        {
            let error = Platform::GoogleAi.path(model, "m").unwrap_err();
            assert_eq!(error.kind(), "InvalidRequest", "{model}");
        }
        for (project, location) in
            [("", "eu"), ("p", ""), ("p/q", "eu"), ("p", "eu.x/y"), ("p", "e:u")]
        {
            let vertex = Platform::Vertex { project: project.into(), location: location.into() };
            assert!(vertex.path("m", "m").is_err());
        }
    }

    #[test]
    fn generation_is_read_from_the_name() {
        for (model, expected) in [
            ("gemini-2.5-flash-lite", Generation::BeforeThree),
            ("models/gemini-1.5-pro", Generation::BeforeThree),
            ("gemini-3-flash-preview", Generation::Three),
            ("publishers/google/models/gemini-4-argon", Generation::Three),
            ("gemini-10-x", Generation::Three),
            ("gemini-flash-latest", Generation::Three),
            ("gemma-3-27b-it", Generation::Unknown),
            ("tunedModels/mine", Generation::Unknown),
            ("", Generation::Unknown),
        ] {
            assert_eq!(Generation::of(model), expected, "{model}");
        }
        for (model, number) in [
            ("models/gemini-2.5-pro", Some(2)),
            ("gemini-4-argon", Some(4)),
            ("gemini-flash-latest", None),
            ("gemma-3-27b-it", None),
        ] {
            assert_eq!(number_of_generation(model), number, "{model}");
        }
    }
}
