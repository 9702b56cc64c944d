//! The result of checking a condition of a permission rule.

/// The result of checking a condition. It is [`Unknown`](Self::Unknown) if the condition is undecidable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Yes,
    No,
    /// The condition is undecidable, for this reason.
    Unknown(String),
}

impl Finding {
    pub(super) fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// Combines two conditions that must both hold. A condition that does not hold decides.
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

    /// Combines two conditions of which at least one must hold. A condition that holds decides.
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
