//! Errors of decisions on pending calls.

/// The reason why a run that waits for an approval cannot continue. No call was executed, and the run still waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The agent waits for no approval. It never did, it has continued already, or another run has started.
    #[error("the agent waits for no approval")]
    NothingPending,
    /// The call was decided on before, according to the session, which has its outcome.
    #[error(
        "the pending call `{id}` was decided on before: load the session, which has the outcome"
    )]
    AlreadyDecided {
        /// The call's id.
        id: String,
    },
    /// A decision refers to a call that is not pending.
    #[error("no call `{id}` is pending")]
    UnknownCall {
        /// The call's id.
        id: String,
    },
    /// Some calls have no decision, and the decisions are not marked as partial.
    #[error("no decision on the pending calls {}", listed(.ids))]
    Undecided {
        /// The ids of the calls.
        ids: Vec<String>,
    },
    /// A sub-agent inside the call waits. Decide on the sub-agent's calls instead.
    #[error("a sub-agent waits inside the call `{id}`; decide on its calls with `nested`")]
    Nested {
        /// The call's id.
        id: String,
    },
    /// No sub-agent inside the call waits.
    #[error("no sub-agent waits inside the call `{id}`; decide on the call itself")]
    NotNested {
        /// The call's id.
        id: String,
    },
    /// The edited arguments are invalid for the tool.
    #[error("the edited arguments of the call `{id}` do not fit: {reason}")]
    InvalidInput {
        /// The call's id.
        id: String,
        /// The reason why they are invalid.
        reason: String,
    },
    /// The stored state is inconsistent. Its conversation does not end with the results of a response that made the
    /// pending calls.
    #[error("the pending state is not whole: {reason}")]
    Malformed {
        /// The inconsistency.
        reason: String,
    },
    /// The agent signs its approval requests, and the call's signature is missing, invalid or expired.
    #[error("the pending call `{id}` {reason}")]
    Signature {
        /// The call's id.
        id: String,
        /// The problem of the signature.
        reason: &'static str,
    },
    /// A newer release wrote the stored state.
    #[error("the pending state has version {found}; this release reads up to {supported}")]
    UnsupportedVersion {
        /// The version of the state.
        found: u32,
        /// The newest supported version.
        supported: u32,
    },
}

fn listed(ids: &[String]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}
