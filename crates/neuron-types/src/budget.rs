//! A budget of tokens, calls and money that several agents share.

mod account;
mod exceeded_limit;
mod reservation;
mod usage_limits;

use std::fmt;
use std::sync::Arc;

use account::{Account, Amount, Balance, ModelName, MoneyTerms};
pub use exceeded_limit::{ExceededLimit, LimitedResource, ParseLimitError};
pub use reservation::Reservation;
use reservation::ReservedModel;
use serde::{Deserialize, Serialize};
pub use usage_limits::UsageLimits;

use crate::{Cost, LoopError, Money, PriceList, RouteModel, TokenUsage, UnknownPrice};

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
/// - The response is estimated as the run's output tokens without those of its tools, divided by its responses. For the
///   first response, the estimate is 1,000 tokens. An estimate is at most `max_tokens`.
/// - A call that the provider refused counts as a request without tokens. A call that fails after its stream has begun is
///   a broken call.
/// - The usage of a cancelled, dropped or broken call is unknown. It counts with its estimate, or with the usage that
///   the provider reported for it, whichever is larger.
/// - A provider that makes several calls itself, such as a router, reports only the usage of the call that answered.
///   The calls that failed, broke off or were cancelled inside the provider do not count.
/// - A tool call counts when it starts. All calls of a response are reserved together before any of them starts.
/// - The usage of a compaction counts when the compaction is complete. A cancelled or dropped compaction does not count,
///   because its usage is unknown. Nothing is reserved for a compaction, because the context strategy may call no model.
///   The history is compacted only if a call with one token fits into the budget, and its price is known.
///
/// # Money
///
/// A [`priced`](Self::priced) budget has a list of prices, and counts the cost of its calls. The loop also adds this cost
/// to the usage of the run, see [`TokenUsage::cost`]. If a run has several budgets with prices, the first one gives the
/// cost of the run. The cost of a model without a known price is [incomplete](Cost::is_complete).
///
/// A budget [`in_money`](Self::in_money) also has a limit in dollars. The cost of a call is reserved and replaced in the
/// same way as its tokens. A model without a known price is not called, and the run ends with
/// [`LoopError::UnknownPrice`].
///
/// The cost of a compaction is computed with the price of the run's model, because the model of a context strategy is
/// not known.
///
/// A [router](crate::ProviderInfo::routes) chooses the model of each call itself. Its calls are reserved with the highest
/// known price of its routes. If no price is known, no money is reserved, and only the calls in progress can exceed the
/// limit. Each call is settled with the price of the vendor and the model that answered, or else of the model that the
/// [route](crate::AnswerRoute) requested. If both prices are unknown, a run with a limit in money ends with
/// [`LoopError::UnknownPrice`] after the call. A call that breaks off counts with the price of its reservation.
///
/// [`part`](Self::part) and [`together_with`](Self::together_with) combine limits in money with other limits. A
/// part of a budget with prices counts its own cost.
///
/// # Processes and replays
///
/// A budget exists only in its process. Some durable engines run tools in another process. There, agents inside the tools
/// share the budget that the agent was built with, with the counters of that process. The budget of a single run does not
/// apply there.
///
/// If concurrent agents share a budget, the timing decides which call is refused. A replay by a durable engine may then
/// differ from the first execution. A replay also counts the calls of its journal again. Therefore give each execution of
/// a durable run its own budget. In a pool of durable runs, create the budget and the agent inside `DurableAgent::run`.
/// The [prices](crate::PriceList) of a budget in money must not change between the first execution and a replay.
///
/// A replay in `neuron-durable-sqlite` also counts what agents inside completed tools spent. The other engines count it
/// only in the process of the tool. After [`continue_as_new`](crate::DurableContext::continue_as_new), a new budget does
/// not contain the usage of the earlier executions.
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

impl Budget {
    /// Creates a budget with limits and without a parent budget.
    #[must_use]
    pub fn new(limits: UsageLimits) -> Self {
        Self { accounts: Arc::new([Account::new(limits, None)]) }
    }

    /// Creates a budget that counts the cost of calls, without limits or a parent budget.
    ///
    /// The prices apply to this budget and its [parts](Self::part).
    #[must_use]
    pub fn priced(prices: impl PriceList + 'static) -> Self {
        Self::with_terms(MoneyTerms { prices: Arc::new(prices), limit: None })
    }

    /// Creates a budget with a limit in money, and without other limits or a parent budget.
    ///
    /// The prices apply to this budget and its [parts](Self::part).
    #[must_use]
    pub fn in_money(limit: Money, prices: impl PriceList + 'static) -> Self {
        Self::with_terms(MoneyTerms { prices: Arc::new(prices), limit: Some(limit) })
    }

    /// Creates a sub-budget with its own limits. Usage of the sub-budget also counts for this budget.
    #[must_use]
    pub fn part(&self, limits: UsageLimits) -> Self {
        // The own account must be first, because the getters report the first account.
        let whole = self.accounts.iter().cloned();
        let terms = self.priced_account().and_then(|(_, account)| account.money.clone());
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

    /// Returns the used input and output tokens, and their cost if the budget has prices, without reservations.
    ///
    /// If the first of two combined budgets has no prices, the cost is the one that the second budget counted.
    #[must_use]
    pub fn usage(&self) -> TokenUsage {
        let cost = self.priced_account().map(|(_, account)| account.lock().used.cost);
        TokenUsage { cost, ..self.balance().used.as_usage() }
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

    /// Returns the known cost of the calls that were made, which is the amount in [`usage`](Self::usage). Zero if the
    /// budget has no prices.
    #[must_use]
    pub fn spent(&self) -> Money {
        self.usage().cost.unwrap_or_default().amount
    }

    /// Returns the money reserved for calls in progress. Zero if the budget has no prices.
    #[must_use]
    pub fn reserved_money(&self) -> Money {
        let reserved = self.priced_account().map(|(_, account)| account.lock().reserved.cost);
        reserved.unwrap_or_default().amount
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
    /// [part](Self::part). [`LoopError::UnknownPrice`] if the budget limits money and has no price for the model. Nothing
    /// is reserved in these cases.
    pub fn reserve_call(
        &self,
        vendor: &str,
        model: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        let amount = Amount { input_tokens, output_tokens, requests: 1, ..Amount::default() };
        self.take(amount, std::iter::once(ModelName { vendor, model }), false)
    }

    /// Reserves one call of a provider that chooses the model itself, from these [routes](crate::ProviderInfo::routes).
    ///
    /// The highest price of the routes is reserved. A route without a price is ignored.
    /// [`Reservation::settle_response`] counts the cost of the model that answered.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the call does not fit into the budget or into a budget of which it is a
    /// [part](Self::part). Nothing is reserved in this case.
    pub fn reserve_routed_call(
        &self,
        routes: &[RouteModel],
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        let amount = Amount { input_tokens, output_tokens, requests: 1, ..Amount::default() };
        let names = routes
            .iter()
            .map(|RouteModel { provider, model, .. }| ModelName { vendor: provider, model });
        self.take(amount, names, true)
    }

    /// Reserves one model call with an estimate of its tokens. For a budget with a limit in money, use
    /// [`reserve_call`](Self::reserve_call).
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the call does not fit into the budget or into a budget of which it is a
    /// [part](Self::part). [`LoopError::UnknownPrice`] if the budget limits money. Nothing is reserved in these cases.
    pub fn reserve(
        &self,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        let requests = 1;
        let amount = Amount { input_tokens, output_tokens, requests, ..Amount::default() };
        self.take(amount, std::iter::empty(), false)
    }

    /// Reserves this number of tool calls.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the calls do not fit into the budget or into a budget of which it is a
    /// [part](Self::part). Nothing is reserved in this case.
    pub fn reserve_tool_calls(&self, tool_calls: usize) -> Result<Reservation, LoopError> {
        self.take(Amount { tool_calls, ..Amount::default() }, std::iter::empty(), false)
    }

    /// Adds tokens that were used without a reservation. This may exceed the limits. For a budget with prices, use
    /// [`charge_call`](Self::charge_call). This method cannot compute a cost, and logs a warning instead.
    pub fn charge(&self, usage: &TokenUsage) {
        if let (_, Err(error)) = self.add(None, usage) {
            tracing::warn!(%error, "the cost of used tokens is unknown and does not count");
        }
    }

    /// Adds the tokens of a named model, and their cost, that were used without a reservation, for example by a
    /// compaction. This may exceed the limits. Returns the cost, or `None` if the budget has no prices.
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if a budget limits money and has no price for the model. The tokens count in this case too. The
    /// returned cost is the cost that the first budget with prices counts, also beside an error.
    pub fn charge_call(
        &self,
        vendor: &str,
        model: &str,
        usage: &TokenUsage,
    ) -> (Option<Cost>, Result<(), UnknownPrice>) {
        self.add(Some(ModelName { vendor, model }), usage)
    }

    /// Returns `true` if the requests, the tokens or the money of this budget are used up, or those of a budget of which it
    /// is a [part](Self::part). A model call that takes one more of them is refused. Reservations of calls in progress do
    /// not count, because they may be released.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.accounts.iter().any(|account| account.is_exhausted())
    }

    /// Returns what this budget has counted, without reservations. `None` if it has counted nothing.
    #[must_use]
    pub fn spending(&self) -> Option<BudgetSpending> {
        let used = self.balance().used;
        let (requests, tool_calls) = (used.requests, used.tool_calls);
        let spending = || BudgetSpending { usage: self.usage(), requests, tool_calls };
        (used != Amount::default()).then(spending)
    }

    /// Adds what another budget has [counted](Self::spending), for example in the first execution of a step that a durable
    /// engine replays. This may exceed the limits.
    ///
    /// A budget with prices takes over the cost. If there is none, its own cost becomes incomplete.
    pub fn add_spending(&self, spending: &BudgetSpending) {
        self.accounts.iter().for_each(|account| account.add(spending));
    }

    fn add(
        &self,
        name: Option<ModelName<'_>>,
        usage: &TokenUsage,
    ) -> (Option<Cost>, Result<(), UnknownPrice>) {
        let mut nothing = Reservation::new(self.clone(), Amount::default());
        nothing.accounts = self.accounts.len();
        nothing.count(name.as_slice(), usage, |used, _| used)
    }

    fn with_terms(money: MoneyTerms) -> Self {
        Self { accounts: Arc::new([Account::new(UsageLimits::default(), Some(money))]) }
    }

    /// Reserves an amount in this budget and in its parents, with the highest price of `names`. On an error, nothing is
    /// reserved. With `is_routed`, an unknown price is not an error.
    fn take<'n>(
        &self,
        amount: Amount,
        names: impl Iterator<Item = ModelName<'n>> + Clone,
        is_routed: bool,
    ) -> Result<Reservation, LoopError> {
        let mut reservation = Reservation::new(self.clone(), amount);
        // A reservation without prices allocates nothing.
        if amount.requests > 0 && self.priced_account().is_some() {
            let mut dearest = None;
            for account in self.accounts.iter() {
                let (cost, name) = account.highest_cost(names.clone(), amount, !is_routed)?;
                reservation.costs.push(cost);
                dearest = dearest.or(name);
            }
            let name = dearest.or_else(|| names.clone().next());
            reservation.model = name.map(|ModelName { vendor, model }| ReservedModel {
                vendor: vendor.to_owned(),
                model: model.to_owned(),
                is_routed,
            });
        }
        // On an error, dropping `reservation` releases the accounts in which the amount was already reserved.
        for account in self.accounts.iter() {
            account.reserve(reservation.amount_at(reservation.accounts))?;
            reservation.accounts += 1;
        }
        Ok(reservation)
    }

    /// Returns the first account that counts money, with its index.
    fn priced_account(&self) -> Option<(usize, &Account)> {
        let mut accounts = self.accounts.iter().map(|account| &**account).enumerate();
        accounts.find(|(_, account)| account.money.is_some())
    }

    /// Returns the counters of this budget, but not the counters of a parent.
    fn balance(&self) -> Balance {
        self.accounts.first().map(|account| *account.lock()).unwrap_or_default()
    }
}

/// The tokens, cost and calls that a [`Budget`] has counted. They can be stored, for example in the journal of a durable engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BudgetSpending {
    /// Input and output tokens, and their cost if the budget has prices.
    pub usage: TokenUsage,
    /// Number of model calls that were made.
    pub requests: usize,
    /// Number of tool calls that were started.
    pub tool_calls: usize,
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
