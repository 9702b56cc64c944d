//! The field `thinkingConfig` of a request.
//!
//! <https://ai.google.dev/gemini-api/docs/thinking>

use neuron_model::{ProviderError, ReasoningEffort, RequestRef, ThinkingConfig};
use serde::Serialize;

use crate::model::Generation;

/// The thinking of the model. A request with both a budget and a level is rejected.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Thinking {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    /// Maximum number of thought tokens. 0 switches thinking off, and -1 lets the model decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

/// Returns the thinking of a request. Returns `None` for the default of the model.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request switches thinking off, and the model always thinks.
pub(crate) fn thinking(
    request: RequestRef<'_>,
    model: &str,
) -> Result<Option<Thinking>, ProviderError> {
    let generation = Generation::of(model);
    let effort = request.reasoning_effort;
    // An explicit `thinking` takes precedence over the effort.
    let is_off = match request.thinking {
        Some(thinking) => thinking == ThinkingConfig::Disabled,
        None => effort == Some(ReasoningEffort::None),
    };
    let own = |extra: &serde_json::Value| {
        extra.get("generationConfig").is_some_and(|config| config.get("thinkingConfig").is_some())
    };
    if is_off && generation == Generation::Three && !request.extra.is_some_and(own) {
        return Err(ProviderError::InvalidRequest(format!(
            "`{model}` has no setting that switches thinking off: use ReasoningEffort::Low, or set \
             generationConfig.thinkingConfig in `extra`"
        )));
    }
    let is_shown =
        matches!(request.thinking, Some(ThinkingConfig::Enabled { .. } | ThinkingConfig::Adaptive));
    let (thinking_budget, thinking_level) = match generation {
        Generation::BeforeThree if is_off => (Some(0), None),
        Generation::BeforeThree => (budget(request), None),
        Generation::Three | Generation::Unknown if is_off => (None, None),
        // These models have levels. They decide themselves how many tokens a level takes.
        Generation::Three | Generation::Unknown => (None, effort.and_then(level)),
    };
    let include_thoughts = is_shown.then_some(true);
    let thinking = Thinking { include_thoughts, thinking_budget, thinking_level };
    let is_set = is_shown || thinking_budget.is_some() || thinking_level.is_some();
    Ok(is_set.then_some(thinking))
}

fn level(effort: ReasoningEffort) -> Option<&'static str> {
    match effort {
        ReasoningEffort::Low => Some("LOW"),
        ReasoningEffort::Medium => Some("MEDIUM"),
        ReasoningEffort::High => Some("HIGH"),
        _ => None,
    }
}

/// Returns the budget for a model that has no levels. The budget of an effort is the budget that Google's
/// OpenAI-compatible API uses for it (<https://ai.google.dev/gemini-api/docs/openai>).
fn budget(request: RequestRef<'_>) -> Option<i64> {
    match (request.thinking, request.reasoning_effort) {
        (Some(ThinkingConfig::Enabled { budget_tokens }), _) => {
            Some(i64::try_from(budget_tokens).unwrap_or(i64::MAX))
        }
        (_, Some(ReasoningEffort::Low)) => Some(1_024),
        (_, Some(ReasoningEffort::Medium)) => Some(8_192),
        (_, Some(ReasoningEffort::High)) => Some(24_576),
        (Some(ThinkingConfig::Adaptive), _) => Some(-1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::CompletionRequest;
    use serde_json::{Value, json};

    use super::*;

    const OLD: &str = "gemini-2.5-flash";
    const NEW: &str = "gemini-3.8-flash";

    fn request(
        thinking: Option<ThinkingConfig>,
        effort: Option<ReasoningEffort>,
    ) -> CompletionRequest {
        CompletionRequest { thinking, reasoning_effort: effort, ..Default::default() }
    }

    #[track_caller]
    fn check(
        model: &str,
        setting: Option<ThinkingConfig>,
        effort: Option<ReasoningEffort>,
        expected: Value,
    ) {
        let request = request(setting, effort);
        let thinking = thinking(request.view(), model).unwrap();
        assert_eq!(serde_json::to_value(&thinking).unwrap(), expected);
    }

    #[test]
    fn old_models_get_a_budget() {
        use ReasoningEffort as E;
        use ThinkingConfig as T;
        check(OLD, None, None, json!(null));
        let enabled = Some(T::Enabled { budget_tokens: 500 });
        check(OLD, enabled, Some(E::Low), json!({"includeThoughts": true, "thinkingBudget": 500}));
        check(OLD, Some(T::Adaptive), None, json!({"includeThoughts": true, "thinkingBudget": -1}));
        check(OLD, None, Some(E::Low), json!({"thinkingBudget": 1024}));
        check(OLD, None, Some(E::Medium), json!({"thinkingBudget": 8192}));
        check(OLD, None, Some(E::High), json!({"thinkingBudget": 24576}));
        check(OLD, None, Some(E::None), json!({"thinkingBudget": 0}));
        check(OLD, Some(T::Disabled), Some(E::High), json!({"thinkingBudget": 0}));
    }

    #[test]
    fn new_models_get_a_level() {
        use ReasoningEffort as E;
        use ThinkingConfig as T;
        check(NEW, None, None, json!(null));
        check(NEW, None, Some(E::Low), json!({"thinkingLevel": "LOW"}));
        check(NEW, None, Some(E::Medium), json!({"thinkingLevel": "MEDIUM"}));
        let both = json!({"includeThoughts": true, "thinkingLevel": "HIGH"});
        check(NEW, Some(T::Adaptive), Some(E::High), both);
        let enabled = Some(T::Enabled { budget_tokens: 500 });
        check(NEW, enabled, None, json!({"includeThoughts": true}));
        check("gemma-3-27b-it", Some(T::Disabled), None, json!(null));
    }

    #[test]
    fn thinking_of_new_models_cannot_be_switched_off() {
        for mut request in [
            request(Some(ThinkingConfig::Disabled), None),
            request(None, Some(ReasoningEffort::None)),
        ] {
            assert_eq!(
                thinking(request.view(), NEW).unwrap_err().to_string(),
                "invalid request: `gemini-3.8-flash` has no setting that switches thinking off: use \
                 ReasoningEffort::Low, or set generationConfig.thinkingConfig in `extra`"
            );
            let own = json!({"generationConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}});
            request.extra = Some(own);
            assert_eq!(thinking(request.view(), NEW).unwrap(), None);
        }
    }
}
