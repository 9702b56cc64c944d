//! The catalogue: the bundled models, and models and prices of the application.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use chrono::{NaiveDate, Utc};
use neuron_model::{Money, PriceList, TokenUsage, UnknownPrice};

use crate::bundle::BUNDLE;
use crate::{CallUsage, Model, Price, names};

/// The models of the vendors, with their limits and prices.
///
/// The vendors have the names of [`ProviderInfo::name`](neuron_model::ProviderInfo::name), for example `anthropic`,
/// `openai`, `google`, `bedrock`, `azure`, `groq`, `mistral`, `xai`, `openrouter` and `ollama`. Other names of a vendor are
/// recognised too, for example `aws.bedrock` and `gemini`.
///
/// A model is found by the names that a request may contain: with the date of a snapshot, with a region and a version
/// (Bedrock), or with the vendor before it. A name that differs in another way is unknown.
///
/// Some prices start on a date. A catalogue has the prices of the day on which it is created, or of the day of
/// [`on`](Self::on). A program that runs for weeks should create it again from time to time.
///
/// # Durable runs
///
/// A replay of a durable run must use the same prices as the first execution. Otherwise a budget may refuse a call that
/// the first execution made, and the replay ends differently. Create the catalogue of a durable run with
/// [`on`](Self::on) and the day on which the run started.
///
/// A new version of this crate may have other prices for the same day. Let the open runs end before such an update, or
/// set the prices of their models with [`with_price`](Self::with_price).
///
/// Cloning copies only the models and prices that were added.
///
/// # Example
///
/// ```
/// use neuron_catalog::Catalog;
/// use neuron_types::{Budget, Money};
///
/// let budget = Budget::in_money(Money::from_dollars(5), Catalog::bundled());
/// let refused = budget.reserve_call("anthropic", "claude-next", 1_000, 1_000).unwrap_err();
/// assert!(refused.to_string().contains("Catalog::with_price(\"anthropic\", \"claude-next\", ..)"));
/// ```
#[derive(Clone)]
pub struct Catalog {
    day: NaiveDate,
    has_bundle: bool,
    /// Set if cache writes have the price of one hour.
    one_hour_cache: bool,
    /// Added models by vendor and lower-case name.
    own: BTreeMap<String, BTreeMap<String, Model>>,
}

impl Catalog {
    /// Creates a catalogue with the bundled models, and the prices of today.
    ///
    /// The first call reads the data, which takes some milliseconds.
    #[must_use]
    pub fn bundled() -> Self {
        Self { has_bundle: true, ..Self::empty() }
    }

    /// Creates a catalogue without models, for prices of your own alone. [Local models](Self::price) of Ollama are free.
    #[must_use]
    pub fn empty() -> Self {
        let day = Utc::now().date_naive();
        Self { day, has_bundle: false, one_hour_cache: false, own: BTreeMap::new() }
    }

    /// Sets the day of the prices. Prices that ended before the date of the bundled data are not known.
    ///
    /// For a [durable run](Self#durable-runs), this is the day on which the run started.
    #[must_use]
    pub fn on(self, day: NaiveDate) -> Self {
        Self { day, ..self }
    }

    /// Uses the price of one hour for all tokens that are written to a cache. Enable it if your requests set
    /// [`CacheTtl::OneHour`](neuron_model::CacheTtl), because a [`TokenUsage`] does not report how long a cache stores
    /// them. Default: the price of the shortest time.
    #[must_use]
    pub fn with_one_hour_cache(self) -> Self {
        Self { one_hour_cache: true, ..self }
    }

    /// Adds a model, or replaces a model that has one of its names.
    #[must_use]
    pub fn with_model(mut self, vendor: &str, model: Model) -> Self {
        let models = self.own.entry(names::vendor(vendor)).or_default();
        let keys: Vec<String> =
            model.names().map(|name| name.trim().to_ascii_lowercase()).collect();
        for key in keys {
            models.insert(key, model.clone());
        }
        self
    }

    /// Sets the price of a model. Its limits stay as they are. Adds the model if it is unknown.
    ///
    /// The price applies to all names that the catalogue lists for the model. The price of a name without a date also
    /// applies to snapshots that the catalogue does not list. A snapshot that the catalogue lists as a model of its own
    /// keeps its price, for example `gpt-4o-2024-05-13`. The price of a snapshot that is not listed applies to this
    /// snapshot only.
    #[must_use]
    pub fn with_price(self, vendor: &str, model: &str, price: impl Into<Price>) -> Self {
        let known = self.model(vendor, model).cloned();
        let is_name_of =
            |known: &Model| known.names().any(|name| name.eq_ignore_ascii_case(model.trim()));
        let model = match known {
            Some(known) if is_name_of(&known) => known,
            Some(known) => Model { id: model.to_owned(), aliases: Vec::new(), ..known },
            None => Model::new(model),
        };
        self.with_model(vendor, Model { prices: vec![price.into()], ..model })
    }

    /// Returns a model. Returns `None` if the catalogue does not have the model.
    #[must_use]
    pub fn model(&self, vendor: &str, model: &str) -> Option<&Model> {
        let vendor = names::vendor(vendor);
        self.find(&vendor, model)
            .or_else(|| names::vendors(&vendor).iter().find_map(|other| self.find(other, model)))
    }

    /// Finds a model in the list of one vendor.
    fn find(&self, vendor: &str, model: &str) -> Option<&Model> {
        let own = self.own.get(vendor);
        let bundled = self.has_bundle.then(|| BUNDLE.get(vendor)).flatten();
        if own.is_none() && bundled.is_none() {
            return None;
        }
        names::forms(vendor, model).iter().find_map(|form| {
            let added = own.and_then(|models| models.get(form));
            added.or_else(|| bundled.and_then(|models| models.get(form)))
        })
    }

    /// Returns all models of a vendor. Models that were added come first.
    pub fn models(&self, vendor: &str) -> impl Iterator<Item = &Model> {
        let vendor = names::vendor(vendor);
        let own = self.own.get(&vendor).into_iter().flatten();
        // A model with several names is stored under each of them.
        let own = own.filter(|(key, model)| key.eq_ignore_ascii_case(model.id.trim()));
        let replaced: HashSet<&str> = self
            .own
            .get(&vendor)
            .into_iter()
            .flat_map(BTreeMap::keys)
            .map(String::as_str)
            .collect();
        let bundled = self.has_bundle.then(|| BUNDLE.get(&vendor)).flatten();
        let bundled = bundled.into_iter().flat_map(|models| models.iter());
        let bundled =
            bundled.filter(move |model| !replaced.contains(&*model.id.to_ascii_lowercase()));
        own.map(|(_, model)| model).chain(bundled)
    }

    /// Returns the price of a model on the catalogue's day.
    ///
    /// The price of a model of the vendor `ollama` is zero, because it runs on your own machines. Models in Ollama's cloud
    /// have no price, so that they are not free by accident. These are the models whose name ends with `cloud`, and the
    /// models of the vendor `ollama-cloud`, which is the name of a client of `https://ollama.com`. If a client reaches the
    /// cloud through a proxy of your own, set the prices with [`with_price`](Self::with_price).
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if the catalogue has no price for the model.
    pub fn price(&self, vendor: &str, model: &str) -> Result<&Price, UnknownPrice> {
        static FREE: Price = Price::FREE;
        let found = self.model(vendor, model).and_then(|model| model.price_on(self.day));
        // The cloud's models have names such as `gpt-oss:120b-cloud`.
        let is_cloud = model.trim().to_ascii_lowercase().ends_with("cloud");
        let is_local = names::vendor(vendor) == "ollama" && !is_cloud;
        found.or_else(|| is_local.then_some(&FREE)).ok_or_else(|| UnknownPrice::new(vendor, model))
    }

    /// Returns the cost of one call.
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if the catalogue has no price for the model, or for another model in the usage's
    /// [`iterations`](TokenUsage::iterations).
    pub fn cost(
        &self,
        vendor: &str,
        model: &str,
        usage: &TokenUsage,
    ) -> Result<Money, UnknownPrice> {
        let price = self.price(vendor, model)?;
        let mut rest = CallUsage::from(usage);
        let mut cost = price.fees(&rest);
        for pass in usage.iterations.iter().flatten() {
            let tokens = CallUsage::from(pass);
            let other = pass.model.as_deref().map(|model| self.price(vendor, model)).transpose()?;
            let price = other.unwrap_or(price);
            cost = cost.saturating_add(price.cost_of_tokens(&self.with_cache_time(tokens)));
            rest = rest.without(&tokens);
        }
        Ok(cost.saturating_add(price.cost_of_tokens(&self.with_cache_time(rest))))
    }

    /// Returns the highest cost of a call with at most this number of input and output tokens, for a reservation
    /// before the call.
    ///
    /// Use an estimate of the prompt as `input_tokens`, and the request's `max_tokens` or [`Model::max_output`] as
    /// `output_tokens`. Any part of the prompt may be written to a cache. Audio is not included. For audio, use
    /// [`Price::highest_cost`].
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if the catalogue has no price for the model.
    pub fn reserve(
        &self,
        vendor: &str,
        model: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice> {
        let cache_write_tokens = input_tokens;
        let most =
            CallUsage { input_tokens, output_tokens, cache_write_tokens, ..CallUsage::default() };
        Ok(self.price(vendor, model)?.highest_cost(&self.with_cache_time(most)))
    }

    /// Counts all cache writes as writes for one hour, if this is set.
    fn with_cache_time(&self, usage: CallUsage) -> CallUsage {
        match self.one_hour_cache {
            true => CallUsage { one_hour_cache_write_tokens: usage.cache_write_tokens, ..usage },
            false => usage,
        }
    }
}

impl PriceList for Catalog {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        Self::cost(self, vendor, model, usage)
    }

    fn reserve(
        &self,
        vendor: &str,
        model: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice> {
        Self::reserve(self, vendor, model, input_tokens, output_tokens)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("day", &self.day)
            .field("has_bundle", &self.has_bundle)
            .field("one_hour_cache", &self.one_hour_cache)
            .field("own", &self.own)
            .finish()
    }
}
