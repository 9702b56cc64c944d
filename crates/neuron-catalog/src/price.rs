//! The price of a model, and the cost of a call.

use chrono::NaiveDate;
use neuron_model::Money;
use serde::{Deserialize, Serialize};

use crate::CallUsage;

/// The price of a model from a date on.
///
/// A price without tiers, fees and a date is created from its [`Rates`].
///
/// # Example: a higher rate for long prompts
///
/// ```
/// use neuron_catalog::{CallUsage, Price, Rates};
/// use neuron_model::{Money, TokenUsage};
///
/// let dollars = Money::from_dollars;
/// let price = Price::from(Rates::per_million(dollars(2), dollars(12)))
///     .with_rates_above(200_000, Rates::per_million(dollars(4), dollars(18)));
/// let cost = |input_tokens| {
///     price.cost(&CallUsage::from(&TokenUsage { input_tokens, ..Default::default() }))
/// };
/// assert_eq!(cost(200_000).to_string(), "$0.40");
/// assert_eq!(cost(200_001).to_string(), "$0.800004");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// First day of the price, in UTC. `None` if the price has no predecessor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NaiveDate>,
    /// Rates of a call whose prompt is not longer than the first tier.
    #[serde(flatten)]
    pub rates: Rates,
    /// Rates of calls with longer prompts, from the shortest to the longest prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<Tier>,
    /// Fee for each call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call: Money,
    /// Fee for each web search that the vendor runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub web_search: Money,
}

/// The rates of calls with long prompts. They apply to all tokens of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tier {
    /// Number of input tokens that a call must exceed.
    pub tokens: usize,
    /// Rates of the call.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Prices for a million tokens of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rates {
    /// Price of input.
    pub input: Money,
    /// Price of output.
    pub output: Money,
    /// Price of input that was read from a cache. `None` if it is the price of input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Money>,
    /// Price of input that was written to a cache. `None` if it is the price of input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Money>,
    /// Price of input that was written to a cache for one hour. `None` if it is the price of other cache writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Money>,
    /// Price of reasoning. `None` if it is the price of output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Money>,
    /// Price of audio in the input. `None` if it is the price of input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_audio: Option<Money>,
    /// Price of audio that was read from a cache. `None` if it is the price of audio, or else of cached input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_audio: Option<Money>,
    /// Price of audio in the output. `None` if it is the price of output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_audio: Option<Money>,
}

impl Price {
    /// The price of models on your own machine.
    pub(crate) const FREE: Self = Self {
        from: None,
        rates: Rates::per_million(Money::ZERO, Money::ZERO),
        above: Vec::new(),
        call: Money::ZERO,
        web_search: Money::ZERO,
    };

    /// Adds rates for calls with more than this number of input tokens.
    #[must_use]
    pub fn with_rates_above(mut self, tokens: usize, rates: Rates) -> Self {
        self.above.push(Tier { tokens, rates });
        self.above.sort_by_key(|tier| tier.tokens);
        self
    }

    /// Sets the first day of the price, in UTC.
    #[must_use]
    pub fn starting(self, day: NaiveDate) -> Self {
        Self { from: Some(day), ..self }
    }

    /// Returns the cost of one call.
    ///
    /// The cost is exact for rates with up to six decimals. Otherwise it is rounded up to a picodollar. It is at most
    /// [`Money::MAX`].
    #[must_use]
    pub fn cost(&self, usage: &CallUsage) -> Money {
        self.cost_of_tokens(usage).saturating_add(self.fees(usage))
    }

    /// Returns the highest cost of a call with at most this usage. No cost of a call exceeds it if none of the call's
    /// numbers exceeds the number in `most`.
    ///
    /// Any part of the input may then be cached, and any part of the output may be reasoning. For cache writes of one
    /// hour and for audio, `most` must contain their numbers.
    #[must_use]
    pub fn highest_cost(&self, most: &CallUsage) -> Money {
        let tiers = self.above.iter().filter(|tier| most.input_tokens > tier.tokens);
        let rates = std::iter::once(&self.rates).chain(tiers.map(|tier| &tier.rates));
        let tokens = rates.map(|rates| rates.highest_cost(most)).max().unwrap_or_default();
        tokens.saturating_add(self.fees(most))
    }

    /// Returns the cost of the tokens, without fees.
    pub(crate) fn cost_of_tokens(&self, usage: &CallUsage) -> Money {
        let is_reached = |tier: &&Tier| usage.input_tokens > tier.tokens;
        let tier = self.above.iter().rev().find(is_reached);
        tier.map_or(&self.rates, |tier| &tier.rates).cost(usage)
    }

    /// Returns the fees of a call.
    pub(crate) fn fees(&self, usage: &CallUsage) -> Money {
        let searches = self.web_search.picodollars().saturating_mul(usage.web_searches as u128);
        self.call.saturating_add(Money::from_picodollars(searches))
    }
}

impl From<Rates> for Price {
    fn from(rates: Rates) -> Self {
        Self { rates, ..Self::FREE }
    }
}

impl Rates {
    /// Creates the prices for a million tokens of input and of output.
    #[must_use]
    pub const fn per_million(input: Money, output: Money) -> Self {
        Self {
            input,
            output,
            cache_read: None,
            cache_write: None,
            cache_write_1h: None,
            reasoning: None,
            input_audio: None,
            cache_read_audio: None,
            output_audio: None,
        }
    }

    /// Sets the price for a million tokens that are read from a cache.
    #[must_use]
    pub fn with_cache_read(self, price: Money) -> Self {
        Self { cache_read: Some(price), ..self }
    }

    fn cache_write(&self) -> Money {
        self.cache_write.unwrap_or(self.input)
    }

    fn cache_write_1h(&self) -> Money {
        self.cache_write_1h.unwrap_or(self.cache_write())
    }

    fn cache_read(&self) -> Money {
        self.cache_read.unwrap_or(self.input)
    }

    fn input_audio(&self) -> Money {
        self.input_audio.unwrap_or(self.input)
    }

    fn cache_read_audio(&self) -> Money {
        self.cache_read_audio.or(self.input_audio).unwrap_or(self.cache_read())
    }

    fn reasoning(&self) -> Money {
        self.reasoning.unwrap_or(self.output)
    }

    fn output_audio(&self) -> Money {
        self.output_audio.unwrap_or(self.output)
    }

    fn cost(&self, usage: &CallUsage) -> Money {
        let less = usize::saturating_sub;
        let fresh_audio = less(usage.input_audio_tokens, usage.cache_read_audio_tokens);
        let fresh =
            less(less(usage.input_tokens, usage.cache_read_tokens), usage.cache_write_tokens);
        let text =
            less(less(usage.output_tokens, usage.reasoning_tokens), usage.output_audio_tokens);
        let short_write = less(usage.cache_write_tokens, usage.one_hour_cache_write_tokens);
        total([
            (less(fresh, fresh_audio), self.input),
            (less(usage.cache_read_tokens, usage.cache_read_audio_tokens), self.cache_read()),
            (short_write, self.cache_write()),
            (usage.one_hour_cache_write_tokens, self.cache_write_1h()),
            (fresh_audio, self.input_audio()),
            (usage.cache_read_audio_tokens, self.cache_read_audio()),
            (text, self.output),
            (usage.reasoning_tokens, self.reasoning()),
            (usage.output_audio_tokens, self.output_audio()),
        ])
    }

    fn highest_cost(&self, most: &CallUsage) -> Money {
        let mut input = self.input.max(self.cache_read()).max(self.cache_write());
        if most.one_hour_cache_write_tokens > 0 {
            input = input.max(self.cache_write_1h());
        }
        let output = self.output.max(self.reasoning());
        let audio = self.input_audio().max(self.cache_read_audio());
        // Each token of audio costs the difference in addition.
        total([
            (most.input_tokens, input),
            (most.input_audio_tokens, audio.saturating_sub(input)),
            (most.output_tokens, output),
            (most.output_audio_tokens, self.output_audio().saturating_sub(output)),
        ])
    }
}

/// Returns the cost of numbers of tokens with their prices for a million tokens, rounded up to a picodollar, and at most
/// [`Money::MAX`].
fn total<const N: usize>(parts: [(usize, Money); N]) -> Money {
    let mut costs =
        parts.iter().map(|(tokens, rate)| rate.picodollars().checked_mul(*tokens as u128));
    let sum = costs.try_fold(0_u128, |sum, cost| sum.checked_add(cost?));
    sum.map_or(Money::MAX, |sum| Money::from_picodollars(sum.div_ceil(1_000_000)))
}

fn is_zero(money: &Money) -> bool {
    *money == Money::ZERO
}
