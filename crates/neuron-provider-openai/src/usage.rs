//! Token counts, in the fields of OpenAI and of compatible servers.

use neuron_types::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::lenient;

/// xAI's ticks per dollar.
const TICKS: f64 = 1e10;

/// The token counts of a response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    #[serde(deserialize_with = "lenient::count")]
    prompt_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    completion_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    total_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::or_default")]
    prompt_tokens_details: PromptDetails,
    #[serde(deserialize_with = "lenient::or_default")]
    completion_tokens_details: CompletionDetails,
    /// Perplexity.
    #[serde(deserialize_with = "lenient::count")]
    reasoning_tokens: Option<usize>,
    /// Moonshot.
    #[serde(deserialize_with = "lenient::count")]
    cached_tokens: Option<usize>,
    /// Mistral.
    #[serde(deserialize_with = "lenient::count")]
    num_cached_tokens: Option<usize>,
    /// DeepSeek.
    #[serde(deserialize_with = "lenient::count")]
    prompt_cache_hit_tokens: Option<usize>,
    /// OpenRouter sends dollars, Perplexity an object with `total_cost`.
    cost: Value,
    /// xAI.
    #[serde(deserialize_with = "lenient::or_default")]
    cost_in_usd_ticks: Option<f64>,
    /// OpenRouter.
    #[serde(deserialize_with = "lenient::or_default")]
    server_tool_use: Map<String, Value>,
    /// xAI.
    #[serde(deserialize_with = "lenient::or_default")]
    server_side_tool_usage_details: Map<String, Value>,
    /// Perplexity.
    #[serde(deserialize_with = "lenient::count")]
    num_search_queries: Option<usize>,
    /// xAI.
    #[serde(deserialize_with = "lenient::count")]
    num_sources_used: Option<usize>,
}

/// Details of input tokens, shared by both APIs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PromptDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cached_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cache_write_tokens: Option<usize>,
    /// DashScope.
    #[serde(deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<usize>,
}

/// Details of output tokens, shared by both APIs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompletionDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) reasoning_tokens: Option<usize>,
}

/// An object of a chunk that may contain the usage, such as Groq's `x_groq`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct UsageHolder {
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) usage: Option<WireUsage>,
}

impl WireUsage {
    /// Returns `true` if any count is not zero.
    pub(crate) fn counts_anything(&self) -> bool {
        let counts = [self.prompt_tokens, self.completion_tokens, self.total_tokens];
        counts.into_iter().flatten().any(|count| count > 0)
    }

    /// Returns the cost in US dollars, if the server reports it.
    pub(crate) fn cost(&self) -> Option<f64> {
        // Perplexity's `cost` is an object, OpenRouter's a number.
        let total = self.cost.get("total_cost").unwrap_or(&self.cost).as_f64();
        total.or_else(|| self.cost_in_usd_ticks.map(|ticks| ticks / TICKS))
    }

    /// Returns the number of uses of each server tool.
    pub(crate) fn server_tools(&self) -> impl Iterator<Item = (String, u64)> {
        let named = self.server_tool_use.iter().chain(&self.server_side_tool_usage_details);
        let named = named.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)));
        let counts = [
            ("num_search_queries", self.num_search_queries),
            ("num_sources_used", self.num_sources_used),
        ];
        let counts = counts
            .into_iter()
            .filter_map(|(name, count)| Some((name.to_owned(), u64::try_from(count?).ok()?)));
        named.chain(counts).filter(|(_, count)| *count > 0)
    }

    /// Returns the output tokens, and how many of them are reasoning.
    ///
    /// xAI excludes reasoning from `completion_tokens`, and Gemini's endpoint reports it only in the total. The total
    /// reveals both cases, because elsewhere it is the sum of input and output.
    fn output(&self) -> (usize, Option<usize>) {
        let details = self.completion_tokens_details.reasoning_tokens;
        let reasoning = max_count([details, self.reasoning_tokens]);
        let answer = self.completion_tokens.unwrap_or_default();
        // Tokens in the total that neither input nor output contains.
        let beside = match (self.prompt_tokens, self.total_tokens) {
            (Some(prompt), Some(total)) => total.saturating_sub(prompt.saturating_add(answer)),
            _ => 0,
        };
        match reasoning {
            None if beside > 0 => (answer.saturating_add(beside), Some(beside)),
            // Equal to the excess, so the output does not contain the reasoning.
            Some(reasoning) if reasoning == beside => {
                (answer.saturating_add(reasoning), Some(reasoning))
            }
            reasoning => (answer, reasoning),
        }
    }
}

/// Returns the largest count. A server with two fields for a count may leave one at zero.
fn max_count<const N: usize>(counts: [Option<usize>; N]) -> Option<usize> {
    counts.into_iter().flatten().max()
}

impl From<WireUsage> for TokenUsage {
    fn from(wire: WireUsage) -> Self {
        let (output_tokens, reasoning_tokens) = wire.output();
        Self {
            input_tokens: wire.prompt_tokens.unwrap_or_default(),
            output_tokens,
            cache_read_tokens: max_count([
                wire.prompt_tokens_details.cached_tokens,
                wire.cached_tokens,
                wire.num_cached_tokens,
                wire.prompt_cache_hit_tokens,
            ]),
            cache_creation_tokens: max_count([
                wire.prompt_tokens_details.cache_write_tokens,
                wire.prompt_tokens_details.cache_creation_input_tokens,
            ]),
            reasoning_tokens,
            iterations: None,
        }
    }
}
