//! Whether a condition holds, or why that cannot be told.

/// Whether a condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Yes,
    No,
    /// Why it cannot be told.
    Unknown(String),
}

impl Finding {
    pub(super) fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// Whether both hold. What surely does not hold decides.
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

    /// Whether one of the two holds. What surely holds decides.
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
