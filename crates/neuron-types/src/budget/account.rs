//! The limits and the counters of one budget.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::BudgetSpending;
use crate::{
    Cost, ExceededLimit, LimitedResource, LoopError, Money, PriceList, TokenUsage, UnknownPrice,
    UsageLimits,
};

/// The limits and the counters of one budget.
pub(super) struct Account {
    pub(super) limits: UsageLimits,
    /// Set if the account counts money.
    pub(super) money: Option<MoneyTerms>,
    balance: Mutex<Balance>,
}

/// The prices of an [`Account`], and its limit.
#[derive(Clone)]
pub(super) struct MoneyTerms {
    pub(super) prices: Arc<dyn PriceList>,
    pub(super) limit: Option<Money>,
}

/// The names of a vendor and of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelName<'a> {
    pub(super) vendor: &'a str,
    pub(super) model: &'a str,
}

/// The counters of an [`Account`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Balance {
    /// The usage of completed calls.
    pub(super) used: Amount,
    /// The estimated usage of calls in progress.
    pub(super) reserved: Amount,
}

/// A quantity of each limited resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) input_tokens: usize,
    pub(super) output_tokens: usize,
    pub(super) requests: usize,
    pub(super) tool_calls: usize,
    pub(super) cost: Cost,
}

impl Account {
    pub(super) fn new(limits: UsageLimits, money: Option<MoneyTerms>) -> Arc<Self> {
        Arc::new(Self { limits, money, balance: Mutex::default() })
    }

    /// Returns `true` if the account has a limit in money.
    fn limits_money(&self) -> bool {
        self.money.as_ref().is_some_and(|terms| terms.limit.is_some())
    }

    /// Returns the highest cost of a reserved call of one of `names`, and the name with this cost. Zero if the account
    /// does not count money.
    ///
    /// The cost is incomplete if a price is unknown. This is an error only if it `must_be_known` and the account limits
    /// money.
    pub(super) fn highest_cost<'n>(
        &self,
        names: impl Iterator<Item = ModelName<'n>>,
        amount: Amount,
        must_be_known: bool,
    ) -> Result<(Cost, Option<ModelName<'n>>), UnknownPrice> {
        let Some(terms) = &self.money else {
            return Ok((Cost::default(), None));
        };
        let (mut highest, mut unknown) = (None, None);
        for name @ ModelName { vendor, model } in names {
            let Amount { input_tokens, output_tokens, .. } = amount;
            match terms.prices.reserve(vendor, model, input_tokens, output_tokens) {
                Ok(money) if highest.is_some_and(|(most, _)| most >= money) => {}
                Ok(money) => highest = Some((money, name)),
                Err(error) => unknown = unknown.or(Some(error)),
            }
        }
        let is_complete = highest.is_some() && unknown.is_none();
        if must_be_known && !is_complete && self.limits_money() {
            return Err(unknown.unwrap_or_else(|| UnknownPrice::new("", "")));
        }
        let amount = highest.map(|(money, _)| money).unwrap_or_default();
        Ok((Cost { amount, is_complete }, highest.map(|(_, name)| name)))
    }

    /// Returns the cost of a call with the price of the first of `names` that has one. Zero if the account does not
    /// count money.
    ///
    /// If no price is known, the cost is the amount of `reserved`, but incomplete. The second value is then the error of
    /// the first name, if the account limits money.
    pub(super) fn cost(
        &self,
        names: &[ModelName<'_>],
        usage: &TokenUsage,
        reserved: Cost,
    ) -> (Cost, Result<(), UnknownPrice>) {
        let Some(terms) = &self.money else {
            return (Cost::default(), Ok(()));
        };
        let mut unknown = None;
        for ModelName { vendor, model } in names {
            match terms.prices.cost(vendor, model, usage) {
                Ok(money) => return (money.into(), Ok(())),
                Err(error) => unknown = unknown.or(Some(error)),
            }
        }
        let error = unknown.unwrap_or_else(|| UnknownPrice::new("", ""));
        let cost = Cost { is_complete: false, ..reserved };
        if self.limits_money() {
            return (cost, Err(error));
        }
        tracing::warn!(%error, %reserved, "the cost of a call is unknown; the reserved amount counts");
        (cost, Ok(()))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Balance> {
        // Ignore poisoning, because no code panics while it holds the lock.
        self.balance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the limits and reserves the amount. One lock covers both steps, so concurrent reservations cannot exceed
    /// a limit together.
    pub(super) fn reserve(&self, amount: Amount) -> Result<(), LoopError> {
        let mut balance = self.lock();
        // FAULT a budget ignores what others have reserved: without `.plus(balance.reserved)`
        let taken = balance.used.plus(balance.reserved).plus(amount);
        // A reservation of tool calls has no tokens, so the reserved tokens of model calls must not block it.
        let tokens = if amount.requests == 0 { balance.used } else { taken };
        let limits = &self.limits;
        let checked = limits
            .check_requests(taken.requests)
            .and_then(|()| limits.check_tokens(&tokens.as_usage()))
            .and_then(|()| self.check_money(tokens.cost.amount))
            .and_then(|()| limits.check_tool_calls(taken.tool_calls));
        checked.map_err(|error| match error.exceeded_limit() {
            Some(limit) => ExceededLimit { is_of_budget: true, ..limit }.into(),
            None => error,
        })?;
        balance.reserved = balance.reserved.plus(amount);
        Ok(())
    }

    /// Returns `true` if one more request, token or picodollar is not allowed. Reservations do not count.
    pub(super) fn is_exhausted(&self) -> bool {
        let used = self.lock().used;
        let next = |count: usize| count.saturating_add(1);
        let tokens = |input_tokens, output_tokens| TokenUsage {
            input_tokens,
            output_tokens,
            ..TokenUsage::default()
        };
        let (input, output) = (used.input_tokens, used.output_tokens);
        let limit = self.money.as_ref().and_then(|terms| terms.limit);
        self.limits.check_requests(next(used.requests)).is_err()
            || self.limits.check_tokens(&tokens(next(input), output)).is_err()
            || self.limits.check_tokens(&tokens(input, next(output))).is_err()
            || limit.is_some_and(|limit| used.cost.amount >= limit)
    }

    fn check_money(&self, money: Money) -> Result<(), LoopError> {
        match self.money.as_ref().and_then(|terms| terms.limit) {
            Some(limit) if money > limit => {
                Err(ExceededLimit::from(LimitedResource::Money { used: money, limit }).into())
            }
            _ => Ok(()),
        }
    }

    /// Adds what was counted elsewhere. An account with prices takes over its cost.
    pub(super) fn add(&self, spending: &BudgetSpending) {
        let BudgetSpending { usage, requests, tool_calls } = spending;
        let (requests, tool_calls) = (*requests, *tool_calls);
        let cost = match &self.money {
            Some(_) => usage.cost.unwrap_or(Cost::UNKNOWN),
            None => Cost::default(),
        };
        let spent = Amount { requests, tool_calls, cost, ..Amount::of(usage) };
        self.exchange(Amount::default(), spent);
    }

    /// Subtracts `reserved` from the reservations and adds `spent` to the usage.
    pub(super) fn exchange(&self, reserved: Amount, spent: Amount) {
        let mut balance = self.lock();
        // FAULT what is reserved of a budget is never given back: without the line
        balance.reserved = balance.reserved.minus(reserved);
        // FAULT what is used is not counted in a budget: without the line
        balance.used = balance.used.plus(spent);
    }
}

impl Amount {
    pub(super) fn of(usage: &TokenUsage) -> Self {
        let (input_tokens, output_tokens) = (usage.input_tokens, usage.output_tokens);
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    pub(super) fn as_usage(self) -> TokenUsage {
        let Self { input_tokens, output_tokens, .. } = self;
        TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, usize::saturating_add, Money::saturating_add)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, usize::saturating_sub, Money::saturating_sub)
    }

    /// Combines each counter of `self` with the counter of the same resource in `other`. `count` and `money` compute
    /// the new counters.
    pub(super) fn with(
        self,
        other: Self,
        count: fn(usize, usize) -> usize,
        money: fn(Money, Money) -> Money,
    ) -> Self {
        Self {
            input_tokens: count(self.input_tokens, other.input_tokens),
            output_tokens: count(self.output_tokens, other.output_tokens),
            requests: count(self.requests, other.requests),
            tool_calls: count(self.tool_calls, other.tool_calls),
            cost: Cost {
                amount: money(self.cost.amount, other.cost.amount),
                is_complete: self.cost.is_complete && other.cost.is_complete,
            },
        }
    }
}
