//! Why a run that waits for an approval cannot go on.

/// Why a run that waits for an approval cannot go on. Nothing was executed, and the run still waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The agent waits for no approval: it never did, it went on already, or another run began.
    #[error("the agent waits for no approval")]
    NothingPending,
    /// The session says that the call was decided on before. Its outcome is there.
    #[error(
        "the pending call `{id}` was decided on before: load the session, which has the outcome"
    )]
    AlreadyDecided {
        /// The call's id.
        id: String,
    },
    /// A decision is on a call that is not pending.
    #[error("no call `{id}` is pending")]
    UnknownCall {
        /// The call's id.
        id: String,
    },
    /// Calls have no decision, and the decisions are not declared as partial.
    #[error("no decision on the pending calls {}", listed(.ids))]
    Undecided {
        /// The ids of the calls.
        ids: Vec<String>,
    },
    /// A sub-agent waits inside the call: its calls are what to decide on.
    #[error("a sub-agent waits inside the call `{id}`; decide on its calls with `nested`")]
    Nested {
        /// The call's id.
        id: String,
    },
    /// No sub-agent waits inside the call.
    #[error("no sub-agent waits inside the call `{id}`; decide on the call itself")]
    NotNested {
        /// The call's id.
        id: String,
    },
    /// The edited arguments are not what the tool takes.
    #[error("the edited arguments of the call `{id}` do not fit: {reason}")]
    InvalidInput {
        /// The call's id.
        id: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The stored state does not fit together: its conversation does not end with the results of
    /// an answer that made the pending calls.
    #[error("the pending state is not whole: {reason}")]
    Malformed {
        /// What does not fit.
        reason: String,
    },
    /// The agent signs its questions, and this is none of them, or is too old. It cannot be decided
    /// on.
    #[error("the pending call `{id}` {reason}")]
    Signature {
        /// The call's id.
        id: String,
        /// What is wrong with the signature.
        reason: &'static str,
    },
    /// The stored state was written by a newer version.
    #[error("the pending state has version {found}; this release reads up to {supported}")]
    UnsupportedVersion {
        /// The version of the state.
        found: u32,
        /// The newest that can be read.
        supported: u32,
    },
}

fn listed(ids: &[String]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}
