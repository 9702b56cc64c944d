//! The result of checking a condition of a permission rule.

/// Result of checking a condition of a rule. [`Unknown`](Self::Unknown) means that the condition is undecidable, for
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

    /// Combines two conditions that must both hold. Returns [`No`](Self::No) if one of them is `No`, even if the other
    /// is undecidable.
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

    /// Combines two conditions of which at least one must hold. Returns [`Yes`](Self::Yes) if one of them is `Yes`,
    /// even if the other is undecidable.
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
