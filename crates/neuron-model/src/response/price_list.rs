//! The prices of model calls.

use std::sync::Arc;

use crate::{Money, TokenUsage, WasmCompatSend, WasmCompatSync};

/// The prices of model calls, for limits in money.
///
/// The crate `neuron-catalog` implements the trait with the public prices of the vendors. Implement it for prices of
/// your own contract.
///
/// `vendor` is a [`ProviderInfo::name`](crate::ProviderInfo::name), and `model` the name of the model in a request. For
/// the response of a [router](crate::ProviderInfo::routes), `model` is the name in the response.
///
/// The prices of a list should not change while a durable run is open. Otherwise a replay may refuse a call that the
/// first execution made.
///
/// # Example
///
/// ```
/// use neuron_model::{Money, PriceList, TokenUsage, UnknownPrice};
///
/// /// One cent for each thousand tokens.
/// struct Flat;
///
/// impl PriceList for Flat {
///     fn cost(&self, _: &str, _: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
///         let tokens = usage.total_tokens() as u128;
///         Ok(Money::from_picodollars(tokens * 10_000_000))
///     }
///
///     fn reserve(
///         &self,
///         vendor: &str,
///         model: &str,
///         input_tokens: usize,
///         output_tokens: usize,
///     ) -> Result<Money, UnknownPrice> {
///         let most = TokenUsage { input_tokens, output_tokens, ..Default::default() };
///         self.cost(vendor, model, &most)
///     }
/// }
///
/// let most = Flat.reserve("anthropic", "claude-sonnet-4-6", 20_000, 1_000)?;
/// assert_eq!(most.to_string(), "$0.21");
/// let usage = TokenUsage { input_tokens: 18_000, output_tokens: 500, ..Default::default() };
/// let cost = Flat.cost("anthropic", "claude-sonnet-4-6", &usage)?;
/// assert_eq!(cost.to_string(), "$0.185");
/// # Ok::<(), UnknownPrice>(())
/// ```
pub trait PriceList: WasmCompatSend + WasmCompatSync {
    /// Returns the cost of one call.
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if the list has no price for the model, or for another model in the usage's
    /// [`iterations`](TokenUsage::iterations).
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice>;

    /// Returns the highest cost of a call with at most this number of input and output tokens. [`cost`](Self::cost)
    /// must not exceed it for such a call, whatever number of the tokens is cached.
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if the list has no price for the model.
    fn reserve(
        &self,
        vendor: &str,
        model: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice>;
}

impl<P: PriceList + ?Sized> PriceList for Arc<P> {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        (**self).cost(vendor, model, usage)
    }

    fn reserve(
        &self,
        vendor: &str,
        model: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice> {
        (**self).reserve(vendor, model, input_tokens, output_tokens)
    }
}

/// The error of a [`PriceList`] without a price for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the price of the model {model:?} of {vendor:?} is unknown: add it to the price list, with \
     `Catalog::with_price({vendor:?}, {model:?}, ..)` if the list is a `neuron_catalog::Catalog`"
)]
#[non_exhaustive]
pub struct UnknownPrice {
    /// Name of the vendor.
    pub vendor: String,
    /// Name of the model.
    pub model: String,
}

impl UnknownPrice {
    /// Creates the error from the names of a vendor and a model.
    #[must_use]
    pub fn new(vendor: impl Into<String>, model: impl Into<String>) -> Self {
        Self { vendor: vendor.into(), model: model.into() }
    }
}
