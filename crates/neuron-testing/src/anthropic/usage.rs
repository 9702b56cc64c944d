//! Token counts in Anthropic's format.
//!
//! Anthropic's count of prompt tokens excludes cached tokens. A call may have several passes, which each run a model.
//! Anthropic's totals exclude the passes for compaction and for an advisor, which are reported only under `iterations`.

use neuron_types::{TokenUsage, UsageIteration};
use serde_json::{Value, json};

use crate::json::{merge, sparse};

/// Returns the `usage` of the `message_start` event. It has the counts of the prompt and one output token.
///
/// A call may have several passes, which each run a model. The event then has the counts of the first pass. The
/// `message_delta` event at the end of the stream has the totals.
pub(super) fn start_usage(usage: &TokenUsage) -> Value {
    let counts = match usage.iterations.as_deref() {
        Some([first, ..]) => counts(first),
        _ => counts(&call(usage)),
    };
    merge(counts, json!({"output_tokens": 1, "service_tier": "standard"}))
}

/// Returns the `usage` of a complete response, whether the response is streamed or not. Unknown counts are left out.
pub(super) fn final_usage(usage: &TokenUsage) -> Value {
    let thinking = usage.reasoning_tokens.map(|count| json!({"thinking_tokens": count}));
    let passes = usage.iterations.as_ref().map(|passes| {
        let pass = |pass: &UsageIteration| {
            merge(sparse(json!({"type": pass.kind, "model": pass.model})), counts(pass))
        };
        passes.iter().map(pass).collect::<Vec<_>>()
    });
    let others = json!({"output_tokens_details": thinking, "iterations": passes});
    merge(counts(&call(usage)), sparse(others))
}

/// Returns the total token counts of a call. As in Anthropic's API, the totals exclude the passes for compaction and
/// for an advisor. A pass is one run of a model within the call.
fn call(usage: &TokenUsage) -> UsageIteration {
    let less = |all: Option<usize>, pass: Option<usize>| {
        all.map(|count| count.saturating_sub(pass.unwrap_or_default()))
    };
    let mut all = UsageIteration {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_creation_tokens: usage.cache_creation_tokens,
        ..Default::default()
    };
    for pass in usage.iterations.iter().flatten() {
        if matches!(pass.kind.as_str(), "compaction" | "advisor_message") {
            all.input_tokens = all.input_tokens.saturating_sub(pass.input_tokens);
            all.output_tokens = all.output_tokens.saturating_sub(pass.output_tokens);
            all.cache_read_tokens = less(all.cache_read_tokens, pass.cache_read_tokens);
            all.cache_creation_tokens = less(all.cache_creation_tokens, pass.cache_creation_tokens);
        }
    }
    all
}

/// Returns the counts of a pass under Anthropic's names. A pass is one run of a model in a call. Cached tokens are
/// subtracted from `input_tokens`, because Anthropic's count excludes them.
fn counts(pass: &UsageIteration) -> Value {
    let (read, created) = (pass.cache_read_tokens, pass.cache_creation_tokens);
    let cached = read.unwrap_or_default() + created.unwrap_or_default();
    sparse(json!({
        "input_tokens": pass.input_tokens.saturating_sub(cached),
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": read,
        "output_tokens": pass.output_tokens,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_tokens_exclude_cached_tokens() {
        let usage = TokenUsage {
            input_tokens: 100,
            output_tokens: 20,
            cache_read_tokens: Some(60),
            cache_creation_tokens: Some(30),
            reasoning_tokens: Some(5),
            iterations: None,
            cost: None,
        };
        assert_eq!(
            final_usage(&usage),
            json!({
                "input_tokens": 10,
                "cache_creation_input_tokens": 30,
                "cache_read_input_tokens": 60,
                "output_tokens": 20,
                "output_tokens_details": {"thinking_tokens": 5},
            })
        );
        assert_eq!(start_usage(&usage)["output_tokens"], 1);
        assert_eq!(start_usage(&usage)["input_tokens"], 10);
    }

    #[test]
    fn final_usage_leaves_out_unknown_counts() {
        let usage = TokenUsage { input_tokens: 7, output_tokens: 3, ..Default::default() };
        assert_eq!(final_usage(&usage), json!({"input_tokens": 7, "output_tokens": 3}));
    }

    #[test]
    fn totals_exclude_the_compaction_pass() {
        let pass = |kind: &str, input_tokens, output_tokens| UsageIteration {
            kind: kind.into(),
            input_tokens,
            output_tokens,
            ..Default::default()
        };
        let usage = TokenUsage {
            input_tokens: 281,
            output_tokens: 70,
            iterations: Some(vec![pass("compaction", 100, 50), pass("message", 181, 20)]),
            ..Default::default()
        };
        assert_eq!(start_usage(&usage)["input_tokens"], 100);
        assert_eq!(
            final_usage(&usage),
            json!({
                "input_tokens": 181,
                "output_tokens": 20,
                "iterations": [
                    {"type": "compaction", "input_tokens": 100, "output_tokens": 50},
                    {"type": "message", "input_tokens": 181, "output_tokens": 20},
                ],
            })
        );
    }
}
