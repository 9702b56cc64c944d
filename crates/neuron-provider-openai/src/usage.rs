//! Token counts of a response, parsed from the fields of OpenAI and of compatible servers.

use neuron_model::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dialect::Vendor;
use crate::lenient;

/// Number of xAI's cost ticks per US dollar.
const TICKS: f64 = 1e10;

/// The token counts, the cost and the uses of server tools in a response of any server.
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
    /// Perplexity's count of reasoning tokens.
    #[serde(deserialize_with = "lenient::count")]
    reasoning_tokens: Option<usize>,
    /// Moonshot's count of cached input tokens.
    #[serde(deserialize_with = "lenient::count")]
    cached_tokens: Option<usize>,
    /// Mistral's count of cached input tokens.
    #[serde(deserialize_with = "lenient::count")]
    num_cached_tokens: Option<usize>,
    /// DeepSeek's count of cached input tokens.
    #[serde(deserialize_with = "lenient::count")]
    prompt_cache_hit_tokens: Option<usize>,
    /// Cost in US dollars. OpenRouter sends a number, and Perplexity sends an object with `total_cost`.
    cost: Value,
    /// xAI's cost in ticks. A US dollar has [`TICKS`] ticks.
    #[serde(deserialize_with = "lenient::or_default")]
    cost_in_usd_ticks: Option<f64>,
    /// OpenRouter's number of uses of each server tool.
    #[serde(deserialize_with = "lenient::or_default")]
    server_tool_use: Map<String, Value>,
    /// xAI's number of uses of each server tool.
    #[serde(deserialize_with = "lenient::or_default")]
    server_side_tool_usage_details: Map<String, Value>,
    /// Perplexity's number of web searches.
    #[serde(deserialize_with = "lenient::count")]
    num_search_queries: Option<usize>,
    /// xAI's number of search sources.
    #[serde(deserialize_with = "lenient::count")]
    num_sources_used: Option<usize>,
}

/// The details of input tokens, in responses of Chat Completions and of the Responses API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PromptDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cached_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cache_write_tokens: Option<usize>,
    /// DashScope's count of tokens that were written to the cache.
    #[serde(deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<usize>,
}

/// The details of output tokens, in responses of Chat Completions and of the Responses API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompletionDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) reasoning_tokens: Option<usize>,
}

/// An object within a chunk that may contain the token counts, for example Groq's `x_groq`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct UsageHolder {
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) usage: Option<WireUsage>,
}

impl WireUsage {
    /// Returns `true` if any of the input, output and total counts is greater than zero.
    pub(crate) fn counts_anything(&self) -> bool {
        let counts = [self.prompt_tokens, self.completion_tokens, self.total_tokens];
        counts.into_iter().flatten().any(|count| count > 0)
    }

    /// Returns the cost in US dollars, or `None` if the server does not report a cost.
    pub(crate) fn cost(&self) -> Option<f64> {
        // Perplexity's `cost` is an object, OpenRouter's a number.
        let total = self.cost.get("total_cost").unwrap_or(&self.cost).as_f64();
        total.or_else(|| self.cost_in_usd_ticks.map(|ticks| ticks / TICKS))
    }

    /// Returns the name and the number of uses of each server tool that was used.
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

    /// Returns the token counts of a response of `vendor`.
    pub(crate) fn counts(&self, vendor: Vendor) -> TokenUsage {
        let (output_tokens, reasoning_tokens) = self.output(vendor);
        TokenUsage {
            input_tokens: self.prompt_tokens.unwrap_or_default(),
            output_tokens,
            cache_read_tokens: max_count([
                self.prompt_tokens_details.cached_tokens,
                self.cached_tokens,
                self.num_cached_tokens,
                self.prompt_cache_hit_tokens,
            ]),
            cache_creation_tokens: max_count([
                self.prompt_tokens_details.cache_write_tokens,
                self.prompt_tokens_details.cache_creation_input_tokens,
            ]),
            reasoning_tokens,
            iterations: None,
            cost: None,
        }
    }

    /// Returns the number of output tokens, and how many of them are reasoning tokens. The second number is `None` if
    /// it is unknown.
    ///
    /// xAI does not count reasoning in `completion_tokens`. Gemini's endpoint counts it only in `total_tokens`. On
    /// both, the total is larger than the sum of input and output, and the difference is the reasoning, which is added
    /// to the output. A server other than Gemini's must report the same number of reasoning tokens, because its total
    /// may contain other tokens. Mistral counts the tokens of speech only in the total
    /// (<https://docs.mistral.ai/capabilities/audio/>).
    fn output(&self, vendor: Vendor) -> (usize, Option<usize>) {
        let details = self.completion_tokens_details.reasoning_tokens;
        let reasoning = max_count([details, self.reasoning_tokens]);
        let answer = self.completion_tokens.unwrap_or_default();
        // Number of tokens that only the total contains.
        let beside = match (self.prompt_tokens, self.total_tokens) {
            (Some(prompt), Some(total)) => total.saturating_sub(prompt.saturating_add(answer)),
            _ => 0,
        };
        match reasoning {
            None if beside > 0 && vendor.is_gemini() => {
                (answer.saturating_add(beside), Some(beside))
            }
            // The total exceeds the sum by exactly the reasoning, so the output does not contain the reasoning.
            Some(reasoning) if reasoning == beside => {
                (answer.saturating_add(reasoning), Some(reasoning))
            }
            reasoning => (answer, reasoning),
        }
    }
}

/// Returns the largest of several counts. Returns `None` if all counts are missing. Some servers send a count in
/// several fields, with zero in some of them.
fn max_count<const N: usize>(counts: [Option<usize>; N]) -> Option<usize> {
    counts.into_iter().flatten().max()
}
