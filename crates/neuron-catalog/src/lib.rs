//! A catalogue of models: context windows, limits, prices, and the exact cost of a call.
//!
//! ```
//! use neuron_catalog::Catalog;
//! use neuron_model::TokenUsage;
//!
//! # fn main() -> Result<(), neuron_model::UnknownPrice> {
//! let catalog = Catalog::bundled();
//! let usage = TokenUsage { input_tokens: 12_000, output_tokens: 800, ..Default::default() };
//! let cost = catalog.cost("anthropic", "claude-sonnet-4-6", &usage)?;
//! assert_eq!(cost.to_string(), "$0.048");
//!
//! let model = catalog.model("anthropic", "claude-sonnet-4-6").expect("it is in the catalogue");
//! assert_eq!(model.context_window, Some(1_000_000));
//! # Ok(())
//! # }
//! ```
//!
//! # Prices of your own
//!
//! The vendors change their prices, and your contract may differ. Replace a price, or add a model:
//!
//! ```
//! use neuron_catalog::{Catalog, Rates};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rates = Rates::per_million("0.80".parse()?, "4".parse()?).with_cache_read("0.08".parse()?);
//! let catalog = Catalog::bundled().with_price("acme", "acme-large", rates);
//! assert_eq!(catalog.reserve("acme", "acme-large", 100_000, 4_000)?.to_string(), "$0.096");
//! # Ok(())
//! # }
//! ```
//!
//! A model without a known price is an [`UnknownPrice`] error, never a price of zero. Only
//! the [local models](Catalog::price) of Ollama are free, because they run on your own machine.
//!
//! # Limits in money
//!
//! [`Catalog`] is a [`PriceList`], so `Budget::in_money` of `neuron-types` accepts it.
//!
//! # What a cost contains
//!
//! - Tokens of input and output, tokens that a cache stored or returned, and reasoning, each at its own rate.
//! - Higher rates for long prompts, if the vendor has them. The rates of the whole call then depend on its input tokens.
//! - A fee for each call, if the vendor has one.
//! - The passes of one call ([`TokenUsage::iterations`](neuron_model::TokenUsage::iterations)), each with the price of its
//!   model.
//!
//! A [`TokenUsage`](neuron_model::TokenUsage) does not report audio tokens, searches, and how long a cache stores its
//! tokens. With [`CallUsage`] you can add these numbers. Storage of caches and of files, code execution, discounts for
//! batches, and the prices of other service tiers are not included.
//!
//! Compute the cost of each call, and add the costs. The cost of a sum of usages is different if the rates depend on the
//! length of a prompt.
//!
//! # Data
//!
//! The data is part of the crate and needs no network. `data/models.json` names its sources, its date and their versions.
//! Output limits and kinds of input are known for about half of the models. If the price of a model depends on the time of
//! the day, the catalogue has the highest price. Models whose price depends on the number of images or videos are left
//! out, because a usage does not report this number.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bundle;
mod call_usage;
mod catalog;
mod model;
mod names;
mod price;

pub use call_usage::CallUsage;
pub use catalog::Catalog;
pub use model::{InputKind, Model};
pub use price::{Price, Rates, Tier};

pub use neuron_model::{Money, ParseMoneyError, PriceList, UnknownPrice};
