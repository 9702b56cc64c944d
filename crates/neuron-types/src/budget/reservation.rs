//! Reservations in a budget for model calls and tool calls.

use super::Budget;
use super::account::{Account, Amount, ModelName};
use crate::{CompletionResponse, Cost, Money, TokenUsage, UnknownPrice};

/// A reservation in a [`Budget`] for a model call or for tool calls.
///
/// A reservation that is dropped before [`start`](Self::start) is released. If it is dropped after `start`, the whole
/// reserved amount counts as used, because the actual usage is unknown.
#[derive(Debug)]
#[must_use = "what is reserved is given back when this is dropped"]
pub struct Reservation {
    pub(super) budget: Budget,
    /// Number of elements of the budget's `accounts` in which the amount is reserved, counted from the first element.
    pub(super) accounts: usize,
    /// The reserved amount that was not yet used, without its cost.
    pub(super) amount: Amount,
    /// The reserved cost of each account. Empty if no account counts money.
    pub(super) costs: Vec<Cost>,
    /// The model, if an account needs it for the cost.
    pub(super) model: Option<ReservedModel>,
    /// Set if the call was [started](Self::start), so that dropping the reservation counts its amount as used.
    pub(super) is_started: bool,
}

impl Reservation {
    /// Marks the call as started. From now on the call may use tokens, even if it fails.
    pub fn start(&mut self) {
        self.is_started = true;
    }

    /// Returns the reserved cost, which also counts if the reservation is dropped after [`start`](Self::start). `None` if
    /// the budget has no prices.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let (index, _) = self.budget.priced_account()?;
        Some(self.amount_at(index).cost)
    }

    /// Replaces the reserved estimate of a completed model call with its actual usage. Returns the cost of the call, or
    /// `None` if the budget has no prices.
    ///
    /// If the cost of the usage is unknown, the reserved money counts, and a warning is logged. This happens if
    /// [`iterations`](TokenUsage::iterations) names a model without a price.
    pub fn settle(self, usage: &TokenUsage) -> Option<Cost> {
        self.count_reserved(usage, |used, _| used)
    }

    /// Replaces the reserved estimate with the actual usage of a response. `usage` is usually the response's own. Returns
    /// the cost of the call, or `None` if the budget has no prices.
    ///
    /// The cost is computed with the price of the reserved model. If the provider
    /// [chooses the model](crate::ProviderInfo::routes), or if the response has a
    /// [route](crate::AnswerMetadata::route), the cost is computed with the price of the route's provider and the
    /// response's model instead. If this price is unknown or the response names no model, the price of the model that the
    /// route requested is used.
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if a budget limits money and has no price for the model. The tokens and the
    /// [reserved cost](Self::cost) count in this budget, and its cost is incomplete. The returned cost is the cost that
    /// the first budget with prices counts, also beside an error.
    pub fn settle_response(
        mut self,
        response: &CompletionResponse,
        usage: &TokenUsage,
    ) -> (Option<Cost>, Result<(), UnknownPrice>) {
        let Some(reserved) = self.model.take() else {
            return self.count(&[], usage, |used, _| used);
        };
        let route = response.message.metadata().and_then(|metadata| metadata.route);
        let vendor = route.as_ref().map_or(&*reserved.vendor, |route| &*route.provider);
        let requested = route.as_ref().map(|route| &*route.model).filter(|name| !name.is_empty());
        let model = match (&*response.model, requested) {
            // A router may have several models of the reserved vendor.
            ("", Some(requested)) => requested,
            ("", None) if vendor == reserved.vendor => &reserved.model,
            _ if route.is_none() && !reserved.is_routed => &reserved.model,
            (answered, _) => answered,
        };
        let names = [Some(model), requested];
        let names = names.into_iter().flatten().map(|model| ModelName { vendor, model });
        self.count(&names.collect::<Vec<_>>(), usage, |used, _| used)
    }

    /// Ends the reservation of a model call that broke off. Each counter of the budget grows by the estimate or by
    /// `usage`, whichever is larger. Returns the cost of the call, or `None` if the budget has no prices.
    pub fn settle_at_least(self, usage: &TokenUsage) -> Option<Cost> {
        // FAULT a call that broke costs only what was reported: `usize::max, Money::max` -> `|used, _| used, |used, _|
        //     used` (cost::failed_calls_cost_the_same_as_in_the_budget)
        self.count_reserved(usage, |used, reserved| used.with(reserved, usize::max, Money::max))
    }

    /// Releases the reserved tokens of a model call that the provider refused. The request still counts as used if the
    /// call was [started](Self::start).
    pub fn release(mut self) {
        let is_started = self.is_started;
        self.close(|_, reserved| {
            let requests = if is_started { reserved.requests } else { 0 };
            Amount { requests, ..Amount::default() }
        });
    }

    /// Counts one of the reserved tool calls as used. Does nothing if no reserved call is left.
    pub fn spend_tool_call(&mut self) {
        let one = Amount { tool_calls: 1, ..Amount::default() };
        if self.amount.tool_calls > 0 {
            self.amount = self.amount.minus(one);
            let accounts = self.budget.accounts.iter().take(self.accounts);
            accounts.for_each(|account| account.exchange(one, one));
        }
    }

    /// Creates a reservation of an amount that is not reserved in any account yet.
    pub(super) fn new(budget: Budget, amount: Amount) -> Self {
        Self { budget, accounts: 0, amount, costs: Vec::new(), model: None, is_started: false }
    }

    /// Returns the amount that is reserved in an account, by its index.
    pub(super) fn amount_at(&self, account: usize) -> Amount {
        Amount { cost: self.costs.get(account).copied().unwrap_or_default(), ..self.amount }
    }

    /// [Counts](Self::count) a usage with the price of the reserved model. Logs a warning if this price is unknown.
    fn count_reserved(
        mut self,
        usage: &TokenUsage,
        spent: fn(Amount, Amount) -> Amount,
    ) -> Option<Cost> {
        let model = self.model.take();
        let name = model.as_ref().map(|it| ModelName { vendor: &it.vendor, model: &it.model });
        let (cost, known) = self.count(name.as_slice(), usage, spent);
        if let Err(error) = known {
            tracing::warn!(%error, "the cost of a call is unknown; the reserved amount counts");
        }
        cost
    }

    /// Ends the reservation and counts a usage, with the price of the first of `names` that has one. `spent` receives
    /// the actual and the reserved amount, and returns the amount to count. Returns the counted cost, or `None` if the
    /// budget has no prices.
    pub(super) fn count(
        mut self,
        names: &[ModelName<'_>],
        usage: &TokenUsage,
        spent: fn(Amount, Amount) -> Amount,
    ) -> (Option<Cost>, Result<(), UnknownPrice>) {
        let (mut counted, mut known) = (None, Ok(()));
        self.close(|account, reserved| {
            let (cost, priced) = account.cost(names, usage, reserved.cost);
            // The first account comes last, and gives the cost and the error.
            if priced.is_err() {
                known = priced;
            }
            let used = Amount { requests: reserved.requests, cost, ..Amount::of(usage) };
            let spent = spent(used, reserved);
            if account.money.is_some() {
                counted = Some(spent.cost);
            }
            spent
        });
        (counted, known)
    }

    /// Releases the reservation and counts the result of `spent` as used, which may exceed the reservation. `spent`
    /// receives each account with its reserved amount, and the last account first.
    fn close(&mut self, mut spent: impl FnMut(&Account, Amount) -> Amount) {
        // If a price list of the caller panics, `drop` closes the accounts that are left.
        while let Some(index) = self.accounts.checked_sub(1) {
            let Some(account) = self.budget.accounts.get(index) else { return };
            let reserved = self.amount_at(index);
            account.exchange(reserved, spent(account, reserved));
            self.accounts = index;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let is_started = self.is_started;
        // FAULT a call that was dropped before it started costs its reservation: `if is_started` -> `if true`
        self.close(|_, reserved| if is_started { reserved } else { Amount::default() });
    }
}

/// The model of a [`Reservation`].
#[derive(Debug)]
pub(super) struct ReservedModel {
    pub(super) vendor: String,
    pub(super) model: String,
    /// Set if the provider may choose another model.
    pub(super) is_routed: bool,
}
