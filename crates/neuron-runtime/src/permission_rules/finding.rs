//! The result of checking a condition of a permission rule.

/// Result of checking a condition of a rule. It is [`Unknown`](Self::Unknown) if the condition cannot be decided, for
/// example because the argument is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Yes,
    No,
    /// The condition cannot be decided. The text is the reason.
    Unknown(String),
}

impl Finding {
    pub(super) fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// Combines two conditions that must both hold. If one of them is [`No`](Self::No), the result is `No`, even if the
    /// other one is undecidable.
    pub(super) fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Yes => other(),
            Self::Unknown(why) => match other() {
                Self::No => Self::No,
                _ => Self::Unknown(why),
            },
        }
    }

    /// Combines two conditions of which at least one must hold. If one of them is [`Yes`](Self::Yes), the result is
    /// `Yes`, even if the other one is undecidable.
    pub(super) fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes => Self::Yes,
            Self::No => other(),
            Self::Unknown(why) => match other() {
                Self::Yes => Self::Yes,
                _ => Self::Unknown(why),
            },
        }
    }
}
