//! The path of a request to Gemini. It names the platform, the model and the method.

/// The platform that serves Gemini. The two platforms differ in paths, keys and a few fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Platform {
    /// The Gemini API of Google AI, with the path `/v1beta/models/…` and an API key.
    GoogleAi,
    /// Vertex AI, with the path `/v1beta1/projects/…` and an OAuth token, or with the path
    /// `/v1beta1/publishers/google/models/…` and an API key.
    Vertex,
}

impl Platform {
    /// Returns the name of the platform in a [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw). The name is the
    /// platform's name in OpenTelemetry's conventions.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::GoogleAi => "gcp.gemini",
            Self::Vertex => "gcp.vertex_ai",
        }
    }
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// `generateContent`: the response is one JSON object.
    GenerateContent,
    /// `streamGenerateContent`: the response is a stream.
    StreamGenerateContent,
    /// `batchEmbedContents`: the response has embeddings.
    BatchEmbedContents,
    /// `embedContent` of Vertex AI: the response has one embedding.
    EmbedContent,
    /// `predict` of Vertex AI: the response has embeddings of a model before Gemini.
    Predict,
}

impl Method {
    /// Returns `true` if the response has embeddings.
    pub(super) fn is_embedding(self) -> bool {
        match self {
            Self::GenerateContent | Self::StreamGenerateContent => false,
            Self::BatchEmbedContents | Self::EmbedContent | Self::Predict => true,
        }
    }
}

/// The path of a request to Gemini. The path has values that the body of other vendors' requests has.
///
/// # Example
///
/// ```
/// use neuron_testing::gemini::{Method, Platform, Route};
///
/// let route = Route::parse("/v1beta/models/gemini-3.8-flash:generateContent").unwrap();
/// assert_eq!(route.platform, Platform::GoogleAi);
/// assert_eq!(route.method, Method::GenerateContent);
/// assert_eq!(route.model, "gemini-3.8-flash");
///
/// let path = "/v1beta1/projects/p/locations/global/publishers/google/models/m:streamGenerateContent";
/// assert_eq!(Route::parse(path).unwrap().platform, Platform::Vertex);
/// assert_eq!(Route::parse("/v2/models/gemini-3.8-flash:generateContent"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// The platform, which follows from the form of the path.
    pub platform: Platform,
    /// The version of the API, such as `v1beta`.
    pub version: String,
    /// The project in the path. `None` for Google AI, and for a path of Vertex AI without a project.
    pub project: Option<String>,
    /// The name of the model, without `models/`.
    pub model: String,
    /// The method.
    pub method: Method,
}

impl Route {
    /// Parses the path of a URL, without its query. Returns `None` if Gemini has no such path.
    ///
    /// Google AI has the versions `v1`, `v1beta` and `v1alpha`. Vertex AI has `v1` and `v1beta1`. The methods
    /// `embedContent` and `predict` are parsed for Vertex AI only.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let (resource, method) = path.strip_prefix('/')?.rsplit_once(':')?;
        let method = match method {
            "generateContent" => Method::GenerateContent,
            "streamGenerateContent" => Method::StreamGenerateContent,
            "batchEmbedContents" => Method::BatchEmbedContents,
            "embedContent" => Method::EmbedContent,
            "predict" => Method::Predict,
            _ => return None,
        };
        let steps: Vec<&str> = resource.split('/').collect();
        let (platform, version, project, model) = match *steps.as_slice() {
            [version @ ("v1" | "v1beta" | "v1alpha"), "models", model] => {
                (Platform::GoogleAi, version, None, model)
            }
            [version @ ("v1" | "v1beta1"), "publishers", "google", "models", model] => {
                (Platform::Vertex, version, None, model)
            }
            [
                version @ ("v1" | "v1beta1"),
                "projects",
                project,
                "locations",
                location,
                "publishers",
                "google",
                "models",
                model,
            ] if !project.is_empty() && !location.is_empty() => {
                (Platform::Vertex, version, Some(project.to_owned()), model)
            }
            _ => return None,
        };
        let is_of_vertex = matches!(method, Method::EmbedContent | Method::Predict);
        if is_of_vertex && platform != Platform::Vertex {
            return None;
        }
        (!model.is_empty()).then(|| Self {
            platform,
            version: version.to_owned(),
            project,
            model: model.to_owned(),
            method,
        })
    }

    /// Returns the generation of the model: 3 for `gemini-3.8-flash`. A model without a number in its name has the
    /// largest number, and thus the rules of the newest models.
    pub(super) fn generation(&self) -> u32 {
        let number =
            self.model.strip_prefix("gemini-").and_then(|rest| rest.split(['.', '-']).next());
        number.and_then(|number| number.parse().ok()).unwrap_or(u32::MAX)
    }

    /// Returns `true` if the model has call ids and thought signatures, which Gemini has since its third generation.
    pub(super) fn has_signatures(&self) -> bool {
        self.generation() >= 3
    }

    /// Returns `true` if the model rejects a function call without a signature. A model with a name of another family,
    /// such as an open or a tuned model, does not.
    pub(super) fn needs_signatures(&self) -> bool {
        self.has_signatures() && self.model.starts_with("gemini-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<(Platform, Option<&str>, &str, Method)>) {
        let route = Route::parse(path);
        let found = route
            .as_ref()
            .map(|it| (it.platform, it.project.as_deref(), it.model.as_str(), it.method));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn paths_of_both_platforms_are_parsed() {
        use Method::{
            BatchEmbedContents, EmbedContent, GenerateContent, Predict, StreamGenerateContent,
        };
        use Platform::{GoogleAi, Vertex};
        check("/v1/models/m:generateContent", Some((GoogleAi, None, "m", GenerateContent)));
        check(
            "/v1beta/models/m:streamGenerateContent",
            Some((GoogleAi, None, "m", StreamGenerateContent)),
        );
        check(
            "/v1beta/models/m:batchEmbedContents",
            Some((GoogleAi, None, "m", BatchEmbedContents)),
        );
        check(
            "/v1beta1/publishers/google/models/m:generateContent",
            Some((Vertex, None, "m", GenerateContent)),
        );
        check(
            "/v1beta1/projects/p/locations/eu/publishers/google/models/m:generateContent",
            Some((Vertex, Some("p"), "m", GenerateContent)),
        );
        check(
            "/v1beta1/publishers/google/models/m:embedContent",
            Some((Vertex, None, "m", EmbedContent)),
        );
        check(
            "/v1/projects/p/locations/eu/publishers/google/models/m:predict",
            Some((Vertex, Some("p"), "m", Predict)),
        );
    }

    #[test]
    fn other_paths_are_unknown() {
        for path in [
            "",
            "/",
            "/v1beta/models/m",
            "/v1beta/models/m:generate",
            "/v1beta/models/:generateContent",
            "/v1beta/models/m:predict",
            "/v1beta/models/m:embedContent",
            "/v1beta/m:generateContent",
            "/v1beta1/models/m:generateContent",
            "/v2/models/m:generateContent",
            "/v1beta/models/models/m:generateContent",
            "/v1beta/projects/p/locations/eu/publishers/google/models/m:generateContent",
            "/v1beta1/projects//locations/eu/publishers/google/models/m:generateContent",
            "/v1beta1/projects/p/locations/eu/publishers/other/models/m:generateContent",
        ] {
            check(path, None);
        }
    }

    #[test]
    fn generation_is_the_first_number_of_the_name() {
        let generation = |model: &str| {
            Route::parse(&format!("/v1/models/{model}:generateContent")).unwrap().generation()
        };
        assert_eq!(generation("gemini-2.5-flash"), 2);
        assert_eq!(generation("gemini-3-flash-preview"), 3);
        assert_eq!(generation("gemini-4-argon"), 4);
        assert_eq!(generation("gemini-flash-latest"), u32::MAX);
        assert_eq!(generation("the-model"), u32::MAX);
    }
}
