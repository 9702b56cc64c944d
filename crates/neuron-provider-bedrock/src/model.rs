//! Ids of models: the path of a model in a URL, and the family on which features depend.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/models-supported.html>

use std::sync::LazyLock;

use neuron_model::ProviderError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters of a model's id that are escaped in the path of a URL. The id of a model is a single segment, so
/// colons and slashes are escaped too.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Returns the path of a method of a model, for example `model/amazon.nova-lite-v1%3A0/converse`.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the id would change the path, because it is empty or consists of dots.
pub(crate) fn path(model: &str, method: &str) -> Result<String, ProviderError> {
    if model.trim_matches('.').is_empty() {
        return Err(ProviderError::InvalidRequest(format!(
            "`{model}` cannot be the id of a model: use a model id, an inference profile or an ARN"
        )));
    }
    Ok(format!("model/{}/{method}", utf8_percent_encode(model, ESCAPED)))
}

/// The models of a vendor, which have the same features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Claude,
    DeepSeek,
    Glm,
    Gpt,
    GptOss,
    Grok,
    Kimi,
    Llama,
    /// The models of Llama 4, which accept images in tool results.
    Llama4,
    Mistral,
    /// Amazon's Nova models of the first generation.
    Nova,
    /// Amazon's Nova 2 models, which can think.
    Nova2,
    Palmyra,
    Qwen,
    /// A model of another vendor, without thinking and without a choice between tools.
    Other,
    /// A model whose id does not contain its vendor, such as an application inference profile.
    Unknown,
}

/// Beginnings of names of models, with their families. The first matching row decides.
const FAMILIES: [(&str, Family); 25] = [
    ("anthropic.", Family::Claude),
    ("amazon.nova-2", Family::Nova2),
    ("amazon.nova", Family::Nova),
    ("deepseek.", Family::DeepSeek),
    ("meta.llama4", Family::Llama4),
    ("meta.", Family::Llama),
    ("mistral.", Family::Mistral),
    ("moonshot.", Family::Kimi),
    ("moonshotai.", Family::Kimi),
    ("openai.gpt-oss", Family::GptOss),
    ("openai.", Family::Gpt),
    ("qwen.", Family::Qwen),
    ("writer.", Family::Palmyra),
    ("xai.", Family::Grok),
    ("zai.", Family::Glm),
    ("ai21.", Family::Other),
    ("amazon.titan", Family::Other),
    ("cohere.", Family::Other),
    ("google.", Family::Other),
    ("luma.", Family::Other),
    ("minimax.", Family::Other),
    ("nvidia.", Family::Other),
    ("stability.", Family::Other),
    ("twelvelabs.", Family::Other),
    ("upstage.", Family::Other),
];

/// Beginnings of the names of Claude models that think by default. While they think with a budget, they reject a forced
/// call, and while they think adaptively, they answer a forced call without thinking. Fable and Mythos always think, and
/// reject forced calls since 5.1
/// (<https://platform.claude.com/docs/en/models/fable-5-1/whats-new-fable-5-1#forced-tool-use-is-not-supported>).
const THINKING: [&str; 4] = [
    "anthropic.claude-fable",
    "anthropic.claude-mythos",
    "anthropic.claude-opus-5",
    "anthropic.claude-sonnet-5",
];

/// A model, with the features that requests depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Model<'a> {
    /// Id of the model in requests.
    pub(crate) id: &'a str,
    pub(crate) family: Family,
    /// Generation of a Claude model, such as `(4, 5)`. `None` for another model, and if the id does not contain it.
    generation: Option<(u32, u32)>,
    thinks_by_default: bool,
}

impl<'a> Model<'a> {
    /// Reads the family from an id, an inference profile or an ARN. `base` is the id of the model behind an id that
    /// does not contain it.
    pub(crate) fn new(id: &'a str, base: &str) -> Self {
        let find = |id: &str| {
            // An ARN may have a path with the name of the model, such as `custom-model/amazon.nova-lite-v1:0/abc`.
            id.split('/').find_map(|segment| {
                let name = without_region(segment);
                let (_, family) = FAMILIES.iter().find(|(start, _)| name.starts_with(start))?;
                let generation = (*family == Family::Claude).then(|| generation(name)).flatten();
                let thinks = THINKING.iter().any(|start| name.starts_with(start));
                Some((*family, generation, thinks))
            })
        };
        let (family, generation, thinks_by_default) =
            find(id).or_else(|| find(base)).unwrap_or((Family::Unknown, None, false));
        Self { id, family, generation, thinks_by_default }
    }

    /// Returns the name under which the origin of a raw block is stored. Models with the same name accept each other's
    /// blocks.
    pub(crate) fn origin(self) -> &'a str {
        match self.family {
            Family::Claude => "claude",
            Family::DeepSeek => "deepseek",
            Family::Nova => "nova",
            Family::Nova2 => "nova-2",
            _ => self.id,
        }
    }

    /// Returns `true` if the model accepts the reasoning of earlier responses.
    pub(crate) fn reads_reasoning(self) -> bool {
        matches!(self.family, Family::Claude | Family::DeepSeek | Family::Gpt | Family::Unknown)
    }

    /// Returns `true` if the model is a Claude model of this generation or a later one. A Claude model without a
    /// generation in its id counts as new.
    pub(crate) fn is_claude_since(self, generation: (u32, u32)) -> bool {
        self.family == Family::Claude && self.generation.is_none_or(|own| own >= generation)
    }

    /// Returns `true` for the ARN of a prompt, which defines the model and its settings.
    pub(crate) fn is_prompt(self) -> bool {
        self.id.contains(":prompt/")
    }

    /// Returns `true` if the model is a Claude model that thinks without being asked to.
    pub(crate) fn thinks_by_default(self) -> bool {
        self.thinks_by_default
    }

    /// Returns `true` if a conversation may begin with a message of the model.
    pub(crate) fn may_begin(self) -> bool {
        matches!(self.family, Family::Claude | Family::Qwen | Family::Glm | Family::Kimi)
    }

    /// Returns `true` if the model accepts the tool choices `any` and `tool`. GPT does according to
    /// <https://github.com/langchain-ai/langchain-aws/pull/1268>.
    pub(crate) fn can_force_calls(self) -> bool {
        matches!(
            self.family,
            Family::Claude
                | Family::Nova
                | Family::Nova2
                | Family::Gpt
                | Family::Glm
                | Family::Kimi
                | Family::Grok
        )
    }

    /// Returns the default maximum number of output tokens, which is at most the maximum of each model of the family.
    pub(crate) fn default_max_tokens(self) -> usize {
        match self.family {
            Family::Claude if self.is_claude_since((3, 7)) => DEFAULT_MAX_TOKENS,
            Family::DeepSeek
            | Family::Glm
            | Family::Gpt
            | Family::GptOss
            | Family::Grok
            | Family::Kimi
            | Family::Qwen => DEFAULT_MAX_TOKENS,
            Family::Llama | Family::Llama4 => 2_048,
            _ => 4_000,
        }
    }
}

/// Default maximum number of output tokens of a response. It is lower for models that generate less: 2,048 for Llama,
/// and 4,000 for Nova, Mistral, Claude before 3.7, models of other vendors, and models whose id does not contain their
/// vendor.
///
/// The API has defaults of its own. Some of them are low, and include the tokens of thinking.
pub const DEFAULT_MAX_TOKENS: usize = 8_192;

/// Regions before the names of models in inference profiles.
const REGIONS: [&str; 10] = ["apac", "au", "ca", "eu", "global", "in", "jp", "uk", "us", "us-gov"];

/// Returns the beginnings of the ids of Claude models that think by default, alone and with each region.
pub(crate) fn thinking_models() -> &'static [&'static str] {
    static MODELS: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let in_region = |region: &str| {
            // The list is created once, and `ForcedCalls` requires static texts.
            THINKING.map(|name| -> &'static str { format!("{region}.{name}").leak() })
        };
        THINKING.into_iter().chain(REGIONS.into_iter().flat_map(in_region)).collect()
    });
    &MODELS
}

/// Returns the name of a model without the region of an inference profile.
fn without_region(name: &str) -> &str {
    match name.split_once('.') {
        Some((region, name)) if REGIONS.contains(&region) => name,
        _ => name,
    }
}

/// Returns the generation of a Claude model, such as `(3, 5)` for `anthropic.claude-3-5-haiku-20241022-v1:0`.
fn generation(name: &str) -> Option<(u32, u32)> {
    let mut words = name.split('-');
    // The date of a model has more digits than a generation.
    let number = |word: &str| word.parse().ok().filter(|number| *number < 100_u32);
    let major = words.find_map(|word| number(word.trim_start_matches('v')))?;
    Some((major, words.next().and_then(number).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_one_segment_of_the_path() {
        for (model, segment) in [
            ("amazon.nova-lite-v1:0", "amazon.nova-lite-v1%3A0"),
            (
                "arn:aws:bedrock:us-east-1:1:application-inference-profile/a1",
                "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fa1",
            ),
            ("../a?b#c é%", "..%2Fa%3Fb%23c%20%C3%A9%25"),
        ] {
            assert_eq!(path(model, "converse").unwrap(), format!("model/{segment}/converse"));
        }
        for model in ["", ".", ".."] {
            assert_eq!(path(model, "converse").unwrap_err().kind(), "InvalidRequest");
        }
    }

    #[test]
    fn family_is_read_from_every_kind_of_id() {
        let arn = "arn:aws:bedrock:us-east-1:123456789012:";
        for (id, family) in [
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", Family::Claude),
            ("us-gov.anthropic.claude-sonnet-5-5", Family::Claude),
            (
                &format!("{arn}inference-profile/us.meta.llama4-scout-17b-instruct-v1:0"),
                Family::Llama4,
            ),
            ("us.meta.llama3-2-90b-instruct-v1:0", Family::Llama),
            (&format!("{arn}custom-model/amazon.nova-lite-v1:0:300k/abc"), Family::Nova),
            (&format!("{arn}application-inference-profile/abc"), Family::Unknown),
            ("global.amazon.nova-2-lite-v1:0", Family::Nova2),
            ("moonshotai.kimi-k2.5", Family::Kimi),
            ("openai.gpt-oss-120b-1:0", Family::GptOss),
            ("global.openai.gpt-6-sol", Family::Gpt),
            ("google.gemma-3-4b-it", Family::Other),
            ("my-model", Family::Unknown),
            ("", Family::Unknown),
        ] {
            assert_eq!(Model::new(id, "").family, family, "{id}");
        }
        let opaque = format!("{arn}application-inference-profile/abc");
        let model = Model::new(&opaque, "anthropic.claude-opus-5-5");
        assert_eq!((model.family, model.id), (Family::Claude, opaque.as_str()));
        assert!(model.is_claude_since((5, 5)) && !model.is_claude_since((5, 6)));
        assert!(model.thinks_by_default());
    }

    #[test]
    fn generation_is_read_from_the_name() {
        for (name, expected) in [
            ("anthropic.claude-3-5-haiku-20241022-v1:0", Some((3, 5))),
            ("anthropic.claude-3-haiku-20240307-v1:0", Some((3, 0))),
            ("anthropic.claude-sonnet-4-20250514-v1:0", Some((4, 0))),
            ("anthropic.claude-opus-4-6-v1", Some((4, 6))),
            ("anthropic.claude-opus-5-5", Some((5, 5))),
            ("anthropic.claude-sonnet-5", Some((5, 0))),
            ("anthropic.claude-v2:1", None),
            ("anthropic.claude-v2", Some((2, 0))),
            ("anthropic.claude-next", None),
        ] {
            assert_eq!(generation(name), expected, "{name}");
        }
    }
}
