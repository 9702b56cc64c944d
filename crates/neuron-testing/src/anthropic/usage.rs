//! Token counts as the vendor splits them: its prompt tokens are those without the cached ones,
//! and its totals are those without the passes that it bills apart.

use neuron_types::{TokenUsage, UsageIteration};
use serde_json::{Map, Value, json};

/// The usage of `message_start`: what is known before the answer, and one token of it.
///
/// With several passes these are the first one's counts, which the end of the stream corrects.
pub(super) fn start_usage(usage: &TokenUsage) -> Value {
    let counts = match usage.iterations.as_deref() {
        Some([first, ..]) => Counts::of_iteration(first),
        _ => Counts::of_call(usage),
    };
    let mut fields = Counts { output: 1, ..counts }.fields();
    fields.insert("service_tier".into(), "standard".into());
    Value::Object(fields)
}

/// The usage at the end of a stream, and of an answer in one piece. Counts that are not known are
/// left out.
pub(super) fn final_usage(usage: &TokenUsage) -> Value {
    let mut fields = Counts::of_call(usage).fields();
    if let Some(thinking) = usage.reasoning_tokens {
        fields.insert("output_tokens_details".into(), json!({"thinking_tokens": thinking}));
    }
    if let Some(iterations) = &usage.iterations {
        let iterations = iterations.iter().map(iteration).collect();
        fields.insert("iterations".into(), Value::Array(iterations));
    }
    Value::Object(fields)
}

fn iteration(pass: &UsageIteration) -> Value {
    let mut fields = Map::new();
    fields.insert("type".into(), pass.kind.clone().into());
    if let Some(model) = &pass.model {
        fields.insert("model".into(), model.clone().into());
    }
    fields.extend(Counts::of_iteration(pass).fields());
    Value::Object(fields)
}

/// Counts in our terms: the prompt's include the cached ones.
#[derive(Clone, Copy)]
struct Counts {
    input: usize,
    output: usize,
    cache_read: Option<usize>,
    cache_creation: Option<usize>,
}

impl Counts {
    fn of_iteration(pass: &UsageIteration) -> Self {
        Self {
            input: pass.input_tokens,
            output: pass.output_tokens,
            cache_read: pass.cache_read_tokens,
            cache_creation: pass.cache_creation_tokens,
        }
    }

    /// The call's totals without the passes that the vendor leaves out of them.
    fn of_call(usage: &TokenUsage) -> Self {
        let all = Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_tokens,
            cache_creation: usage.cache_creation_tokens,
        };
        usage
            .iterations
            .iter()
            .flatten()
            .filter(|pass| matches!(pass.kind.as_str(), "compaction" | "advisor_message"))
            .map(Self::of_iteration)
            .fold(all, Self::without)
    }

    fn without(self, other: Self) -> Self {
        let less = |a: Option<usize>, b: Option<usize>| {
            a.map(|count| count.saturating_sub(b.unwrap_or(0)))
        };
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: less(self.cache_read, other.cache_read),
            cache_creation: less(self.cache_creation, other.cache_creation),
        }
    }

    fn fields(self) -> Map<String, Value> {
        let cached = self.cache_read.unwrap_or(0) + self.cache_creation.unwrap_or(0);
        let mut fields = Map::new();
        fields.insert("input_tokens".into(), self.input.saturating_sub(cached).into());
        if let Some(count) = self.cache_creation {
            fields.insert("cache_creation_input_tokens".into(), count.into());
        }
        if let Some(count) = self.cache_read {
            fields.insert("cache_read_input_tokens".into(), count.into());
        }
        fields.insert("output_tokens".into(), self.output.into());
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_not_input_tokens() {
        let usage = TokenUsage {
            input_tokens: 100,
            output_tokens: 20,
            cache_read_tokens: Some(60),
            cache_creation_tokens: Some(30),
            reasoning_tokens: Some(5),
            iterations: None,
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
    fn counts_that_are_not_known_are_left_out() {
        let usage = TokenUsage { input_tokens: 7, output_tokens: 3, ..Default::default() };
        assert_eq!(final_usage(&usage), json!({"input_tokens": 7, "output_tokens": 3}));
    }

    #[test]
    fn totals_leave_out_the_compaction() {
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
