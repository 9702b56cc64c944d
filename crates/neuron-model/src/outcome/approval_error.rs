//! Errors of decisions on pending calls.

/// The reason why a run that waits for an approval cannot continue with the given decisions.
///
/// After this error, no pending call was executed, and the run still waits.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/approval_error.md")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The agent does not wait for an approval. Possible reasons are that no call needed an approval, that the run has
    /// already continued, or that a new run was started.
    #[error("the agent waits for no approval")]
    NothingPending,
    /// The call was decided on before. The stored session contains the outcome of the call.
    #[error(
        "the pending call `{id}` was decided on before: load the session, which has the outcome"
    )]
    AlreadyDecided {
        /// Id of the call.
        id: String,
    },
    /// A decision refers to a call that is not pending.
    #[error("no call `{id}` is pending")]
    UnknownCall {
        /// Id of the call to which the decision refers.
        id: String,
    },
    /// A decision is on a call that does not wait for it. It came too late or a second time, or the call is another one
    /// now. The decision has no effect.
    #[error("the decision `{id}` is on no pending call: {reason}")]
    NotPending {
        /// The [approval id](crate::PendingCall::approval_id) in the decision.
        id: String,
        /// What happened to the call.
        reason: &'static str,
    },
    /// A decision names its call by the id that the model gave to it, and several calls of the conversation have this
    /// id, or the call has another decision too.
    #[error(
        "the decision `{id}` does not name one call: decide by the `approval_id` of the pending call"
    )]
    AmbiguousCall {
        /// The id in the decision.
        id: String,
    },
    /// Some pending calls have no decision, and the decisions are not marked as partial.
    #[error("no decision on the pending calls {}", listed(.ids))]
    Undecided {
        /// Ids of the calls without a decision.
        ids: Vec<String>,
    },
    /// The decision is on a call inside which a sub-agent waits. Decide on the sub-agent's calls instead.
    #[error("a sub-agent waits inside the call `{id}`; decide on its calls with `nested`")]
    Nested {
        /// Id of the call.
        id: String,
    },
    /// The decision on a call contains decisions for a sub-agent, and no sub-agent waits inside the call. Decide on the
    /// call itself instead.
    #[error("no sub-agent waits inside the call `{id}`; decide on the call itself")]
    NotNested {
        /// Id of the call.
        id: String,
    },
    /// The edited arguments of a call are invalid for its tool.
    #[error("the edited arguments of the call `{id}` do not fit: {reason}")]
    InvalidInput {
        /// Id of the call.
        id: String,
        /// The reason why the arguments are invalid.
        reason: String,
    },
    /// The stored state of the run is inconsistent. For example, the conversation lacks the response that made the
    /// pending calls.
    #[error("the pending state is not whole: {reason}")]
    Malformed {
        /// Description of the inconsistency in the stored state.
        reason: String,
    },
    /// The agent signs its approval requests, and the signature of a pending call is missing, invalid or expired.
    #[error("the pending call `{id}` {reason}")]
    Signature {
        /// Id of the call.
        id: String,
        /// The problem of the signature, for example that it has expired.
        reason: &'static str,
    },
    /// The stored state of the run was written by a newer release.
    #[error("the pending state has version {found}; this release reads up to {supported}")]
    UnsupportedVersion {
        /// The format version of the stored state.
        found: u32,
        /// The newest format version that this release supports.
        supported: u32,
    },
}

fn listed(ids: &[String]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}
