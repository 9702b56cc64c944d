//! A token and call budget that several agents share, and reservations in it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{LoopError, TokenUsage, UsageLimits};

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
    balance: Mutex<Balance>,
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
}

impl Budget {
    /// Creates a budget with limits and without a parent budget.
    #[must_use]
    pub fn new(limits: UsageLimits) -> Self {
        Self { accounts: Arc::new([Account::new(limits)]) }
    }

    /// Creates a sub-budget with its own limits. Usage of the sub-budget also counts for this budget.
    #[must_use]
    pub fn part(&self, limits: UsageLimits) -> Self {
        // The own account must be first, because the getters report the first account.
        let whole = self.accounts.iter().cloned();
        Self { accounts: std::iter::once(Account::new(limits)).chain(whole).collect() }
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

    /// Reserves one model call with an estimate of its tokens.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the call does not fit into the budget or into a budget of which it is a
    /// [part](Self::part). Nothing is reserved in this case.
    pub fn reserve(
        &self,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        self.take(Amount { input_tokens, output_tokens, requests: 1, tool_calls: 0 })
    }

    /// Reserves this number of tool calls.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the calls do not fit into the budget or into a budget of which it is a
    /// [part](Self::part). Nothing is reserved in this case.
    pub fn reserve_tool_calls(&self, tool_calls: usize) -> Result<Reservation, LoopError> {
        self.take(Amount { tool_calls, ..Amount::default() })
    }

    /// Adds tokens that were used without a reservation, for example by a compaction. This may exceed the limits.
    pub fn charge(&self, usage: &TokenUsage) {
        let spent = Amount::of(usage);
        self.accounts.iter().for_each(|account| account.exchange(Amount::default(), spent));
    }

    /// Reserves an amount in this budget and in its parents. On an error, nothing is reserved.
    fn take(&self, amount: Amount) -> Result<Reservation, LoopError> {
        let mut reservation =
            Reservation { budget: self.clone(), accounts: 0, amount, is_started: false };
        // On an error, dropping `reservation` releases the accounts in which the amount was already reserved.
        for account in self.accounts.iter() {
            account.reserve(amount)?;
            reservation.accounts += 1;
        }
        Ok(reservation)
    }

    /// Returns the counters of this budget, but not the counters of a parent.
    fn balance(&self) -> Balance {
        self.accounts.first().map(|account| *account.lock()).unwrap_or_default()
    }
}

impl Account {
    fn new(limits: UsageLimits) -> Arc<Self> {
        Arc::new(Self { limits, balance: Mutex::default() })
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
    /// Number of elements of the budget's `accounts` in which the amount is reserved, counted from the first element.
    accounts: usize,
    /// The reserved amount that was not yet used.
    amount: Amount,
    /// Set if the call was [started](Self::start), so that dropping the reservation counts its amount as used.
    is_started: bool,
}

impl Reservation {
    /// Marks the call as started. From now on the call may use tokens, even if it fails.
    pub fn start(&mut self) {
        self.is_started = true;
    }

    /// Replaces the reserved estimate of a completed model call with its actual usage.
    pub fn settle(mut self, usage: &TokenUsage) {
        let requests = self.amount.requests;
        self.close(Amount { requests, ..Amount::of(usage) });
    }

    /// Ends the reservation of a model call that broke off. Each counter of the budget grows by the estimate or by
    /// `usage`, whichever is larger.
    pub fn settle_at_least(mut self, usage: &TokenUsage) {
        let spent = Amount::of(usage).with(self.amount, usize::max);
        self.close(spent);
    }

    /// Releases the reserved tokens of a model call that the provider refused. The request still counts as used if the
    /// call was [started](Self::start).
    pub fn release(mut self) {
        let requests = if self.is_started { self.amount.requests } else { 0 };
        self.close(Amount { requests, ..Amount::default() });
    }

    /// Counts one of the reserved tool calls as used. Does nothing if no reserved call is left.
    pub fn spend_tool_call(&mut self) {
        let one = Amount { tool_calls: 1, ..Amount::default() };
        if self.amount.tool_calls > 0 {
            self.amount = self.amount.minus(one);
            for account in self.budget.accounts.iter().take(self.accounts) {
                account.exchange(one, one);
            }
        }
    }

    /// Releases the reservation and counts `spent` as used. `spent` may exceed the reservation.
    fn close(&mut self, spent: Amount) {
        // Set the number of accounts to zero, so that `drop` does not release the reservation again.
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

    /// Combines each counter of `self` with the counter of the same resource in `other`. `f` computes the new counter.
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
