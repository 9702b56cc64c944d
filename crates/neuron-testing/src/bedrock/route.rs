//! The path of a request to Bedrock. It names the model and the method.

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// `converse`: the response is one JSON object.
    Converse,
    /// `converse-stream`: the response is a stream of binary frames.
    ConverseStream,
}

/// The path of a request to Bedrock. The path has values that the body of other vendors' requests has.
///
/// # Example
///
/// ```
/// use neuron_testing::bedrock::{Method, Route};
///
/// let path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
/// let route = Route::parse(path).unwrap();
/// assert_eq!(route.model, "us.anthropic.claude-sonnet-4-5-20250929-v1:0");
/// assert_eq!(route.method, Method::Converse);
/// assert_eq!(Route::parse("/model/a/b/converse"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// The id of the model, an inference profile or a prompt, or an ARN. Without percent encoding.
    pub model: String,
    /// The method.
    pub method: Method,
}

impl Route {
    /// Parses the path of a URL, without its query. Returns `None` if the server has no such path.
    ///
    /// The id of the model is one segment of the path. A slash in an ARN must be percent-encoded.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let (model, method) = path.strip_prefix("/model/")?.split_once('/')?;
        let method = match method {
            "converse" => Method::Converse,
            "converse-stream" => Method::ConverseStream,
            _ => return None,
        };
        let model = percent_decoded(model)?;
        (!model.is_empty()).then_some(Self { model, method })
    }

    /// Returns the family of the model.
    pub(super) fn family(&self) -> Family {
        let known = FAMILIES.iter().find(|(vendor, _)| self.model.contains(vendor));
        known.map_or(Family::Other, |(_, family)| *family)
    }

    /// Returns `true` if the model is a Claude model of this generation or a later one. A Claude model without a
    /// generation in its name counts as new.
    pub(super) fn is_claude_since(&self, generation: (u32, u32)) -> bool {
        let Some((_, name)) = self.model.split_once("anthropic.claude-") else { return false };
        let words = name.split(['-', ':', '/']).map(|word| word.trim_start_matches('v'));
        // The date in a name has more digits than a generation.
        let mut numbers = words.map(|word| word.parse().ok().filter(|number| *number < 100));
        let major = numbers.find_map(|number| number);
        let minor = numbers.next().flatten().unwrap_or_default();
        major.is_none_or(|major| (major, minor) >= generation)
    }
}

/// Models with the same rules for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Claude,
    DeepSeek,
    Glm,
    /// The closed models of OpenAI.
    Gpt,
    Grok,
    Kimi,
    Llama,
    Mistral,
    Nova,
    Palmyra,
    Qwen,
    /// The open models of OpenAI and the models of AI21, Cohere and Google, which have no features that depend on the
    /// family.
    Plain,
    /// A model of an unknown vendor. It accepts the requests that any other family accepts.
    Other,
}

/// The family of each vendor. The names of vendors are part of the ids of models, of inference profiles and of most
/// ARNs.
const FAMILIES: [(&str, Family); 15] = [
    ("anthropic.", Family::Claude),
    ("deepseek.", Family::DeepSeek),
    ("zai.", Family::Glm),
    ("xai.", Family::Grok),
    ("moonshot", Family::Kimi),
    ("meta.", Family::Llama),
    ("mistral.", Family::Mistral),
    ("amazon.nova", Family::Nova),
    ("writer.", Family::Palmyra),
    ("qwen.", Family::Qwen),
    ("openai.gpt-oss", Family::Plain),
    ("openai.", Family::Gpt),
    ("ai21.", Family::Plain),
    ("cohere.", Family::Plain),
    ("google.", Family::Plain),
];

impl Family {
    /// Returns `true` if a conversation may begin with a message of the assistant.
    pub(super) fn may_begin(self) -> bool {
        matches!(self, Self::Claude | Self::Qwen | Self::Glm | Self::Kimi)
    }

    /// Returns `true` if a turn with tool results must not have other blocks.
    pub(super) fn has_result_turns(self) -> bool {
        matches!(self, Self::Llama | Self::Mistral | Self::Palmyra)
    }
}

/// Replaces percent-encoded bytes. Returns `None` if a percent sign is not followed by two hexadecimal digits, or if the
/// bytes are not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        // `from_str_radix` accepts a sign.
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<(&str, Method)>) {
        let route = Route::parse(path);
        assert_eq!(route.as_ref().map(|it| (it.model.as_str(), it.method)), expected, "{path}");
    }

    #[test]
    fn paths_are_parsed_and_models_are_decoded() {
        use Method::{Converse, ConverseStream};
        check("/model/m/converse", Some(("m", Converse)));
        check("/model/m/converse-stream", Some(("m", ConverseStream)));
        check("/model/a%3A0/converse", Some(("a:0", Converse)));
        check("/model/a:0/converse", Some(("a:0", Converse)));
        check(
            "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aprompt%2Fabc/converse",
            Some(("arn:aws:bedrock:eu-west-1:123456789012:prompt/abc", Converse)),
        );
        check("/model/%c3%a9/converse", Some(("é", Converse)));
    }

    #[test]
    fn other_paths_are_unknown() {
        for path in [
            "",
            "/",
            "/model/m",
            "/model//converse",
            "/model/m/invoke",
            "/model/m/converse/",
            "/model/m/n/converse",
            "/model/m%/converse",
            "/model/m%3/converse",
            "/model/m%+1/converse",
            "/model/m%ff/converse",
            "/models/m/converse",
        ] {
            check(path, None);
        }
    }

    #[test]
    fn family_follows_from_the_vendor_in_the_id() {
        let family = |model: &str| Route { model: model.into(), method: Method::Converse }.family();
        assert_eq!(family("anthropic.claude-sonnet-4-5-20250929-v1:0"), Family::Claude);
        assert_eq!(family("us.anthropic.claude-opus-4-6-v1"), Family::Claude);
        assert_eq!(family("eu.amazon.nova-2-lite-v1:0"), Family::Nova);
        let arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.meta.llama4-v1:0";
        assert_eq!(family(arn), Family::Llama);
        assert_eq!(family("openai.gpt-oss-120b-1:0"), Family::Plain);
        assert_eq!(family("global.openai.gpt-5.6-sol"), Family::Gpt);
        assert_eq!(family("the-model"), Family::Other);
    }

    #[test]
    fn generation_of_claude_is_read_from_the_id() {
        let since = |model: &str, generation: (u32, u32)| {
            Route { model: model.into(), method: Method::Converse }.is_claude_since(generation)
        };
        for (model, generation, next) in [
            ("anthropic.claude-v2:1", (2, 1), (2, 2)),
            ("anthropic.claude-3-haiku-20240307-v1:0", (3, 0), (3, 1)),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", (4, 0), (4, 1)),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", (4, 5), (4, 6)),
            ("anthropic.claude-opus-4-6-v1", (4, 6), (4, 7)),
            ("global.anthropic.claude-sonnet-5", (5, 0), (5, 1)),
        ] {
            assert!(since(model, generation) && !since(model, next), "{model}");
        }
        assert!(since("anthropic.claude-next", (9, 0)));
        assert!(!since("the-model", (0, 0)));
    }
}
