//! A budget of tokens, calls and money that several agents share, and reservations in it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{LoopError, Money, PriceList, TokenUsage, UnknownPrice, UsageLimits};

/// Usage limits that several agents share. Clones are cheap and share the counters.
///
/// Pass the budget to an agent or to a run, or insert it into
/// [`ToolContext::extensions`](crate::ToolContext::extensions). A run inserts its budget into the extensions of its
/// tool calls, so that an agent inside a tool call uses the same budget. If a run has a budget of its own and finds
/// another budget in its extensions, both budgets apply.
///
/// A model call is made only if one request and an estimate of its tokens fit into the budget. The estimate is reserved
/// during the call and then replaced with the actual usage. Concurrent agents can thus exceed the budget only if the
/// estimates of their calls were too low. If a call does not fit, the agent's run ends immediately with
/// [`LoopError::UsageLimitExceeded`]. It does not wait until other agents release reservations.
///
/// The error text of a refused model call compares a sum with the limit, for example `budget: total token limit
/// exceeded: 14003 > 10000`. The sum consists of the usage so far, the reservations of calls in progress, and the
/// estimate of the refused call. It is therefore larger than the actual [`usage`](Self::usage).
///
/// - The prompt is estimated by the agent's context strategy, and the estimate is corrected with the usage that the
///   provider reported. If the strategy does not [count tokens](crate::ContextStrategy::counts_tokens), the estimate is
///   only based on the reported usage.
/// - The response is estimated as the average length of the run's earlier responses. For the first response, the
///   estimate is `max_tokens` or 1,000 tokens, whichever is less.
/// - A call that the provider refused counts as a request without tokens.
/// - The usage of a cancelled, dropped or broken call is unknown. It counts with its estimate, or with the usage that
///   the provider reported for it, whichever is larger.
/// - A tool call counts when it starts. All calls of a response are reserved together before any of them starts.
/// - The usage of a compaction counts when the compaction is complete.
///
/// # Money
///
/// A budget [`in_money`](Self::in_money) has a limit in dollars and a list of prices. The cost of a call is reserved and
/// replaced in the same way as its tokens. A model without a known price is not called, and the run ends with
/// [`LoopError::UnknownPrice`]. The cost of a compaction is computed with the price of the run's model, because the
/// model of a context strategy is not known.
///
/// [`part`](Self::part) and [`together_with`](Self::together_with) combine limits in money with other limits. A
/// part of a budget with prices counts its own cost. A part for a single run thus reports the cost of this run.
///
/// # Processes and replays
///
/// A budget exists only in its process. A durable engine does not transfer it to tools that run in another process.
///
/// If concurrent agents share a budget, the timing decides which call is refused. A replay by a durable engine may then
/// differ from the first execution. Therefore give each run of a durable engine its own budget.
///
/// # Example
///
/// ```
/// use neuron_types::{Budget, TokenUsage, ToolContext, UsageLimits};
///
/// let limits = UsageLimits::default().with_total_tokens_limit(10_000);
/// let budget = Budget::new(limits);
/// let mut ctx = ToolContext::default();
/// ctx.extensions.insert(budget.clone());
/// // All agents that run with this context share the budget. Code outside of agents can use it too:
/// let mut reservation = budget.reserve(6_000, 500)?;
/// assert!(budget.reserve(6_000, 500).is_err(), "no room for another");
/// reservation.start();
/// reservation.settle(&TokenUsage { input_tokens: 5_000, output_tokens: 100, ..Default::default() });
/// assert_eq!((budget.usage().total_tokens(), budget.requests()), (5_100, 1));
/// # Ok::<(), neuron_types::LoopError>(())
/// ```
#[derive(Clone)]
pub struct Budget {
    /// The account of this budget, followed by the accounts of its parents. No account occurs twice.
    accounts: Arc<[Arc<Account>]>,
}

/// The limits and the counters of one budget.
struct Account {
    limits: UsageLimits,
    /// Set if the account counts money.
    money: Option<MoneyTerms>,
    balance: Mutex<Balance>,
}

/// The prices of an [`Account`], and its limit.
#[derive(Clone)]
struct MoneyTerms {
    prices: Arc<dyn PriceList>,
    limit: Option<Money>,
}

/// The names of a vendor and of a model.
#[derive(Debug, Clone, Copy)]
struct ModelName<'a> {
    vendor: &'a str,
    model: &'a str,
}

/// The counters of an [`Account`].
#[derive(Debug, Clone, Copy, Default)]
struct Balance {
    /// The usage of completed calls.
    used: Amount,
    /// The estimated usage of calls in progress.
    reserved: Amount,
}

/// A quantity of each limited resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    input_tokens: usize,
    output_tokens: usize,
    requests: usize,
    tool_calls: usize,
    money: Money,
}

impl Budget {
    /// Creates a budget with limits and without a parent budget.
    #[must_use]
    pub fn new(limits: UsageLimits) -> Self {
        Self { accounts: Arc::new([Account::new(limits, None)]) }
    }

    /// Creates a budget with a limit in money, and without other limits or a parent budget.
    ///
    /// The prices apply to this budget and its [parts](Self::part).
    #[must_use]
    pub fn in_money(limit: Money, prices: impl PriceList + 'static) -> Self {
        let money = MoneyTerms { prices: Arc::new(prices), limit: Some(limit) };
        Self { accounts: Arc::new([Account::new(UsageLimits::default(), Some(money))]) }
    }

    /// Creates a sub-budget with its own limits. Usage of the sub-budget also counts for this budget.
    #[must_use]
    pub fn part(&self, limits: UsageLimits) -> Self {
        // The own account must be first, because the getters report the first account.
        let whole = self.accounts.iter().cloned();
        let terms = self.with_prices().and_then(|account| account.money.clone());
        let own = Account::new(limits, terms.map(|terms| MoneyTerms { limit: None, ..terms }));
        Self { accounts: std::iter::once(own).chain(whole).collect() }
    }

    /// Combines two budgets. Usage of the combination counts for both budgets.
    #[must_use]
    pub fn together_with(&self, other: &Self) -> Self {
        let is_new = |account: &&Arc<Account>| {
            !self.accounts.iter().any(|known| Arc::ptr_eq(known, account))
        };
        // The budgets may have a common parent, which must be charged only once.
        let others = other.accounts.iter().filter(is_new);
        Self { accounts: self.accounts.iter().chain(others).cloned().collect() }
    }

    /// Returns the limits of this budget, without the limits of its parents.
    #[must_use]
    pub fn limits(&self) -> UsageLimits {
        self.accounts.first().map(|account| account.limits.clone()).unwrap_or_default()
    }

    /// Returns the used input and output tokens, without reservations.
    #[must_use]
    pub fn usage(&self) -> TokenUsage {
        self.balance().used.as_usage()
    }

    /// Returns the number of model calls that were made, without calls in progress.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.balance().used.requests
    }

    /// Returns the number of tool calls that were started.
    #[must_use]
    pub fn tool_calls(&self) -> usize {
        self.balance().used.tool_calls
    }

    /// Returns the tokens reserved for calls in progress.
    #[must_use]
    pub fn reserved_tokens(&self) -> usize {
        self.balance().reserved.as_usage().total_tokens()
    }

    /// Returns the cost of the calls that were made, without calls in progress. Zero if the budget has no prices.
    ///
    /// If the first of two combined budgets has no prices, this is the cost that the second budget counted.
    #[must_use]
    pub fn spent(&self) -> Money {
        self.with_prices().map(|account| account.lock().used.money).unwrap_or_default()
    }

    /// Returns the money reserved for calls in progress. Zero if the budget has no prices.
    #[must_use]
    pub fn reserved_money(&self) -> Money {
        self.with_prices().map(|account| account.lock().reserved.money).unwrap_or_default()
    }

    /// Returns the limit in money. `None` if there is no limit.
    ///
    /// For a [part](Self::part) of a budget, this is the limit of the whole budget.
    #[must_use]
    pub fn money_limit(&self) -> Option<Money> {
        self.accounts.iter().find_map(|account| account.money.as_ref()?.limit)
    }

    /// Reserves one call of a named model with an estimate of its tokens, and the money for these tokens.
    ///
    /// `vendor` is a [`ProviderInfo::name`](crate::ProviderInfo::name).
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the call does not fit into the budget or into a budget of which it is a
    /// [part](Self::part). [`LoopError::UnknownPrice`] if the budget has no price for the model. Nothing is reserved in
    /// these cases.
    pub fn reserve_call(
        &self,
        vendor: &str,
        model: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        let amount = Amount { input_tokens, output_tokens, requests: 1, ..Amount::default() };
        self.take(amount, Some(ModelName { vendor, model }))
    }

    /// Reserves one model call with an estimate of its tokens. For a budget with a limit in money, use
    /// [`reserve_call`](Self::reserve_call).
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the call does not fit into the budget or into a budget of which it is a
    /// [part](Self::part). [`LoopError::UnknownPrice`] if the budget has prices. Nothing is reserved in these cases.
    pub fn reserve(
        &self,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        let requests = 1;
        self.take(Amount { input_tokens, output_tokens, requests, ..Amount::default() }, None)
    }

    /// Reserves this number of tool calls.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the calls do not fit into the budget or into a budget of which it is a
    /// [part](Self::part). Nothing is reserved in this case.
    pub fn reserve_tool_calls(&self, tool_calls: usize) -> Result<Reservation, LoopError> {
        self.take(Amount { tool_calls, ..Amount::default() }, None)
    }

    /// Adds tokens that were used without a reservation. This may exceed the limits. For a budget with prices, use
    /// [`charge_call`](Self::charge_call). This method cannot compute a cost, and logs a warning instead.
    pub fn charge(&self, usage: &TokenUsage) {
        self.add(None, usage);
    }

    /// Adds the tokens of a named model, and their cost, that were used without a reservation, for example by a
    /// compaction. This may exceed the limits.
    ///
    /// If the price is unknown, only the tokens count, and a warning is logged.
    pub fn charge_call(&self, vendor: &str, model: &str, usage: &TokenUsage) {
        self.add(Some(ModelName { vendor, model }), usage);
    }

    fn add(&self, name: Option<ModelName<'_>>, usage: &TokenUsage) {
        for account in self.accounts.iter() {
            let money = account.cost_or(name, usage, Money::ZERO);
            account.exchange(Amount::default(), Amount { money, ..Amount::of(usage) });
        }
    }

    /// Reserves an amount in this budget and in its parents. On an error, nothing is reserved.
    fn take(&self, amount: Amount, name: Option<ModelName<'_>>) -> Result<Reservation, LoopError> {
        // The names are needed only for the cost.
        let priced = name.filter(|_| self.with_prices().is_some());
        let mut reservation = Reservation {
            budget: self.clone(),
            reserved: Vec::with_capacity(self.accounts.len()),
            model: priced.map(|name| (name.vendor.to_owned(), name.model.to_owned())),
            is_started: false,
        };
        // On an error, dropping `reservation` releases the accounts in which the amount was already reserved.
        for account in self.accounts.iter() {
            let amount = Amount { money: account.highest_cost(name, amount)?, ..amount };
            account.reserve(amount)?;
            reservation.reserved.push(amount);
        }
        Ok(reservation)
    }

    /// Returns the first account that counts money.
    fn with_prices(&self) -> Option<&Account> {
        self.accounts.iter().map(|account| &**account).find(|account| account.money.is_some())
    }

    /// Returns the counters of this budget, but not the counters of a parent.
    fn balance(&self) -> Balance {
        self.accounts.first().map(|account| *account.lock()).unwrap_or_default()
    }
}

impl Account {
    fn new(limits: UsageLimits, money: Option<MoneyTerms>) -> Arc<Self> {
        Arc::new(Self { limits, money, balance: Mutex::default() })
    }

    /// Returns the highest cost of a reserved amount. Zero if the account does not count money.
    fn highest_cost(
        &self,
        name: Option<ModelName<'_>>,
        amount: Amount,
    ) -> Result<Money, UnknownPrice> {
        match (&self.money, name) {
            (Some(terms), Some(ModelName { vendor, model })) => {
                terms.prices.reserve(vendor, model, amount.input_tokens, amount.output_tokens)
            }
            (Some(_), None) if amount.requests > 0 => Err(UnknownPrice::new("", "")),
            _ => Ok(Money::ZERO),
        }
    }

    /// Returns the cost of a call. If the cost is unknown, logs a warning and returns `reserved`. Zero if the account
    /// does not count money.
    fn cost_or(&self, name: Option<ModelName<'_>>, usage: &TokenUsage, reserved: Money) -> Money {
        let Some(terms) = &self.money else {
            return Money::ZERO;
        };
        let cost = match name {
            Some(ModelName { vendor, model }) => terms.prices.cost(vendor, model, usage),
            None => Err(UnknownPrice::new("", "")),
        };
        cost.unwrap_or_else(|error| {
            tracing::warn!(%error, %reserved, "the cost of a call is unknown; the reserved amount counts");
            reserved
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Balance> {
        // Ignore poisoning, because no code panics while it holds the lock.
        self.balance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the limits and reserves the amount. One lock covers both steps, so concurrent reservations cannot exceed
    /// a limit together.
    fn reserve(&self, amount: Amount) -> Result<(), LoopError> {
        let mut balance = self.lock();
        let taken = balance.used.plus(balance.reserved).plus(amount);
        // A reservation of tool calls has no tokens, so the reserved tokens of model calls must not block it.
        let tokens = if amount.requests == 0 { balance.used } else { taken };
        let limits = &self.limits;
        let checked = limits
            .check_requests(taken.requests)
            .and_then(|()| limits.check_tokens(&tokens.as_usage()))
            .and_then(|()| self.check_money(tokens.money))
            .and_then(|()| limits.check_tool_calls(taken.tool_calls));
        // The prefix distinguishes a shared budget from the run's own limits in the error text.
        checked.map_err(|error| match error {
            LoopError::UsageLimitExceeded(what) => {
                LoopError::UsageLimitExceeded(format!("budget: {what}"))
            }
            other => other,
        })?;
        balance.reserved = balance.reserved.plus(amount);
        Ok(())
    }

    fn check_money(&self, money: Money) -> Result<(), LoopError> {
        match self.money.as_ref().and_then(|terms| terms.limit) {
            Some(limit) if money > limit => {
                let text = format!("money limit exceeded: {money} > {limit}");
                Err(LoopError::UsageLimitExceeded(text))
            }
            _ => Ok(()),
        }
    }

    /// Subtracts `reserved` from the reservations and adds `spent` to the usage.
    fn exchange(&self, reserved: Amount, spent: Amount) {
        let mut balance = self.lock();
        balance.reserved = balance.reserved.minus(reserved);
        balance.used = balance.used.plus(spent);
    }
}

/// A reservation in a [`Budget`] for a model call or for tool calls.
///
/// A reservation that is dropped before [`start`](Self::start) is released. If it is dropped after `start`, the whole
/// reserved amount counts as used, because the actual usage is unknown.
#[derive(Debug)]
#[must_use = "what is reserved is given back when this is dropped"]
pub struct Reservation {
    budget: Budget,
    /// The reserved amounts that were not yet used, one for each of the first accounts of the budget.
    reserved: Vec<Amount>,
    /// Names of the vendor and the model, if an account needs them for the cost.
    model: Option<(String, String)>,
    /// Set if the call was [started](Self::start), so that dropping the reservation counts its amount as used.
    is_started: bool,
}

impl Reservation {
    /// Marks the call as started. From now on the call may use tokens, even if it fails.
    pub fn start(&mut self) {
        self.is_started = true;
    }

    /// Replaces the reserved estimate of a completed model call with its actual usage.
    ///
    /// If the cost of the usage is unknown, the reserved money counts, and a warning is logged. This happens if
    /// [`iterations`](TokenUsage::iterations) names a model without a price.
    pub fn settle(mut self, usage: &TokenUsage) {
        self.close(|account, name, reserved| Amount {
            requests: reserved.requests,
            money: account.cost_or(name, usage, reserved.money),
            ..Amount::of(usage)
        });
    }

    /// Ends the reservation of a model call that broke off. Each counter of the budget grows by the estimate or by
    /// `usage`, whichever is larger.
    pub fn settle_at_least(mut self, usage: &TokenUsage) {
        self.close(|account, name, reserved| {
            let money = account.cost_or(name, usage, reserved.money);
            Amount { money, ..Amount::of(usage) }.with(reserved, usize::max, Money::max)
        });
    }

    /// Releases the reserved tokens of a model call that the provider refused. The request still counts as used if the
    /// call was [started](Self::start).
    pub fn release(mut self) {
        let is_started = self.is_started;
        self.close(|_, _, reserved| {
            let requests = if is_started { reserved.requests } else { 0 };
            Amount { requests, ..Amount::default() }
        });
    }

    /// Counts one of the reserved tool calls as used. Does nothing if no reserved call is left.
    pub fn spend_tool_call(&mut self) {
        let one = Amount { tool_calls: 1, ..Amount::default() };
        for (account, reserved) in self.budget.accounts.iter().zip(&mut self.reserved) {
            if reserved.tool_calls > 0 {
                *reserved = reserved.minus(one);
                account.exchange(one, one);
            }
        }
    }

    /// Releases the reservation and counts the result of `spent` as used, which may exceed the reservation. `spent`
    /// receives each account with its reserved amount.
    fn close(&mut self, spent: impl Fn(&Account, Option<ModelName<'_>>, Amount) -> Amount) {
        // Take the amounts, so that `drop` does not release the reservation again.
        let reserved = std::mem::take(&mut self.reserved);
        let model = self.model.as_ref();
        let name = model.map(|(vendor, model)| ModelName { vendor, model });
        for (account, reserved) in self.budget.accounts.iter().zip(reserved) {
            account.exchange(reserved, spent(account, name, reserved));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let is_started = self.is_started;
        self.close(|_, _, reserved| if is_started { reserved } else { Amount::default() });
    }
}

impl Amount {
    fn of(usage: &TokenUsage) -> Self {
        let (input_tokens, output_tokens) = (usage.input_tokens, usage.output_tokens);
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    fn as_usage(self) -> TokenUsage {
        let Self { input_tokens, output_tokens, .. } = self;
        TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, usize::saturating_add, Money::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, usize::saturating_sub, Money::saturating_sub)
    }

    /// Combines each counter of `self` with the counter of the same resource in `other`. `count` and `money` compute
    /// the new counters.
    fn with(
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
            money: money(self.money, other.money),
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Balance { used, reserved } = self.balance();
        f.debug_struct("Budget")
            .field("limits", &self.limits())
            .field("money_limit", &self.money_limit())
            .field("used", &used)
            .field("reserved", &reserved)
            .finish()
    }
}
