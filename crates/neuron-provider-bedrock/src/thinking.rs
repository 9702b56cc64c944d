//! Thinking in a request. Converse has no field for thinking, so each family has its own fields in
//! `additionalModelRequestFields`.
//!
//! | family | fields |
//! |---|---|
//! | Claude | `thinking` and `output_config`, as in Anthropic's API |
//! | Nova 2 | `reasoningConfig` (<https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html>) |
//! | GPT, Grok | `reasoning`, as in OpenAI's Responses API |
//! | DeepSeek, GLM, gpt-oss | `reasoning_effort`, as in OpenAI's Chat Completions API |
//! | Qwen | `reasoning_config`, which is `low` or `high` |

use neuron_model::{ProviderError, ReasoningEffort, RequestRef, ThinkingConfig};
use serde_json::{Map, Value, json};

use crate::model::{Family, Model};

/// The thinking that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// The default of the model.
    Default,
    Off,
    On,
}

impl Wish {
    fn of(request: RequestRef<'_>) -> Self {
        // An explicit `thinking` takes precedence over the effort.
        match (request.thinking, request.reasoning_effort) {
            (Some(ThinkingConfig::Disabled), _) | (None, Some(ReasoningEffort::None)) => Self::Off,
            (None, None) => Self::Default,
            _ => Self::On,
        }
    }
}

/// Returns the fields that set the thinking of the model.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if no field of the model does what the request asks for. If
/// `additionalModelRequestFields` in `extra` is set, the caller's own fields are expected to do it.
pub(crate) fn fields(
    request: RequestRef<'_>,
    model: Model<'_>,
) -> Result<Map<String, Value>, ProviderError> {
    let wish = Wish::of(request);
    let effort = request.reasoning_effort.and_then(level);
    let mut fields = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    };
    let is_known = match (model.family, wish) {
        (Family::Claude, _) => {
            set("thinking", claude(request));
            set("output_config", effort.map(|effort| json!({ "effort": effort })));
            true
        }
        (Family::Nova2, Wish::On) => {
            // The API requires an effort.
            let effort = effort.unwrap_or("medium");
            let config = json!({"type": "enabled", "maxReasoningEffort": effort});
            set("reasoningConfig", Some(config));
            true
        }
        (Family::Nova2, Wish::Off) => {
            set("reasoningConfig", Some(json!({"type": "disabled"})));
            true
        }
        (Family::Gpt, Wish::Off) => {
            set("reasoning", Some(json!({"effort": "none"})));
            true
        }
        // These models think by default, and decide themselves how many tokens an effort takes.
        (Family::Gpt | Family::Grok, Wish::On) => {
            set("reasoning", effort.map(|effort| json!({ "effort": effort })));
            true
        }
        (Family::DeepSeek | Family::Glm | Family::GptOss, Wish::On) => {
            set("reasoning_effort", effort.map(Value::from));
            true
        }
        (Family::Qwen, Wish::On) => {
            let level = |effort| if effort == "low" { "low" } else { "high" };
            set("reasoning_config", effort.map(level).map(Value::from));
            true
        }
        // These models do not think, or only some of them do, and always.
        (
            Family::Llama
            | Family::Llama4
            | Family::Mistral
            | Family::Nova
            | Family::Palmyra
            | Family::Other,
            Wish::Off,
        ) => true,
        (_, wish) => wish == Wish::Default,
    };
    if is_known || has_own_fields(request) {
        return Ok(fields);
    }
    let what = if wish == Wish::Off { "switches thinking off" } else { "switches thinking on" };
    let behind = match model.family {
        Family::Unknown => "name the model behind the id with Bedrock::base_model, or ",
        _ => "",
    };
    Err(ProviderError::InvalidRequest(format!(
        "`{}` has no known setting that {what}: {behind}set additionalModelRequestFields in `extra`",
        model.id
    )))
}

/// Returns `true` if the model thinks with an effort with which it rejects a maximum number of tokens, a temperature and
/// `top_p` (<https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html>).
pub(crate) fn excludes_sampling(request: RequestRef<'_>, model: Model<'_>) -> bool {
    model.family == Family::Nova2
        && Wish::of(request) == Wish::On
        && request.reasoning_effort == Some(ReasoningEffort::High)
}

fn has_own_fields(request: RequestRef<'_>) -> bool {
    let own = request.extra.and_then(|extra| extra.get("additionalModelRequestFields"));
    own.is_some_and(|own| !own.is_null())
}

fn claude(request: RequestRef<'_>) -> Option<Value> {
    match (request.thinking, Wish::of(request)) {
        (_, Wish::Off) => Some(json!({"type": "disabled"})),
        (Some(ThinkingConfig::Enabled { budget_tokens }), _) => {
            Some(json!({"type": "enabled", "budget_tokens": budget_tokens}))
        }
        (Some(ThinkingConfig::Adaptive), _) => Some(json!({"type": "adaptive"})),
        _ => None,
    }
}

fn level(effort: ReasoningEffort) -> Option<&'static str> {
    match effort {
        ReasoningEffort::Low => Some("low"),
        ReasoningEffort::Medium => Some("medium"),
        ReasoningEffort::High => Some("high"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::CompletionRequest;

    use super::*;
    use ReasoningEffort as E;
    use ThinkingConfig as T;

    fn request(thinking: Option<T>, effort: Option<E>) -> CompletionRequest {
        CompletionRequest { thinking, reasoning_effort: effort, ..Default::default() }
    }

    #[track_caller]
    fn check(model: &str, thinking: Option<T>, effort: Option<E>, expected: Value) {
        let request = request(thinking, effort);
        let fields = fields(request.view(), Model::new(model, "")).unwrap();
        assert_eq!(Value::Object(fields), expected, "{model}");
    }

    #[test]
    fn each_family_has_its_own_fields() {
        let claude = "us.anthropic.claude-opus-4-6-v1";
        let enabled = Some(T::Enabled { budget_tokens: 1024 });
        let budget = json!({"thinking": {"type": "enabled", "budget_tokens": 1024}});
        check(claude, enabled, None, budget);
        let both = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}});
        check(claude, Some(T::Adaptive), Some(E::High), both);
        check(claude, None, Some(E::Low), json!({"output_config": {"effort": "low"}}));
        check(claude, None, Some(E::None), json!({"thinking": {"type": "disabled"}}));

        let nova = "global.amazon.nova-2-lite-v1:0";
        let config =
            |effort| json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": effort}});
        check(nova, enabled, None, config("medium"));
        check(nova, None, Some(E::High), config("high"));
        check(nova, Some(T::Disabled), None, json!({"reasoningConfig": {"type": "disabled"}}));

        let gpt = "global.openai.gpt-6-sol";
        check(gpt, None, Some(E::Low), json!({"reasoning": {"effort": "low"}}));
        check(gpt, None, Some(E::None), json!({"reasoning": {"effort": "none"}}));
        check(gpt, enabled, None, json!({}));
        let oss = "openai.gpt-oss-120b-1:0";
        check(oss, None, Some(E::Medium), json!({"reasoning_effort": "medium"}));
        check("qwen.qwen3-32b-v1:0", None, Some(E::Medium), json!({"reasoning_config": "high"}));
        check("qwen.qwen3-32b-v1:0", None, Some(E::Low), json!({"reasoning_config": "low"}));
        check("meta.llama3-1-8b-instruct-v1:0", Some(T::Disabled), None, json!({}));
        for model in [claude, nova, gpt, oss, "unknown", "mistral.x"] {
            check(model, None, None, json!({}));
        }
    }

    #[test]
    fn unknown_setting_is_an_error() {
        for (model, effort, text) in [
            (
                "openai.gpt-oss-20b-1:0",
                E::None,
                "`openai.gpt-oss-20b-1:0` has no known setting that switches thinking off: set \
                 additionalModelRequestFields in `extra`",
            ),
            (
                "amazon.nova-pro-v1:0",
                E::Low,
                "`amazon.nova-pro-v1:0` has no known setting that switches thinking on: set \
                 additionalModelRequestFields in `extra`",
            ),
            (
                "abc",
                E::Low,
                "`abc` has no known setting that switches thinking on: name the model behind the id with \
                 Bedrock::base_model, or set additionalModelRequestFields in `extra`",
            ),
        ] {
            let mut request = request(None, Some(effort));
            let model = Model::new(model, "");
            let error = fields(request.view(), model).unwrap_err().to_string();
            assert_eq!(error, format!("invalid request: {text}"));
            request.extra = Some(json!({"additionalModelRequestFields": {"a": 1}}));
            assert_eq!(fields(request.view(), model).unwrap(), Map::new());
        }
    }

    #[test]
    fn highest_effort_of_nova_excludes_sampling() {
        let nova = Model::new("amazon.nova-2-lite-v1:0", "");
        assert!(excludes_sampling(request(None, Some(E::High)).view(), nova));
        assert!(!excludes_sampling(request(None, Some(E::Low)).view(), nova));
        assert!(!excludes_sampling(request(Some(T::Disabled), Some(E::High)).view(), nova));
    }
}
