//! A budget that several agents share, and what is reserved of it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{LoopError, TokenUsage, UsageLimits};

/// Limits on what several agents use together. Clones are cheap and share what was used.
///
/// Give it to an agent or a run, or put it into [`ToolContext::extensions`](crate::ToolContext::extensions). A run
/// looks for it there, and its tools find it in theirs, so that an agent inside a tool shares it by itself. A run that
/// finds one and was given another keeps to both.
///
/// A call of the model is made only if there is room for it: for one request, and for an estimate of its
/// tokens. The estimate is reserved while the call is made, so that agents that run at the same time
/// cannot all pass the check together, and exchanged for what was used once that is known. So the budget
/// is exceeded by no more than the estimates of the calls that were under way were too low: by that of
/// one call, if the agents run one after another. An agent for which there is no room ends with
/// [`LoopError::UsageLimitExceeded`], even if others give some of theirs back later.
///
/// - The prompt is estimated by the agent's context strategy, corrected by what the provider reported.
///   Of a strategy that does not [count
///   tokens](crate::ContextStrategy::counts_tokens) only the report is used.
/// - The answer is estimated to be as long as the run's answers before it on average; the first to be
///   as long as `max_tokens` allows, 1,000 tokens at the most.
/// - A call that the provider refused keeps its request and gives its tokens back. Of one that was
///   cancelled, dropped or broke, nobody knows what it took: its estimate counts as used, or what the
///   provider told so far if that is more.
/// - Tool calls count when they are started, and the room for a whole batch is reserved before.
/// - What compactions took counts once they are done.
///
/// It lives in one process: a durable engine that runs tools elsewhere does not take it there. There, and
/// wherever agents share it at the same time, who is refused depends on who comes first: under a durable
/// engine give each run one of its own.
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
/// // Every agent that runs with this context shares the budget. A call outside of agents can as well:
/// let mut reservation = budget.reserve(6_000, 500)?;
/// assert!(budget.reserve(6_000, 500).is_err(), "no room for another");
/// reservation.start();
/// reservation.settle(&TokenUsage { input_tokens: 5_000, output_tokens: 100, ..Default::default() });
/// assert_eq!((budget.usage().total_tokens(), budget.requests()), (5_100, 1));
/// # Ok::<(), neuron_types::LoopError>(())
/// ```
#[derive(Clone)]
pub struct Budget {
    /// Its own, and those of which it is a part. None occurs twice.
    accounts: Arc<[Arc<Account>]>,
}

/// What one budget allows, and what was taken of it.
struct Account {
    limits: UsageLimits,
    balance: Mutex<Balance>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Balance {
    used: Amount,
    reserved: Amount,
}

/// So much of everything that is limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    input_tokens: usize,
    output_tokens: usize,
    requests: usize,
    tool_calls: usize,
}

impl Budget {
    /// A budget of its own.
    #[must_use]
    pub fn new(limits: UsageLimits) -> Self {
        Self { accounts: Arc::new([Account::new(limits)]) }
    }

    /// A part of this budget with limits of its own: what is taken of it is taken of both.
    #[must_use]
    pub fn part(&self, limits: UsageLimits) -> Self {
        let whole = self.accounts.iter().cloned();
        Self { accounts: std::iter::once(Account::new(limits)).chain(whole).collect() }
    }

    /// Returns a budget that is this one and another: what is taken of it is taken of both.
    #[must_use]
    pub fn together_with(&self, other: &Self) -> Self {
        let is_new = |account: &&Arc<Account>| {
            !self.accounts.iter().any(|known| Arc::ptr_eq(known, account))
        };
        let others = other.accounts.iter().filter(is_new);
        Self { accounts: self.accounts.iter().chain(others).cloned().collect() }
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> UsageLimits {
        self.accounts.first().map(|account| account.limits.clone()).unwrap_or_default()
    }

    /// Returns the tokens that were used, without those that are reserved.
    #[must_use]
    pub fn usage(&self) -> TokenUsage {
        self.balance().used.as_usage()
    }

    /// Returns the calls of the model that were made.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.balance().used.requests
    }

    /// Returns the tool calls that were started.
    #[must_use]
    pub fn tool_calls(&self) -> usize {
        self.balance().used.tool_calls
    }

    /// Returns the tokens that are reserved for calls that are under way.
    #[must_use]
    pub fn reserved_tokens(&self) -> usize {
        self.balance().reserved.as_usage().total_tokens()
    }

    /// Reserves a call of the model with an estimate of its tokens.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if there is no room for it; then nothing is reserved.
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
    /// [`LoopError::UsageLimitExceeded`] if there is no room for them; then nothing is reserved.
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
        // Dropped after an error, it gives back what was taken of the accounts before.
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
        self.balance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks and reserves at once: nobody comes between.
    fn reserve(&self, amount: Amount) -> Result<(), LoopError> {
        let mut balance = self.lock();
        let taken = balance.used.plus(balance.reserved).plus(amount);
        // Tools take no tokens: what others reserved does not keep them from running.
        let tokens = if amount.requests == 0 { balance.used } else { taken };
        let limits = &self.limits;
        let checked = limits
            .check_requests(taken.requests)
            .and_then(|()| limits.check_tokens(&tokens.as_usage()))
            .and_then(|()| limits.check_tool_calls(taken.tool_calls));
        checked.map_err(|error| match error {
            LoopError::UsageLimitExceeded(what) => {
                LoopError::UsageLimitExceeded(format!("budget: {what}"))
            }
            other => other,
        })?;
        balance.reserved = balance.reserved.plus(amount);
        Ok(())
    }

    /// Gives back what was reserved, and counts what was spent.
    fn exchange(&self, reserved: Amount, spent: Amount) {
        let mut balance = self.lock();
        balance.reserved = balance.reserved.minus(reserved);
        balance.used = balance.used.plus(spent);
    }
}

/// What is reserved of a [`Budget`] for a call of the model, or for tool calls.
///
/// Dropped before [`start`](Self::start) it gives back everything. Dropped after it, its estimate
/// counts as used: nobody knows what a call took whose answer was not waited for.
#[derive(Debug)]
#[must_use = "what is reserved is given back when this is dropped"]
pub struct Reservation {
    budget: Budget,
    /// Of how many of the budget's accounts it was taken.
    accounts: usize,
    amount: Amount,
    is_started: bool,
}

impl Reservation {
    /// Says that the call is made now: from here on it may cost something.
    pub fn start(&mut self) {
        self.is_started = true;
    }

    /// Counts what the call took, and gives back the rest.
    pub fn settle(mut self, usage: &TokenUsage) {
        let requests = self.amount.requests;
        self.close(Amount { requests, ..Amount::of(usage) });
    }

    /// Counts what the call took, or the estimate where that is more: the call broke off.
    pub fn settle_at_least(mut self, usage: &TokenUsage) {
        let spent = Amount::of(usage).with(self.amount, usize::max);
        self.close(spent);
    }

    /// Gives the tokens back: the provider refused the call. The request counts if it was made.
    pub fn release(mut self) {
        let requests = if self.is_started { self.amount.requests } else { 0 };
        self.close(Amount { requests, ..Amount::default() });
    }

    /// Moves one tool call from the reserved to the used ones.
    pub fn spend_tool_call(&mut self) {
        let one = Amount { tool_calls: 1, ..Amount::default() };
        if self.amount.tool_calls > 0 {
            self.amount = self.amount.minus(one);
            for account in self.budget.accounts.iter().take(self.accounts) {
                account.exchange(one, one);
            }
        }
    }

    /// Counts what was spent, whatever was reserved, and gives back the rest.
    fn close(&mut self, spent: Amount) {
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
