//! A model of the catalogue.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::Price;

/// A model: its limits and its prices.
///
/// # Example
///
/// ```
/// use neuron_catalog::{Catalog, InputKind, Model, Rates};
/// use neuron_model::Money;
///
/// let rates = Rates::per_million(Money::from_dollars(1), Money::from_dollars(4));
/// let mut model = Model::new("acme-large").with_price(rates);
/// model.context_window = Some(128_000);
/// model.max_output = Some(8_192);
/// model.input = vec![InputKind::Text, InputKind::Image];
/// let catalog = Catalog::bundled().with_model("acme", model);
/// let known = catalog.model("acme", "acme-large").expect("it was added");
/// assert_eq!(known.max_output, Some(8_192));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Model {
    /// Name of the model in requests.
    pub id: String,
    /// Other names of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Maximum number of tokens of a conversation. `None` if unknown.
    ///
    /// Most vendors count the response too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<usize>,
    /// Maximum number of tokens of a response. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<usize>,
    /// Kinds of content that the model accepts. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<InputKind>,
    /// Prices, from the first to the last day on which they start. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<Price>,
}

/// A kind of content that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputKind {
    /// Text.
    Text,
    /// Images.
    Image,
    /// PDF documents.
    Pdf,
    /// Audio.
    Audio,
    /// Video.
    Video,
}

impl Model {
    /// Creates a model without limits and prices.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            aliases: Vec::new(),
            context_window: None,
            max_output: None,
            input: Vec::new(),
            prices: Vec::new(),
        }
    }

    /// Adds a price. For a price that replaces another one on a day, set [`Price::starting`].
    #[must_use]
    pub fn with_price(mut self, price: impl Into<Price>) -> Self {
        self.prices.push(price.into());
        self.prices.sort_by_key(|price| price.from);
        self
    }

    /// Returns the price of a day. Returns `None` if no price is known, or if the first price starts later.
    #[must_use]
    pub fn price_on(&self, day: NaiveDate) -> Option<&Price> {
        self.prices.iter().rev().find(|price| price.from.is_none_or(|start| start <= day))
    }

    /// Returns all names of the model.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.id.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}
