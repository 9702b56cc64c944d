//! The cost of model calls.

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::Money;

/// The cost of one or more model calls. See [`TokenUsage::cost`](crate::TokenUsage::cost).
///
/// `Display` writes the amount, and adds `(incomplete)` if the cost is not complete.
///
/// # Example
///
/// ```
/// use neuron_model::{Cost, Money};
///
/// let mut cost = Cost::from(Money::from_dollars(2));
/// assert_eq!(cost.to_string(), "$2.00");
/// cost += Cost::UNKNOWN;
/// assert_eq!(cost.to_string(), "$2.00 (incomplete)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The known amount.
    ///
    /// A call with an unknown cost counts with its reserved money, which is zero if its price is
    /// unknown.
    pub amount: Money,
    /// `true` if the cost of each call is known. The actual cost may otherwise differ from the amount.
    ///
    /// The cost of a cancelled or broken call counts as known. Its amount is an estimate of the
    /// budget.
    pub is_complete: bool,
}

impl Cost {
    /// The cost of a call whose price is not known.
    pub const UNKNOWN: Self = Self { amount: Money::ZERO, is_complete: false };
}

/// Nothing, which is complete.
impl Default for Cost {
    fn default() -> Self {
        Self::from(Money::ZERO)
    }
}

/// Creates a complete cost.
impl From<Money> for Cost {
    fn from(amount: Money) -> Self {
        Self { amount, is_complete: true }
    }
}

/// Adds the cost of other calls. The amount is at most [`Money::MAX`]. The sum is complete if both costs are.
impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.amount = self.amount.saturating_add(other.amount);
        self.is_complete = self.is_complete && other.is_complete;
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.amount, f)?;
        if self.is_complete { Ok(()) } else { f.write_str(" (incomplete)") }
    }
}
