//! A token and call budget that several agents share, and reservations in it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{LoopError, TokenUsage, UsageLimits};

/// Usage limits that several agents share. Clones are cheap and share the counters.
///
/// Pass it to an agent or a run, or put it into [`ToolContext::extensions`](crate::ToolContext::extensions). A run
/// looks for a budget there, and its tools find the budget in their context, so an agent inside a tool shares it
/// automatically. If a run finds a budget and was also given another one, both apply.
///
/// A model call is made only if one request and an estimate of its tokens fit. The estimate is reserved for the
/// duration of the call and then replaced by the actual usage. Agents that run concurrently therefore cannot all pass
/// the check together. Usage can exceed the budget only by the amount by which the estimates of the calls in progress
/// were too low. If agents run one after another, that is one call. An agent whose call does not fit ends with
/// [`LoopError::UsageLimitExceeded`], even if another agent returns a part of its reservation later.
///
/// - The agent's context strategy estimates the prompt, corrected by the usage that the provider reported. If the
///   strategy does not [count tokens](crate::ContextStrategy::counts_tokens), only the report is used.
/// - The estimate for a response is the average length of the run's earlier responses. For the first response it is
///   `max_tokens`, but at most 1,000 tokens.
/// - A call that the provider refused counts as a request and returns its tokens. The usage of a cancelled, dropped or
///   broken call is unknown. Its estimate counts, or the usage that the provider reported until then if that is more.
/// - Tool calls count when they start. The whole batch is reserved before.
/// - The usage of a compaction counts when it is done.
///
/// A budget exists in one process. A durable engine does not carry it to tools that run elsewhere. Which call is
/// refused depends on timing if agents share a budget concurrently, and under a durable engine. There, give each run a
/// budget of its own.
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
    /// The budget's own account and the accounts of its parents, without duplicates.
    accounts: Arc<[Arc<Account>]>,
}

/// The limits of one budget and its balance.
struct Account {
    limits: UsageLimits,
    balance: Mutex<Balance>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Balance {
    used: Amount,
    reserved: Amount,
}

/// An amount of each limited resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    input_tokens: usize,
    output_tokens: usize,
    requests: usize,
    tool_calls: usize,
}

impl Budget {
    /// Creates an independent budget.
    #[must_use]
    pub fn new(limits: UsageLimits) -> Self {
        Self { accounts: Arc::new([Account::new(limits)]) }
    }

    /// Creates a sub-budget with its own limits. Usage counts for the sub-budget and for this budget.
    #[must_use]
    pub fn part(&self, limits: UsageLimits) -> Self {
        let whole = self.accounts.iter().cloned();
        Self { accounts: std::iter::once(Account::new(limits)).chain(whole).collect() }
    }

    /// Combines two budgets. Usage counts for both.
    #[must_use]
    pub fn together_with(&self, other: &Self) -> Self {
        let is_new = |account: &&Arc<Account>| {
            !self.accounts.iter().any(|known| Arc::ptr_eq(known, account))
        };
        // A common parent is charged only once.
        let others = other.accounts.iter().filter(is_new);
        Self { accounts: self.accounts.iter().chain(others).cloned().collect() }
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> UsageLimits {
        self.accounts.first().map(|account| account.limits.clone()).unwrap_or_default()
    }

    /// Returns the tokens used, without reservations.
    #[must_use]
    pub fn usage(&self) -> TokenUsage {
        self.balance().used.as_usage()
    }

    /// Returns the number of model calls that were made.
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

    /// Reserves one model call with an estimate of its tokens.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the call does not fit. Then nothing is reserved.
    pub fn reserve(
        &self,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        self.take(Amount { input_tokens, output_tokens, requests: 1, tool_calls: 0 })
    }

    /// Reserves tool calls.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the calls do not fit. Then nothing is reserved.
    pub fn reserve_tool_calls(&self, tool_calls: usize) -> Result<Reservation, LoopError> {
        self.take(Amount { tool_calls, ..Amount::default() })
    }

    /// Counts tokens that were used without a reservation.
    pub fn charge(&self, usage: &TokenUsage) {
        let spent = Amount::of(usage);
        self.accounts.iter().for_each(|account| account.exchange(Amount::default(), spent));
    }

    fn take(&self, amount: Amount) -> Result<Reservation, LoopError> {
        let mut reservation =
            Reservation { budget: self.clone(), accounts: 0, amount, is_started: false };
        // On an error the drop of `reservation` releases the accounts before this one.
        for account in self.accounts.iter() {
            account.reserve(amount)?;
            reservation.accounts += 1;
        }
        Ok(reservation)
    }

    fn balance(&self) -> Balance {
        self.accounts.first().map(|account| *account.lock()).unwrap_or_default()
    }
}

impl Account {
    fn new(limits: UsageLimits) -> Arc<Self> {
        Arc::new(Self { limits, balance: Mutex::default() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Balance> {
        // Poisoning is harmless: nothing panics while the lock is held.
        self.balance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the limits and reserves the amount under one lock.
    fn reserve(&self, amount: Amount) -> Result<(), LoopError> {
        let mut balance = self.lock();
        let taken = balance.used.plus(balance.reserved).plus(amount);
        // Tools use no tokens themselves, so the reserved tokens of other calls do not block them.
        let tokens = if amount.requests == 0 { balance.used } else { taken };
        let limits = &self.limits;
        let checked = limits
            .check_requests(taken.requests)
            .and_then(|()| limits.check_tokens(&tokens.as_usage()))
            .and_then(|()| limits.check_tool_calls(taken.tool_calls));
        // The prefix distinguishes a shared budget from the run's own limits.
        checked.map_err(|error| match error {
            LoopError::UsageLimitExceeded(what) => {
                LoopError::UsageLimitExceeded(format!("budget: {what}"))
            }
            other => other,
        })?;
        balance.reserved = balance.reserved.plus(amount);
        Ok(())
    }

    /// Releases a reservation and counts the actual usage.
    fn exchange(&self, reserved: Amount, spent: Amount) {
        let mut balance = self.lock();
        balance.reserved = balance.reserved.minus(reserved);
        balance.used = balance.used.plus(spent);
    }
}

/// A reservation in a [`Budget`] for a model call or for tool calls.
///
/// Dropping it before [`start`](Self::start) releases it. Dropping it later counts the estimate as used, because the
/// actual usage of an abandoned call is unknown.
#[derive(Debug)]
#[must_use = "what is reserved is given back when this is dropped"]
pub struct Reservation {
    budget: Budget,
    /// Number of the budget's accounts, from the front, that hold the reservation.
    accounts: usize,
    amount: Amount,
    is_started: bool,
}

impl Reservation {
    /// Marks the call as made. From now on it may use tokens.
    pub fn start(&mut self) {
        self.is_started = true;
    }

    /// Counts the actual usage and releases the rest.
    pub fn settle(mut self, usage: &TokenUsage) {
        let requests = self.amount.requests;
        self.close(Amount { requests, ..Amount::of(usage) });
    }

    /// Counts the actual usage, or the estimate if that is more. For a call that broke off.
    pub fn settle_at_least(mut self, usage: &TokenUsage) {
        let spent = Amount::of(usage).with(self.amount, usize::max);
        self.close(spent);
    }

    /// Releases the tokens of a call that the provider refused. The request counts if it was made.
    pub fn release(mut self) {
        let requests = if self.is_started { self.amount.requests } else { 0 };
        self.close(Amount { requests, ..Amount::default() });
    }

    /// Moves one tool call from the reserved to the used calls.
    pub fn spend_tool_call(&mut self) {
        let one = Amount { tool_calls: 1, ..Amount::default() };
        if self.amount.tool_calls > 0 {
            self.amount = self.amount.minus(one);
            for account in self.budget.accounts.iter().take(self.accounts) {
                account.exchange(one, one);
            }
        }
    }

    /// Counts `spent`, which may exceed the reservation, and releases the rest.
    fn close(&mut self, spent: Amount) {
        // Taken, so that the following `drop` does nothing.
        let accounts = self.budget.accounts.iter().take(std::mem::take(&mut self.accounts));
        accounts.for_each(|account| account.exchange(self.amount, spent));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let spent = if self.is_started { self.amount } else { Amount::default() };
        self.close(spent);
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
        self.with(other, usize::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, usize::saturating_sub)
    }

    fn with(self, other: Self, f: fn(usize, usize) -> usize) -> Self {
        Self {
            input_tokens: f(self.input_tokens, other.input_tokens),
            output_tokens: f(self.output_tokens, other.output_tokens),
            requests: f(self.requests, other.requests),
            tool_calls: f(self.tool_calls, other.tool_calls),
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Balance { used, reserved } = self.balance();
        f.debug_struct("Budget")
            .field("limits", &self.limits())
            .field("used", &used)
            .field("reserved", &reserved)
            .finish()
    }
}
