//! The limit that ended a run, as a value ([`ExceededLimit`]).

use std::fmt;
use std::str::FromStr;

use crate::{LoopError, Money};

/// The limit of a [`LoopError::UsageLimitExceeded`]. [`LoopError::exceeded_limit`] returns it.
///
/// `Display` writes the text of the variant, and `FromStr` reads it, alone or in the text of the error. So the value is also known of an error that a journal or
/// another process gave as text.
///
/// # Example
///
/// ```
/// use neuron_types::{ExceededLimit, LimitedResource, UsageLimits};
///
/// let limits = UsageLimits::default().with_request_limit(3);
/// let limit = limits.check_requests(4).unwrap_err().exceeded_limit().unwrap();
/// assert_eq!(limit.resource, LimitedResource::Requests { used: 4, limit: 3 });
/// assert!(!limit.is_of_budget, "it is the run's own limit");
/// assert_eq!("request limit exceeded: 4 > 3".parse(), Ok(limit));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExceededLimit {
    /// The resource that is used up.
    pub resource: LimitedResource,
    /// `true` if it is the limit of a [`Budget`](crate::Budget), which other runs may share. `false` if it is the run's
    /// own limit.
    pub is_of_budget: bool,
}

/// A resource that a run uses, with its limit. `used` includes what the refused call would use. For a
/// [`Budget`](crate::Budget) it also includes the reservations of calls in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedResource {
    /// Tokens of prompts.
    #[expect(missing_docs, reason = "the type describes the fields")]
    InputTokens { used: usize, limit: usize },
    /// Tokens of responses.
    #[expect(missing_docs, reason = "the type describes the fields")]
    OutputTokens { used: usize, limit: usize },
    /// Tokens of prompts and responses together.
    #[expect(missing_docs, reason = "the type describes the fields")]
    TotalTokens { used: usize, limit: usize },
    /// Model calls.
    #[expect(missing_docs, reason = "the type describes the fields")]
    Requests { used: usize, limit: usize },
    /// Tool calls.
    #[expect(missing_docs, reason = "the type describes the fields")]
    ToolCalls { used: usize, limit: usize },
    /// Dollars.
    #[expect(missing_docs, reason = "the type describes the fields")]
    Money { used: Money, limit: Money },
}

/// What stands between the name of a resource and its numbers.
const EXCEEDED: &str = " limit exceeded: ";

/// The beginning of the text of the error, which stored outcomes of runs have too.
const ERROR: &str = "usage limit exceeded: ";

/// The beginning of the text of a budget's limit.
const BUDGET: &str = "budget: ";

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LimitedResource as R;
        f.write_str(if self.is_of_budget { BUDGET } else { "" })?;
        let (name, used, limit) = match self.resource {
            R::Money { used, limit } => return write!(f, "money{EXCEEDED}{used} > {limit}"),
            R::InputTokens { used, limit } => ("input token", used, limit),
            R::OutputTokens { used, limit } => ("output token", used, limit),
            R::TotalTokens { used, limit } => ("total token", used, limit),
            R::Requests { used, limit } => ("request", used, limit),
            R::ToolCalls { used, limit } => ("tool call", used, limit),
        };
        write!(f, "{name}{EXCEEDED}{used} > {limit}")
    }
}

/// A text is not that of an [`ExceededLimit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text names no limit, as in `request limit exceeded: 4 > 3`")]
pub struct ParseLimitError;

impl FromStr for ExceededLimit {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, ParseLimitError> {
        use LimitedResource as R;
        let text = text.strip_prefix(ERROR).unwrap_or(text);
        let of_budget = text.strip_prefix(BUDGET);
        let read = || {
            let (name, numbers) = of_budget.unwrap_or(text).split_once(EXCEEDED)?;
            let (used, limit) = numbers.split_once(" > ")?;
            if name == "money" {
                return Some(R::Money { used: used.parse().ok()?, limit: limit.parse().ok()? });
            }
            let (used, limit) = (used.parse().ok()?, limit.parse().ok()?);
            Some(match name {
                "input token" => R::InputTokens { used, limit },
                "output token" => R::OutputTokens { used, limit },
                "total token" => R::TotalTokens { used, limit },
                "request" => R::Requests { used, limit },
                "tool call" => R::ToolCalls { used, limit },
                _ => return None,
            })
        };
        let resource = read().ok_or(ParseLimitError)?;
        Ok(Self { resource, is_of_budget: of_budget.is_some() })
    }
}

impl From<LimitedResource> for ExceededLimit {
    fn from(resource: LimitedResource) -> Self {
        Self { resource, is_of_budget: false }
    }
}

impl From<ExceededLimit> for LoopError {
    fn from(limit: ExceededLimit) -> Self {
        Self::UsageLimitExceeded(limit.to_string())
    }
}

impl LoopError {
    /// Returns the limit of an [`UsageLimitExceeded`](Self::UsageLimitExceeded), to match what ran out. Returns `None`
    /// for any other error, and if a layer gave the error a text of its own.
    #[must_use]
    pub fn exceeded_limit(&self) -> Option<ExceededLimit> {
        match self {
            Self::UsageLimitExceeded(text) => text.parse().ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, UsageLimits};

    #[test]
    fn every_text_is_read() {
        use LimitedResource as R;
        let (used, limit) = (4, usize::MAX);
        let (some, most) = (Money::from_picodollars(1_500_000_000_000), Money::from_picodollars(7));
        for resource in [
            R::InputTokens { used, limit },
            R::OutputTokens { used, limit },
            R::TotalTokens { used, limit },
            R::Requests { used, limit },
            R::ToolCalls { used, limit },
            R::Money { used: some, limit: most },
        ] {
            for is_of_budget in [false, true] {
                let value = ExceededLimit { resource, is_of_budget };
                assert_eq!(value.to_string().parse(), Ok(value), "{value}");
                let error = LoopError::from(value);
                assert_eq!(error.exceeded_limit(), Some(value));
                assert_eq!(error.to_string().parse(), Ok(value), "{error}");
            }
        }
        for text in ["", "request limit exceeded: 4", "x limit exceeded: 4 > 3", "tokens"] {
            assert_eq!(text.parse::<ExceededLimit>(), Err(ParseLimitError), "{text}");
        }
    }

    #[test]
    fn budget_names_itself_and_is_exhausted() {
        let budget = Budget::new(UsageLimits::default().with_request_limit(1));
        let part = budget.part(UsageLimits::default());
        assert!(!budget.is_exhausted());
        let mut reservation = part.reserve(1, 1).unwrap();
        let limit = part.reserve(1, 1).unwrap_err().exceeded_limit().unwrap();
        assert!(limit.is_of_budget && !budget.is_exhausted(), "the call is not made yet");
        reservation.start();
        drop(reservation);
        assert!(budget.is_exhausted() && part.is_exhausted());
    }
}
